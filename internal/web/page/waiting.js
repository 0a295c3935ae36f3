// Who waits for whom, and since when; calls that lead to others stand as one chain.

import { $, button, fill, focusOn, h, party, said, soft, tag } from "./elements.js";
import { isKnown, now, rows, truth } from "./board.js";
import { clock, count, since } from "./words.js";
import { act, busy } from "./actions.js";
import { setDraw } from "./drawing.js";
import { setCount } from "./sections.js";

const sure = new Set(); // approvals of which "always" was chosen, and not yet confirmed

const nameOf = (p) => p.here ? "here" + (p.agent ? "/" + p.agent : "") : p.agent ? p.peer + "/" + p.agent : p.peer;
const caller = (p) => party(p, "a program here");
const notice = (r) => (r.kind === "notify" ? "notice" : r.kind) + " of ";
const isMine = (r) => !!r.approval && !r.approved;
const byAge = (a, b) => (Date.parse(a.since) || 0) - (Date.parse(b.since) || 0) || (a.k < b.k ? -1 : 1);

// listChains joins calls to those that they follow from: {k, calls: [{r, depth}]}, each call before what
// it has led to. What waits for the owner's word comes first, then what has waited longest.
function listChains(all) {
  const after = new Map(), known = new Set(all.map((r) => r.k)), roots = [], listed = new Set();
  for (const r of all) {
    if (!known.has(r.after)) roots.push(r);
    else if (after.has(r.after)) after.get(r.after).push(r);
    else after.set(r.after, [r]);
  }
  const list = (r, depth) => {
    if (listed.has(r.k)) return [];
    listed.add(r.k);
    return [{ r, depth }].concat((after.get(r.k) || []).sort(byAge).flatMap((next) => list(next, depth + 1)));
  };
  // Each call is there, also if some should follow from each other.
  const chains = roots.sort(byAge).concat(all).map((r) => ({ k: r.k, calls: list(r, 0) })).filter((c) => c.calls.length);
  return chains.filter(hasMine).concat(chains.filter((c) => !hasMine(c)));
}
const hasMine = (chain) => chain.calls.some((c) => isMine(c.r));

function drawWaiting() {
  const all = rows("waiting");
  drawSum(all);
  const chains = listChains(all);
  fill($("waiting-list"), chains, drawChain,
    (c) => ({ "data-mine": hasMine(c), "data-missing": c.calls.some((x) => x.r.missing) }),
    (c, before) => c.calls.length !== before.calls.length || c.calls.some((x, i) => x.r.approval || x.r !== before.calls[i].r || x.depth !== before.calls[i].depth));
  const mine = all.filter(isMine).length;
  setCount("waiting", all.length, mine || all.some((r) => r.missing) ? "warn" : "");
  document.title = (mine ? "(" + mine + ") " : "") + ($("name").textContent || "acpd") + " · acpd";
}
setDraw("waiting", drawWaiting);

// drawSum says in a line how many wait, and what is wrong.
function drawSum(all) {
  const calls = all.filter((r) => !r.notice).sort(byAge), notices = all.filter((r) => r.notice && isMine(r));
  const mine = calls.filter(isMine).length, missing = calls.filter((r) => r.missing);
  const oldest = calls.find((r) => r.since);
  const warn = (...words) => h("span", { class: "tone-warn" }, " ", ...words);
  if (!isKnown("waiting")) return $("waiting-sum").replaceChildren("…");
  $("waiting-sum").replaceChildren(
    calls.length ? h("strong", {}, count(calls.length, "call waits", "calls wait")) : "Nobody is waiting.",
    oldest ? h("span", {}, calls.length > 1 ? ", the longest for " : " for ", since(oldest.since)) : "",
    calls.length ? "." : "",
    all.length ? "" : soft(" Queries, delegations and approvals are here as long as they are open."),
    missing.length ? warn(missing.length === 1 ? [said(missing[0].missing), " is not connected."] : missing.length + " are with peers that are not connected.") : "",
    mine ? warn(count(mine, "waits", "wait") + " for your word.") : "",
    notices.length ? warn(notices.length > 1 ? notices.length + " notices wait" : ["A " + notice(notices[0]), said(nameOf(notices[0].who)), " waits"], " for your word.") : "");
}

// drawChain draws who waits for whom on one line, and each call below it.
function drawChain(chain) {
  const first = chain.calls[0].r, single = chain.calls.length === 1;
  return [
    h("div", { class: "path" }, first.notice ? drawNotice(first) : drawPath(chain.calls)),
    drawAge(first),
    h("div", { class: "calls" }, ...chain.calls.map((c, i) => drawCall(c.r, single, i > 0 && c.r.thread === first.thread))),
  ];
}

// drawPath draws the parties of a chain with arrows between them. Of calls that branch off it counts the others.
function drawPath(calls) {
  const path = [caller(calls[0].r.who)];
  let depth = 0;
  for (const { r, depth: d } of calls) {
    if (d !== depth) continue;
    depth++;
    path.push(h("span", { class: "to" }, h("span", { class: "unseen" }, "waits for")), caller(r.whom));
  }
  if (calls.length > depth) path.push(tag("and " + count(calls.length - depth, "call") + " beside"));
  return path;
}
const drawNotice = (r) => [h("span", {}, "a " + notice(r), caller(r.who)), soft("for"), caller(r.whom), soft(r.approved ? "waits for its turn" : "waits for your word")];

const PATIENCE = 60e3; // milliseconds after which an age stands out
const drawAge = (r) => h("div", { class: "age" }, r.since ? since(r.since, PATIENCE) : "", h("small", {}, r.since ? "since " + clock(r.since) : "since before"));

// drawCall draws what a call says, and how far it has come. In a chain it says who is called, and since when;
// inThread: its thread stands there already.
function drawCall(r, single, inThread) {
  const late = r.deadline && Date.parse(r.deadline) < now();
  const detail = [
    r.asked ? tag("question back") : "", r.state && r.state !== "accepted" ? tag(r.state, "warn") : "",
    r.progress != null ? h("span", { class: "progress" }, h("progress", { max: 1, value: r.progress, "aria-label": "progress" }), h("span", { class: "num" }, Math.round(r.progress * 100) + " %")) : "",
    r.message ? said(r.message) : "", late ? tag("past its deadline", "bad") : "",
    r.thread && !inThread ? h("span", { class: "tag" }, "thread ", said(r.thread)) : "",
    r.missing ? h("span", { class: "tone-warn" }, "⚠ ", said(r.missing), " is not connected", r.missing_since ? " since " + clock(r.missing_since) : r.missing_seen ? ", seen last at " + clock(r.missing_seen) : "") : "",
    ...(r.approval ? drawApproval(r) : []),
  ].filter(Boolean);
  return h("div", { class: "call" },
    h("span", { class: "call-kind" }, r.kind),
    h("div", { class: "call-what" },
      single ? "" : h("span", {}, soft("to "), caller(r.whom)),
      r.text ? h("span", { class: "text", dir: "auto" }, r.text) : "",
      h("span", { class: "detail" }, ...detail)),
    h("span", { class: "call-age" }, !single && r.since ? since(r.since) : ""));
}

function drawApproval(r) {
  const of = nameOf(r.who) + "’s " + r.kind + " to " + r.session;
  const send = (answer) => act("decide", { id: r.approval, answer, sure: answer === "always" }, r.approval,
    { yes: "Yes: it wakes " + r.session + ".", no: "No: it wakes nobody.", always: "Always: such messages wake " + r.session + " from now on." }[answer]);
  if (r.approved) {
    const back = button("no", "Take it back", "Take the yes for " + of + " back", "quiet", () => send("no"), r.approval);
    back.disabled = !!truth.stopped;
    return [tag("has your yes", "good"), soft(r.kept_by ? "waits for room: " + r.kept_by + (r.kept_until ? ", until " + clock(r.kept_until) : "") : "waits for its turn"), back];
  }
  const own = (name, text, label, cls, click) => button(name, text, label, cls, click, r.approval);
  const again = (focus) => { drawWaiting(); focusOn($("waiting-list"), focus, r.approval); };
  const buttons = sure.has(r.approval)
    ? [own("sure", "Yes, always", "Yes, always: " + of, "", () => { sure.delete(r.approval); send("always"); }),
      own("back", "Back", "Back, and not always", "", () => { sure.delete(r.approval); again("yes"); })]
    : [own("yes", "Yes", "Yes: " + of + " wakes it", "main", () => send("yes")),
      own("no", "No", "No: " + of + " does not wake it", "", () => send("no")),
      own("always", "Always…", "Always let such messages wake it; this is asked once more", "quiet", () => { sure.add(r.approval); again("back"); })];
  for (const b of buttons) b.disabled = busy.has(r.approval) || !!truth.stopped;
  return [
    sure.has(r.approval) ? h("span", { class: "ask" }, "Every ", said(r.kind), " of ", said(nameOf(r.who)), " wakes ", said(r.session), " without asking?") : h("span", { class: "ask" }, "May it wake ", said(r.session), "?"),
    h("span", { class: "buttons" }, ...buttons),
  ];
}
