"use strict";
// The page of acpctl web. The server says what has changed (EventSource "events"); this draws it.
// Whatever a peer wrote becomes text nodes and nothing else.
(() => {
  const MAX_LOG = 150;      // messages that are drawn
  const MAX_KEPT = 300;     // of all messages, and of one conversation
  const MAX_THREADS = 80;
  const MAX_PEERS = 60;     // in the picture
  const DRAW_PAUSE = 250;   // milliseconds between two drawings of messages

  const parts = new Map();  // part -> Map of key -> row
  const about = new Map();  // part -> {more, problem}
  let skew = 0;             // milliseconds that the server's clock is ahead
  const wide = new Set();   // lists that are shown whole
  const sure = new Set();   // approvals of which "always" was chosen, and not yet confirmed
  const busy = new Set();   // what was sent and not answered yet

  const $ = (id) => document.getElementById(id);
  let stopped = 0;          // when what is shown ceased to be true, in milliseconds; 0: it is true
  const now = () => stopped || Date.now() + skew;

  // ---------------------------------------------------------------- making elements

  // h makes an element. Strings among the children become text.
  function h(tag, attributes, ...children) {
    const e = document.createElement(tag);
    setAttributes(e, attributes || {});
    e.append(...children.filter((c) => c != null && c !== false && c !== ""));
    return e;
  }
  function svg(tag, attributes) {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    setAttributes(e, attributes);
    return e;
  }
  // setAttributes sets attributes, with true as one that has no value; with false or null it removes one.
  function setAttributes(e, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value == null) e.removeAttribute(name);
      else e.setAttribute(name, value === true ? "" : value);
    }
  }
  // said is text that somebody else wrote, which has a direction of its own.
  const said = (text, cls) => h("span", { class: "said-by " + (cls || ""), dir: "auto" }, text);
  const tag = (text, tone) => h("span", { class: "tag", "data-tone": tone }, text);
  const button = (act, text, label, cls, click) => {
    const b = h("button", { type: "button", "data-act": act, "aria-label": label, class: cls }, text);
    b.addEventListener("click", click);
    return b;
  };
  const setText = (e, text) => { if (e.textContent !== text) e.textContent = text; };

  // fill makes the children of a list be those of rows, in their order. draw returns the children of
  // one; it is called again only if the row is another object, or stale says so.
  function fill(list, rows, draw, attributes, stale) {
    const kept = list.kept || (list.kept = new Map());
    const wanted = new Set(rows.map((r) => r.k));
    for (const [k, e] of kept) if (!wanted.has(k)) { e.remove(); kept.delete(k); }
    rows.forEach((row, i) => {
      let e = kept.get(row.k);
      if (!e) kept.set(row.k, e = document.createElement(list.tagName === "UL" ? "li" : "div"));
      if (e.row !== row || (stale && stale(row, e))) {
        const focused = e.contains(document.activeElement) ? document.activeElement.dataset.act : "";
        e.row = row;
        e.replaceChildren(...draw(row, e).filter(Boolean));
        if (attributes) setAttributes(e, attributes(row));
        if (focused) for (const b of e.querySelectorAll("[data-act]")) if (b.dataset.act === focused) b.focus();
      }
      if (list.children[i] !== e) list.insertBefore(e, list.children[i] || null);
    });
  }

  // ---------------------------------------------------------------- words

  const two = (n) => String(n).padStart(2, "0");
  function age(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + two(s % 60) + " s";
    if (s < 86400) return Math.floor(s / 3600) + " h " + two(Math.floor(s / 60) % 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor(s / 3600) % 24 + " h";
  }
  function took(us) {
    if (us < 1000) return us + " µs";
    if (us < 1e6) return Math.round(us / 1000) + " ms";
    if (us < 6e7) return (us / 1e6).toFixed(1) + " s";
    return age(us / 1000);
  }
  function clock(at) {
    const d = new Date(at);
    const time = two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
    return Math.abs(now() - d) < 20 * 3600e3 ? time : d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + time;
  }
  function bytes(n) {
    for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
      if (n >= size) return (n / size).toFixed(n % size ? 1 : 0) + " " + unit;
    }
    return n + (n === 1 ? " byte" : " bytes");
  }
  const count = (n, one, more) => n + " " + (n === 1 ? one : more || one + "s");
  // since is an age that goes on.
  const since = (at, cls) => h("span", { class: "num " + (cls || ""), "data-since": Date.parse(at) }, age(now() - Date.parse(at)));
  const isTime = (at) => !!at && !at.startsWith("0001-");

  setInterval(() => {
    if (document.hidden || stopped) return;
    for (const e of document.querySelectorAll("[data-since]")) setText(e, age(now() - e.dataset.since));
  }, 1000);

  const rows = (part) => [...(parts.get(part) || new Map()).values()];
  const byPlace = (a, b) => a.place - b.place;

  // ---------------------------------------------------------------- who waits for whom

  const nameOf = (p) => p.here ? p.agent || "a program here" : p.agent ? p.peer + "/" + p.agent : p.peer;
  const party = (p) => h("span", {}, said(nameOf(p), "party"), p.here && p.agent ? h("span", { class: "soft" }, " (here)") : "");
  const notice = (r) => (r.kind === "notify" ? "notice" : r.kind) + " of ";
  const isMine = (r) => !!r.approval && !r.approved;

  function drawWaiting() {
    const all = rows("waiting").sort((a, b) => (Date.parse(a.since) || 0) - (Date.parse(b.since) || 0) || (a.k < b.k ? -1 : 1));
    const mine = all.filter(isMine).length;
    const calls = all.filter((r) => !r.notice), notices = all.filter((r) => r.notice && isMine(r));
    const ours = mine - notices.length, missing = calls.filter((r) => r.missing).length;
    const sum = $("waiting-sum");
    if (!parts.has("waiting")) setText(sum, "…");
    else {
      const r = calls[0];
      sum.replaceChildren(
        r ? "" : "Nobody is waiting. ",
        all.length ? "" : h("span", { class: "soft" }, "Queries, delegations and approvals are here as long as they are open."),
        calls.length > 1 ? h("span", {}, h("strong", {}, String(calls.length)), " calls wait. The longest: ") : "",
        r ? h("span", {}, h("strong", {}, said(nameOf(r.who))), " waits for ", h("strong", {}, said(nameOf(r.whom))),
          r.since ? ", for " : "", r.since ? since(r.since) : "", r.missing ? h("span", { class: "tone-warn" }, ", and ", said(r.missing), " is not connected") : "", ".") : "",
        missing && calls.length > 1 ? h("span", { class: "tone-warn" }, " " + count(missing, "is", "are") + " with a peer that is not connected.") : "",
        ours ? h("span", { class: "tone-warn" }, " " + count(ours, "waits", "wait") + " for your word.") : "",
        notices.length ? h("span", { class: "tone-warn" }, " ", notices.length > 1 ? notices.length + " notices wait" : h("span", {}, "A " + notice(notices[0]), said(nameOf(notices[0].who)), " waits"), " for your word.") : "");
    }
    fill($("waiting-list"), all, drawWait, (r) => ({ "data-mine": isMine(r), "data-missing": r.missing !== "" }), (r) => r.approval);
    setCount("waiting", all.length, mine || missing ? "warn" : "");
    document.title = (mine ? "(" + mine + ") " : "") + ($("name").textContent || "acpd") + " · acpd";
  }

  function drawWait(r) {
    const late = r.deadline && Date.parse(r.deadline) < now();
    const old = r.since && now() - Date.parse(r.since) > 60e3;
    const detail = [tag(r.kind), r.asked ? tag("question back") : "", r.state && r.state !== "accepted" ? tag(r.state, "warn") : "", r.thread ? h("span", { class: "tag" }, "thread ", said(r.thread)) : ""];
    if (r.progress != null) detail.push(h("progress", { max: 1, value: r.progress, "aria-label": "progress" }), h("span", { class: "num" }, Math.round(r.progress * 100) + " %"));
    if (r.message) detail.push(said(r.message));
    if (late) detail.push(tag("past its deadline", "bad"));
    if (r.missing) {
      detail.push(h("span", { class: "tone-warn" }, "⚠ ", said(r.missing), " is not connected",
        r.missing_since ? " since " + clock(r.missing_since) : r.missing_seen ? ", seen last at " + clock(r.missing_seen) : ""));
    }
    if (r.approval) detail.push(...drawApproval(r));
    return [
      r.notice
        ? h("div", { class: "pair" }, h("span", {}, "a " + notice(r), said(nameOf(r.who), "party")), h("span", { class: "soft" }, "for"), party(r.whom), h("span", { class: "soft" }, r.approved ? "waits for its turn" : "waits for your word"))
        : h("div", { class: "pair" }, party(r.who), h("span", { class: "soft" }, "waits for"), party(r.whom)),
      h("div", { class: "age", "data-tone": old || r.missing ? "warn" : "" }, r.since ? since(r.since) : "", h("small", {}, r.since ? "since " + clock(r.since) : "since before")),
      r.text ? h("div", { class: "text", dir: "auto" }, r.text) : null,
      h("div", { class: "detail" }, ...detail.filter(Boolean)),
    ];
  }

  function drawApproval(r) {
    const of = nameOf(r.who) + "’s " + r.kind + " to " + r.session;
    const send = (answer) => act("decide", { id: r.approval, answer, sure: answer === "always" }, r.approval,
      { yes: "Yes: it wakes " + r.session + ".", no: "No: it wakes nobody.", always: "Always: such messages wake " + r.session + " from now on." }[answer]);
    if (r.approved) {
      const back = button("no", "Take it back", "Take the yes for " + of + " back", "quiet", () => send("no"));
      back.disabled = !!stopped;
      return [tag("has your yes", "good"), h("span", { class: "soft" }, r.kept_by ? "waits for room: " + r.kept_by + (r.kept_until ? ", until " + clock(r.kept_until) : "") : "waits for its turn"), back];
    }
    const off = busy.has(r.approval) || stopped;
    const ask = sure.has(r.approval);
    const buttons = ask
      ? [h("span", {}, "Every ", said(r.kind), " of ", said(nameOf(r.who)), " wakes ", said(r.session), " without asking?"),
        button("sure", "Yes, always", "Yes, always: " + of, "", () => { sure.delete(r.approval); send("always"); }),
        button("back", "Back", "Back, and not always", "", () => { sure.delete(r.approval); drawWaiting(); focusOn(r.k, "yes"); })]
      : [button("yes", "Yes", "Yes: " + of + " wakes it", "main", () => send("yes")),
        button("no", "No", "No: " + of + " does not wake it", "", () => send("no")),
        button("always", "Always…", "Always let such messages wake it; this is asked once more", "quiet", () => { sure.add(r.approval); drawWaiting(); focusOn(r.k, "back"); })];
    for (const b of buttons) if (b.tagName === "BUTTON") b.disabled = !!off;
    return [tag("may it wake " + r.session + "?", "warn"), h("span", { class: "buttons" }, ...buttons)];
  }

  function focusOn(key, name) {
    const e = ($("waiting-list").kept || new Map()).get(key);
    if (e) for (const b of e.querySelectorAll("[data-act]")) if (b.dataset.act === name) b.focus();
  }

  // act has the server do something, and says what came of it.
  async function act(path, body, key, done) {
    busy.add(key);
    dirty("waiting", "agents");
    let text = done;
    try {
      const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      if (!answer.ok) text = "That did not work: " + await answer.text();
    } catch {
      text = "That did not work: acpctl web does not answer.";
    }
    busy.delete(key);
    dirty("waiting", "agents");
    announce(text);
  }
  let silence;
  function announce(text) {
    setText($("said"), text);
    clearTimeout(silence);
    silence = setTimeout(() => setText($("said"), ""), 6000);
  }

  // ---------------------------------------------------------------- the daemon, and what is wrong

  function drawDaemon() {
    const d = rows("daemon")[0];
    if (!d) return;
    setText($("name"), d.name || d.id);
    $("about").replaceChildren(
      h("span", { class: "mono" }, d.id), " · ", d.version, " · ",
      d.drain ? "draining" : d.ready ? d.state : "not ready", " · up ", since(d.since), " · ",
      h("span", { class: "num" }, d.in.toLocaleString("en")), " in, ", h("span", { class: "num" }, d.out.toLocaleString("en")), " out");
    setText($("hub-name"), d.name || d.id);
    dirty("waiting");
  }
  function drawWarnings() {
    const all = rows("warnings").sort(byPlace);
    $("warnings").hidden = !all.length;
    document.querySelector("[data-nav=warnings]").hidden = !all.length;
    setCount("warnings", all.length, "warn");
    fill($("warnings-list"), all, (r) => [said(r.text)]);
  }
  function drawRelays() {
    fill($("relays"), rows("relays"), (r) => [h("div", { class: "line1" }, h("span", {}, "relay ", said(r.name, "title")),
      tag(r.state, r.state === "up" ? "good" : r.state === "connecting" ? "warn" : "bad"), said(r.url, "soft"), r.error ? said(r.error, "tone-bad") : "")]);
  }

  // ---------------------------------------------------------------- the picture

  const labelOf = (p) => p.name || p.claim || p.id;
  function drawPeers() {
    const all = rows("peers");
    const byName = (a, b) => labelOf(a).localeCompare(labelOf(b), "en", { numeric: true }) || (a.k < b.k ? -1 : 1);
    const known = all.filter((p) => p.state === "connected" || p.state === "trusted").sort(byName);
    const calling = all.filter((p) => p.state === "pending").length;
    const around = all.filter((p) => p.state === "discovered").length;
    const strangers = [calling ? count(calling, "stranger has", "strangers have") + " called" : "", around ? count(around, "daemon is", "daemons are") + " on the network" : ""].filter(Boolean);
    $("strangers").hidden = !strangers.length;
    $("strangers").replaceChildren(strangers.join(", "), ": ", h("code", {}, "acpctl peers"), " shows who, ", h("code", {}, "acpctl trust"), " makes one a peer.");
    const empty = parts.has("peers") && !known.length;
    $("network-empty").hidden = !empty;
    $("picture").hidden = empty;
    $("legend").hidden = !known.length;
    const connected = known.filter((p) => p.state === "connected").length;
    setCount("peers", known.length ? connected + "/" + known.length : "");
    // A peer keeps its place whatever its state, unless there are more than fit: then those go that are not connected.
    const order = (p) => p.state === "connected" ? 0 : 1;
    layOut(known.length <= MAX_PEERS ? known : [...known].sort((a, b) => order(a) - order(b) || byName(a, b)).slice(0, MAX_PEERS).sort(byName));
    if (known.length > MAX_PEERS) { $("strangers").hidden = false; $("strangers").prepend(count(known.length - MAX_PEERS, "peer") + " more. "); }
  }

  function layOut(known) {
    const box = $("picture"), W = box.clientWidth;
    if (!W) return;
    const narrow = W < 560, n = known.length, dense = n > (narrow ? 10 : 16);
    box.toggleAttribute("data-dense", dense);
    box.toggleAttribute("data-narrow", narrow);
    const pillH = dense ? 26 : 46, gap = dense ? 4 : 14, right = Math.ceil(n / 2), left = n - right;
    const H = Math.max(120, right * (pillH + gap) + 12);
    const pillW = narrow ? Math.min(124, (W - 104) / 2) : Math.min(dense ? 200 : 190, (W - 200) / 2);
    box.style.height = H + "px";
    $("hub").style.top = H / 2 + "px";
    $("lines").setAttribute("viewBox", "0 0 " + W + " " + H);
    const far = W / 2 - pillW / 2 - 2, near = narrow ? far : Math.max(pillW / 2 + 24, far * 0.62);
    known.forEach((p, i) => {
      const side = i < right ? 1 : -1, k = side > 0 ? right : left, j = side > 0 ? i : i - right;
      const y = H / 2 + (j - (k - 1) / 2) * (pillH + gap);
      const t = Math.abs(y - H / 2) / (H / 2);
      const x = W / 2 + side * (near + (far - near) * Math.sqrt(1 - t * t));
      p.at = { x, y, side, edge: x - side * pillW / 2, pillW, pillH };
    });
    fill($("peers"), known, drawPeer, (p) => ({ class: "peer", "data-path": p.path, "data-refuses": p.refuses }), (p, e) => e.only !== (only === p.k));
    for (const p of known) {
      const e = $("peers").kept.get(p.k);
      e.style.width = p.at.pillW + "px";
      e.style.height = p.at.pillH + "px";
      e.style.left = p.at.x - p.at.pillW / 2 + "px";
      e.style.top = p.at.y - p.at.pillH / 2 + "px";
    }
    drawLines(known, W / 2, H / 2);
  }
  const lineOf = new Map(); // peer -> path element
  function drawLines(known, cx, cy) {
    const wanted = new Set(known.map((p) => p.k));
    for (const [k, e] of lineOf) if (!wanted.has(k)) { e.remove(); lineOf.delete(k); }
    for (const p of known) {
      let e = lineOf.get(p.k);
      if (!e) { e = svg("path", { class: "line" }); lineOf.set(p.k, e); $("lines").append(e); }
      const { y, edge } = p.at, dx = edge - cx;
      e.setAttribute("d", `M${cx} ${cy}C${cx + dx * 0.45} ${cy} ${edge - dx * 0.45} ${y} ${edge} ${y}`);
      e.setAttribute("data-path", p.state === "connected" ? p.path || "direct" : "");
    }
  }
  function drawPeer(p, e) {
    e.only = only === p.k;
    const rtt = p.rtt_us != null ? took(p.rtt_us) : "";
    const how = p.refuses ? "does not trust this daemon" : p.state === "connected" ? [p.path, rtt].filter(Boolean).join(" · ") : "not connected";
    const b = button("only", "", null, "", () => showOnly(only === p.k ? "" : p.k));
    b.setAttribute("aria-pressed", String(e.only));
    b.title = [labelOf(p), p.id, p.addr, p.software, p.seen ? "seen " + clock(p.seen) : ""].filter(Boolean).join("\n");
    b.append(h("span", { class: "name" }, said(labelOf(p))), h("span", { class: "how" }, how));
    return [b];
  }
  let flashed = new Set();
  function flash(ids) {
    for (const k of ids) { const e = lineOf.get(k); if (e) { e.setAttribute("data-busy", ""); flashed.add(e); } }
    if (flashed.size) setTimeout(() => { for (const e of flashed) e.removeAttribute("data-busy"); flashed = new Set(); }, 500);
  }
  new ResizeObserver(() => dirty("peers")).observe($("picture").parentElement);

  // ---------------------------------------------------------------- messages

  let recent = [];          // the newest lines
  const threads = new Map();
  let chosen = "";          // key of the conversation that is shown; "": all messages
  let only = "";            // id of the peer whose messages are shown; "": all
  let unseen = 0;           // messages that came while somebody reads older ones
  let started = null;

  function addLines(lines, skipped) {
    if (skipped) recent.push({ k: "s" + lines[0].n, at: lines[0].at, skipped });
    const ids = new Set();
    for (const l of lines) {
      l.k = "l" + l.n;
      recent.push(l);
      if (!started) started = l.at;
      if (!l.dir) continue;
      ids.add(l.id);
      const key = l.thread ? "t" + l.id + " " + l.thread : "p" + l.id;
      let t = threads.get(key);
      if (!t) threads.set(key, t = { k: key, id: l.id, name: l.thread || l.peer, sub: l.thread ? l.peer : "", lines: [], count: 0 });
      t.lines.push(l);
      t.count++;
      t.last = l;
      if (t.lines.length > MAX_KEPT) t.lines.splice(0, t.lines.length - MAX_KEPT);
      threads.delete(key); // the newest is last
      threads.set(key, t);
    }
    if (recent.length > MAX_KEPT) recent.splice(0, recent.length - MAX_KEPT);
    for (const key of threads.keys()) {
      if (threads.size <= MAX_THREADS) break;
      if (key !== chosen) threads.delete(key);
    }
    unseen += lines.length;
    flash(ids);
    dirty("messages");
  }

  const log = $("log");
  const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 48;
  let follows = true;       // the log shows the newest
  let placed = 0;           // where it was scrolled to for that
  log.addEventListener("scroll", () => {
    if (log.scrollTop === placed) return;
    follows = isAtEnd();
    if (follows && unseen) dirty("messages");
  });
  $("newest").addEventListener("click", () => { follows = true; drawMessages(); log.focus(); });

  function showOnly(id) {
    only = id;
    chosen = "";
    follows = true;
    dirty("peers", "messages");
    if (id) $("messages").scrollIntoView({ block: "nearest" });
  }
  function choose(key) {
    chosen = key;
    follows = true;
    drawMessages();
  }
  $("only").addEventListener("click", () => showOnly(""));

  function drawMessages() {
    drawThreads();
    const t = threads.get(chosen);
    if (chosen && !t) chosen = "";
    const lines = (t ? t.lines : only ? recent.filter((l) => l.id === only) : recent).slice(-MAX_LOG);
    const peer = only && (parts.get("peers") || new Map()).get(only);
    $("only").hidden = !only;
    if (only) setText($("only"), "only " + (peer ? labelOf(peer) : "one peer") + " ✕");
    setText($("messages-since"), started ? "since " + clock(started) : "");
    if (!follows && log.shown === chosen + only) {
      $("newest").hidden = !unseen;
      setText($("newest"), count(unseen, "new message"));
      return;
    }
    log.shown = chosen + only;
    unseen = 0;
    $("newest").hidden = true;
    setEmpty("lines", threads.size, true);
    const talk = log.closest(".talk");
    talk.hidden = !recent.length;
    talk.toggleAttribute("data-events", !threads.size); // and no message
    if (!lines.length) {
      fill(log, [{ k: "none" }], () => [h("p", { class: "empty" }, "No message is here.")]);
      return;
    }
    fill(log, lines.map((l) => ({ k: (t ? "b" : "r") + l.k, l })), (r) => [t ? drawBubbles(r.l) : drawRow(r.l)], null, (r, e) => e.line !== r.l && (e.line = r.l, true));
    log.scrollTop = log.scrollHeight;
    placed = log.scrollTop;
  }

  function drawThreads() {
    const list = $("threads");
    const found = [...threads.values()].reverse().filter((t) => !only || t.id === only);
    // Nothing moves beneath a pointer or the focus.
    if (list.kept && list.matches(":hover, :focus-within")) {
      const place = new Map([...list.kept.keys()].map((k, i) => [k, i]));
      found.sort((a, b) => (place.get("c" + a.k) ?? 1e6) - (place.get("c" + b.k) ?? 1e6));
    }
    const items = [{ k: "c", name: "All messages", sub: "as they pass", key: "" }].concat(found.map((t) => ({ k: "c" + t.k, key: t.k, name: t.name, sub: t.sub, count: t.count, last: t.last })));
    const same = (a, b) => a && a.count === b.count && a.pressed === (chosen === b.key);
    fill(list, items, (t, e) => {
      e.shownAs = { count: t.count, pressed: chosen === t.key };
      const b = button("choose", "", null, "", () => choose(t.key));
      b.setAttribute("aria-pressed", String(chosen === t.key));
      b.append(h("span", { class: "t" }, said(t.name), t.count ? h("span", { class: "c num" }, String(t.count)) : ""));
      b.append(h("span", { class: "l" }, said([t.sub, t.last && (t.last.answer || t.last.text)].filter(Boolean).join(" · "))));
      return [b];
    }, null, null, (t, e) => same(e.shownAs, t));
  }

  const toneOf = (outcome) => ["ok", "handed", "sent"].includes(outcome) ? "" : outcome === "held" ? "warn" : "bad";
  const route = (l) => {
    const here = l.dir === "out" ? l.from : l.to, there = l.peer + (l.dir === "out" ? (l.to ? "/" + l.to : "") : (l.from ? "/" + l.from : ""));
    return l.dir === "out" ? [said(here || "here"), " → ", said(there)] : [said(there), " → ", said(here || "here")];
  };
  const eventWords = {
    up: "is connected", down: "is no longer connected", moved: "has another path", refused: "does not trust this daemon", discovered: "is on the network", lost: "has left the network",
    pending: "is a stranger that called", trust: "is trusted, or its name has changed", identity_conflict: "shows another key", mail: "mail", budget: "a bound was reached", relay: "relay", approval: "waits for your word",
  };

  function drawRow(l) {
    const when = h("span", { class: "when num" }, clock(l.at));
    if (l.skipped || l.lost) {
      return h("div", { class: "row", "data-quiet": true }, when, h("div", { class: "what" }, "… " + count(l.skipped || l.lost, "message") + (l.lost ? " not shown: they passed while no page was open, or were more than the daemon keeps" : " not shown: too many at once")));
    }
    if (l.event) {
      return h("div", { class: "row", "data-quiet": true }, when, h("div", { class: "what" }, l.peer ? said(l.peer, "title") : "", l.peer ? " " : "", eventWords[l.event] || l.event, l.text ? " · " : "", l.text ? said(l.text) : ""));
    }
    return h("div", { class: "row" }, when,
      h("div", { class: "what" },
        h("div", { class: "route" }, ...route(l), tag(l.kind), l.topic ? h("span", { class: "tag" }, said(l.topic)) : ""),
        l.text ? h("div", { class: "text", dir: "auto" }, l.text) : "",
        l.answer ? h("div", { class: "words" }, "↳ ", said(l.answer)) : ""),
      h("div", { class: "out num " + (toneOf(l.outcome) ? "tone-" + toneOf(l.outcome) : "soft") }, h("span", {}, l.outcome), h("span", {}, took(l.took_us || 0))));
  }
  function drawBubbles(l) {
    const mine = l.dir === "out";
    const here = mine ? l.from : l.to, there = mine ? l.to : l.from;
    const who = (own) => h("b", {}, said((own ? here : there ? l.peer + "/" + there : l.peer) || "here"));
    const first = h("div", { class: "bubble" + (mine ? " mine" : "") },
      h("div", { class: "meta" }, who(mine), tag(l.kind), l.topic ? said(l.topic) : "", l.answer ? "" : h("span", { class: "num" }, clock(l.at)),
        h("span", { class: "num " + (toneOf(l.outcome) ? "tone-" + toneOf(l.outcome) : "") }, l.outcome + (l.answer ? "" : " · " + took(l.took_us || 0)))),
      h("div", { dir: "auto" }, l.text));
    if (!l.answer) return h("div", {}, first);
    return h("div", {}, first, h("div", { class: "bubble" + (mine ? "" : " mine") },
      h("div", { class: "meta" }, who(!mine), h("span", { class: "num" }, clock(l.at)), h("span", { class: "num" }, "after " + took(l.took_us || 0))), h("div", { dir: "auto" }, l.answer)));
  }

  // ---------------------------------------------------------------- agents, delegations and the rest

  function drawAgents() {
    const list = rows("agents").sort((a, b) => !!b.harness - !!a.harness || (a.name < b.name ? -1 : 1));
    fill($("agents-list"), list, drawAgent, null, (a, e) => a.muted || busy.has(a.name) || e.stopped !== !!stopped);
    setEmpty("agents", list.length);
    setCount("agents", list.length || "");
    setText($("hub-sub"), count(list.length, "agent"));
  }
  function drawAgent(a, e) {
    e.stopped = !!stopped;
    const muted = a.muted && Date.parse(a.muted) > now();
    const does = [...(a.domains || []), ...(a.topics || []).map((t) => "topic " + t)];
    const woken = [a.hour ? count(a.hour, "time") + " in the last hour" : "", a.day ? count(a.day, "time") + " in a day" : ""].filter(Boolean);
    const by = (a.by || []).map((b) => b.name + " " + b.day + (b.used_up ? ", whose share is used up until " + clock(b.used_up) : ""));
    const mute = (secs, done) => act("mute", { name: a.k, secs }, a.name, done);
    const change = muted ? button("unmute", "Unmute", "Unmute " + a.name, "quiet", () => mute(0, a.name + " may be woken again."))
      : button("mute", "Mute for an hour", "Mute " + a.name + " for an hour", "quiet", () => mute(3600, "Nothing wakes " + a.name + " for an hour."));
    change.disabled = !!stopped;
    return [
      h("div", { class: "line1" }, said(a.name, "title"), a.harness ? tag(a.harness, "good") : "", muted ? tag("muted", "warn") : "",
        h("span", { class: "right num soft small" }, a.active ? a.active + " of " + a.most + " at work" : "idle")),
      h("div", { class: "line2" }, a.harness ? "" : h("span", {}, "answers ", said((a.kinds || []).join(", "))), does.length ? h("span", {}, a.harness ? "" : " · ", said(does.join(", "))) : ""),
      a.harness ? h("div", { class: "line2" }, woken.length ? "woken " + woken.join(", ") : "not woken today", by.length ? h("span", {}, " by ", said(by.join(", "))) : "", a.waiting ? " · " + count(a.waiting, "message waits", "messages wait") + " to wake it" : "") : null,
      a.unwakeable ? h("div", { class: "line2 tone-warn" }, "cannot be woken: ", said(a.unwakeable)) : null,
      a.refused ? h("div", { class: "line2 tone-warn" }, "was not woken: ", said(a.refused)) : null,
      a.harness ? h("div", { class: "buttons line2" },
        muted ? h("span", {}, "nothing wakes it until ", h("span", { class: "num" }, clock(a.muted))) : "",
        change) : null,
    ];
  }
  function drawSpent() {
    const list = rows("spent").sort((a, b) => b.cost - a.cost || b.tokens - a.tokens);
    $("spent").hidden = !list.length;
    const part = (r) => Math.max(r.most_cost ? r.cost / r.most_cost : 0, r.most_runs ? r.runs / r.most_runs : 0, r.most_tokens ? r.tokens / r.most_tokens : 0);
    fill($("spent-list"), list, (r) => [h("div", { class: "bar" },
      h("span", {}, said(r.name, "title"), " · ", said(r.profile)),
      h("span", { class: "num small soft" }, count(r.runs, "run") + ", " + r.tokens.toLocaleString("en") + " tokens, $" + r.cost.toFixed(2) + (r.most_cost ? " of $" + r.most_cost.toFixed(2) : "")),
      h("progress", { max: 1, value: Math.min(1, part(r)), "data-tone": part(r) > 0.8 ? "warn" : "", "aria-label": "part of the day’s bound" }))]);
  }

  function drawTasks() {
    const list = rows("tasks").sort((a, b) => a.over - b.over || a.place - b.place);
    setEmpty("tasks", list.length);
    setCount("tasks", list.filter((t) => !t.over).length || "");
    fill($("tasks-list"), cut("tasks", list, 6), (t) => {
      const there = t.from_agent ? t.peer + "/" + t.from_agent : t.peer;
      const good = t.state === "completed", bad = ["failed", "refused", "expired"].includes(t.state);
      return [
        h("div", { class: "line1" }, t.direction === "given" ? h("span", { class: "title" }, "to ", said(t.agent ? t.peer + "/" + t.agent : t.peer)) : h("span", { class: "title" }, "from ", said(there), t.agent ? " for " : "", t.agent ? said(t.agent) : ""),
          tag(t.state, good ? "good" : bad ? "bad" : t.over ? "" : "warn"), h("span", { class: "right mono soft" }, t.id.slice(0, 8))),
        h("div", { class: "text", dir: "auto" }, t.task),
        t.over ? null : h("div", { class: "line2" }, t.since ? h("span", {}, "since ", h("span", { class: "num" }, clock(t.since)), ", for ", since(t.since)) : "",
          t.progress != null ? (t.since ? " · " : "") + Math.round(t.progress * 100) + " %" : ""), // the bar stands with who waits
        t.outcome ? h("div", { class: "line2" }, "↳ ", said(t.outcome)) : null,
      ];
    });
  }
  function drawHeld() {
    const list = rows("held").sort((a, b) => a.k - b.k);
    setEmpty("held", list.length);
    setCount("held", list.length || "");
    fill($("held-list"), list, (m) => [
      h("div", { class: "line1" }, h("span", { class: "title" }, said(m.agent ? m.from + "/" + m.agent : m.from)), tag(m.kind), h("span", { class: "soft small" }, "for ", said(m.for || "any agent")), h("span", { class: "right num soft small" }, clock(m.sent))),
      h("div", { class: "text", dir: "auto" }, m.text)]);
  }
  function drawChannels() {
    const list = rows("channels").sort((a, b) => b.open - a.open || (b.last || "").localeCompare(a.last || ""));
    setEmpty("channels", list.length);
    setCount("channels", list.filter((c) => c.open).length || "");
    fill($("channels-list"), list, (c) => [
      h("div", { class: "line1" }, said(c.name, "title"), c.open ? "" : tag("closed"), h("span", { class: "right num soft small" }, count(c.count, "message"))),
      h("div", { class: "line2" }, said(c.intent), (c.members || []).length ? h("span", {}, " · ", said(c.members.join(", "))) : "", isTime(c.last) ? " · last " + clock(c.last) : "")]);
  }
  function drawMail() {
    const bindings = rows("bindings"), mail = rows("mail").sort((a, b) => Date.parse(a.since) - Date.parse(b.since));
    setEmpty("mail", bindings.length + mail.length, parts.has("mail") && parts.has("bindings"));
    setCount("mail", mail.filter((m) => m.state !== "delivered").length || "");
    fill($("bindings-list"), bindings, (b) => [h("div", { class: "line1" }, said(b.project + "/" + b.agent, "title"), h("span", { class: "soft" }, "lives at ", said(b.peer)), h("span", { class: "right" }, tag(b.mode)))]);
    fill($("mail-list"), mail, (m) => [
      h("div", { class: "line1" }, said(m.file, "title mono"), tag(m.state, m.state === "parked" ? "bad" : m.state === "waiting" ? "warn" : "good"), h("span", { class: "right num soft small" }, bytes(m.size))),
      h("div", { class: "line2" }, "for ", said(m.project + "/" + m.agent), " at ", said(m.peer), " · ", m.state === "delivered" ? "" : "for ", m.state === "delivered" ? clock(m.since) : since(m.since)),
      m.reason ? h("div", { class: "line2 tone-warn" }, said(m.reason)) : null]);
  }
  function drawBudget() {
    const list = rows("budget").sort((a, b) => b.part - a.part || b.refused - a.refused || (a.k < b.k ? -1 : 1));
    setEmpty("budget", list.length);
    const amount = (r, n) => r.unit ? bytes(n) : n.toLocaleString("en");
    fill($("budget-list"), cut("budget", list, 5), (r) => {
      const free = r.unit === "bytes_free";
      return [h("div", { class: "bar" },
        h("span", {}, r.peer ? said(r.peer, "title") : h("span", { class: "title" }, free ? "the disk" : "all peers"), " · ", said(r.row)),
        h("span", { class: "num small soft" }, amount(r, r.held) + (free ? " free, at least " : r.bound ? " of " : "") + (r.bound ? amount(r, r.bound) : "")),
        r.bound ? h("progress", { max: 1, value: r.part, "data-tone": r.part >= 0.8 ? "warn" : "", "aria-label": "part of the bound that is held" }) : ""),
      h("div", { class: "line2 small" }, said(r.what), r.refused ? h("span", { class: "tone-bad" }, " · refused " + count(r.refused, "time")) : "", r.part >= 0.8 && r.remedy ? h("span", {}, " · ", said(r.remedy)) : "")];
    });
  }

  function cut(part, list, most) {
    const b = $(part + "-all");
    b.hidden = list.length <= most;
    setText(b, wide.has(part) ? "fewer" : "all " + list.length);
    return wide.has(part) ? list : list.slice(0, most);
  }
  for (const part of ["tasks", "budget"]) {
    $(part + "-all").addEventListener("click", () => {
      if (!wide.delete(part)) wide.add(part);
      dirty(part);
    });
  }
  // setEmpty says that a part has nothing, if that is known: it was read, and can be.
  function setEmpty(part, n, known = parts.has(part)) {
    const e = document.querySelector(`[data-empty=${part}]`), a = about.get(part);
    e.hidden = n > 0 || !known || !!(a && a.problem);
    e.closest(".card").toggleAttribute("data-none", !e.hidden);
  }
  function setCount(part, n, tone) {
    const e = document.querySelector(`[data-count=${part}]`);
    setText(e, n ? String(n) : "");
    setAttributes(e, { "data-tone": n && tone ? tone : null });
  }
  function drawNotes() {
    for (const e of document.querySelectorAll("[data-problem]")) {
      const a = about.get(e.dataset.problem);
      e.hidden = !a || !a.problem;
      setText(e, a && a.problem ? "This cannot be read: " + a.problem : "");
    }
    for (const e of document.querySelectorAll("[data-more]")) {
      const a = about.get(e.dataset.more);
      e.hidden = !a || !a.more;
      setText(e, "There is more than is shown here.");
    }
  }

  // ---------------------------------------------------------------- drawing what has changed

  const draws = {
    daemon: drawDaemon, warnings: drawWarnings, relays: drawRelays, waiting: drawWaiting, peers: drawPeers, messages: drawMessages, lines: drawMessages, agents: drawAgents,
    spent: drawSpent, tasks: drawTasks, held: drawHeld, channels: drawChannels, bindings: drawMail, mail: drawMail, budget: drawBudget, notes: drawNotes,
  };
  const due = new Set();
  let planned = false, drawn = 0, pause = DRAW_PAUSE;
  function dirty(...names) {
    for (const n of names) due.add(n);
    if (!planned) { planned = true; setTimeout(draw, 0); }
  }
  function draw() {
    planned = false;
    const early = performance.now() - drawn < pause;
    for (const name of [...due]) {
      if (name === "messages" && early) continue;
      due.delete(name);
      const began = performance.now();
      if (draws[name]) draws[name]();
      if (name === "messages") {
        drawn = performance.now();
        pause = Math.max(DRAW_PAUSE, 5 * (drawn - began)); // on a slow machine drawing leaves time for all else
      }
    }
    if (due.size && !planned) { planned = true; setTimeout(draw, pause); }
  }

  function take(u) {
    skew = Date.parse(u.now) - Date.now();
    if (u.reset) {
      parts.clear(); about.clear(); threads.clear(); recent = []; started = null; unseen = 0; follows = true;
      dirty(...Object.keys(draws));
    }
    if (u.away) {
      away = u.away;
      drawLink();
    }
    for (const p of u.parts || []) {
      let m = parts.get(p.part);
      if (!m) parts.set(p.part, m = new Map());
      for (const k of p.gone || []) m.delete(k);
      for (const r of p.set || []) m.set(r.k, r);
      about.set(p.part, { more: p.more, problem: p.problem });
      dirty(p.part, "notes");
    }
    if (u.lines) addLines(u.lines, u.skipped);
  }

  // ---------------------------------------------------------------- the stream

  let away = { why: "" };   // why the daemon does not answer, and since when
  let failures = 0;         // of the stream, one after the other
  let silent = 0;           // when the stream ceased, in milliseconds; 0: it has not
  let proof = "";           // what the first stream began with
  const MAX_FAILURES = 30;

  // drawLink says whether what is shown is true now, in the chip and everywhere else: ages stop, parts are
  // grey and described by what is wrong, and nothing can be done.
  function drawLink() {
    const ended = failures > MAX_FAILURES;
    const [tone, text, why] = ended ? ["bad", "ended", "acpctl web has ended. Start it again, and open the link that it prints. What is shown here is from before."]
      : failures ? ["warn", failures > 3 ? "acpctl web does not answer" : "connecting again", ""]
      : away.why ? ["bad", "away", "The daemon is away since " + clock(away.since) + ": " + away.why + ". What is shown here is from before; it goes on by itself."]
      : ["good", "live", ""];
    $("link-state").setAttribute("data-tone", tone);
    setText($("link-text"), text);
    $("away").hidden = !why;
    setText($("away"), why);
    const before = stopped;
    stopped = failures ? silent : away.why ? Date.parse(away.since) : 0;
    const main = document.querySelector("main");
    main.toggleAttribute("data-old", !!stopped);
    $("about").toggleAttribute("data-old", !!stopped);
    for (const e of main.querySelectorAll("section")) {
      if (stopped) e.setAttribute("aria-describedby", why ? "away" : "link-text");
      else e.removeAttribute("aria-describedby");
    }
    if (!!stopped !== !!before) dirty("waiting", "agents");
  }
  // fail notes that the stream has failed, so many times: after too many, acpctl web has ended.
  function fail(times) {
    if (!failures) silent = now();
    failures += times;
    drawLink();
    if (failures <= MAX_FAILURES) setTimeout(connect, Math.min(5000, 500 * failures));
  }
  function connect() {
    const source = new EventSource("events");
    let proven = false;
    source.onmessage = (e) => {
      const u = JSON.parse(e.data);
      if (!proven) { // when acpctl web has ended, another program may have its port
        if (!u.proof || (proof && u.proof !== proof)) { source.close(); fail(Infinity); return; }
        proven = true;
        proof = u.proof;
        failures = silent = 0;
        drawLink();
      }
      take(u);
    };
    source.onerror = () => {
      source.close();
      fail(1);
    };
  }
  connect();
})();
