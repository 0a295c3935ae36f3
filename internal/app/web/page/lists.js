// Delegations, held messages, channels, mailboxes, and what peers use: a list each.

import { $, button, fill, focusOn, h, party, said, soft, tag } from "./elements.js";
import { isKnown, rows, truth } from "./board.js";
import { bytes, clock, count, drawAgentAway, isTime, number, since } from "./words.js";
import { act, busy } from "./actions.js";
import { setDraw } from "./drawing.js";
import { cut, setCount, setEmpty } from "./sections.js";

const right = (...children) => h("span", { class: "right num soft small" }, ...children);

const leaving = new Set(); // kept messages of which "Withdraw" was chosen, and not yet confirmed

function drawTasks() {
  const list = rows("tasks").sort((a, b) => a.over - b.over || a.place - b.place);
  const state = (t) => t.kept_until ? [leaving.has(t.k), busy.has("task " + t.k), !!truth.stopped].join() : "";
  setEmpty("tasks", list.length);
  setCount("tasks", list.filter((t) => !t.over).length || "");
  fill($("tasks-list"), cut("tasks", list, 6), (t, e) => {
    e.state = state(t);
    const good = t.state === "completed", bad = ["failed", "refused", "expired"].includes(t.state);
    const who = t.direction === "given" ? [soft("to "), party({ peer: t.peer, agent: t.agent })]
      : [soft("from "), party({ peer: t.peer, agent: t.from_agent }), t.agent ? soft(" for ") : "", t.agent ? party({ here: true, agent: t.agent }) : ""];
    return [
      h("div", { class: "line1" }, h("span", {}, ...who), t.kind ? tag(t.kind) : "", tag(t.abandoned ? "abandoned" : t.state, good ? "good" : bad ? "bad" : t.over && !t.abandoned ? "" : "warn"),
        t.over || t.progress == null ? "" : soft(Math.round(t.progress * 100) + " %"), // the bar stands with who waits
        right(h("span", { class: "mono" }, t.id.slice(0, 8)), t.began ? [" · ", t.over ? clock(t.began) : since(t.began)] : "")),
      h("div", { class: "text", dir: "auto" }, t.task),
      t.outcome ? h("div", { class: "line2 clamp" }, "↳ ", said(t.outcome)) : null,
      t.abandoned ? h("div", { class: "line2" }, "It has ended only here. The agent there may still be working.") : null,
      t.agent_away ? h("div", { class: "line2" }, drawAgentAway(t.agent, t.agent_away, t.agent_until)) : null,
      t.kept_until ? h("div", { class: "line2" }, "kept until " + clock(t.kept_until) + ", tried " + count(t.tries, "time") + ": ", said(t.last_error), " ", drawWithdrawal(t)) : null,
    ];
  }, null, (t, before, e) => t !== before || e.state !== state(t));
}
setDraw("tasks", drawTasks);

// drawWithdrawal lets the owner withdraw a message that is kept, after a second click.
function drawWithdrawal(t) {
  const id = t.id.slice(0, 8);
  const own = (name, text, cls, click) => Object.assign(button(name, text, text + " " + id + " for " + t.peer, cls, click, t.k), { disabled: busy.has("task " + t.k) || !!truth.stopped });
  const ask = (asked, focus) => { asked ? leaving.add(t.k) : leaving.delete(t.k); drawTasks(); focusOn($("tasks-list"), focus, t.k); };
  const withdraw = () => { leaving.delete(t.k); act("withdraw", { id: t.id, sure: true }, "task " + t.k, "The message " + id + " is withdrawn.", "tasks"); };
  return h("span", { class: "buttons" }, ...leaving.has(t.k)
    ? [own("gone", "Withdraw for good", "", withdraw), own("stay", "Keep", "quiet", () => ask(false, "withdraw"))]
    : [own("withdraw", "Withdraw…", "quiet small", () => ask(true, "stay"))]);
}

const MAX_HELD = 3; // messages that are shown of one sender for one agent
const sure = new Set(); // held messages of which "Remove" was chosen, and not yet confirmed

// Held messages stand together that one sender has sent for one agent, the oldest first.
function drawAllHeld() {
  const list = rows("held").sort((a, b) => a.k - b.k), groups = new Map();
  for (const m of list) {
    const k = JSON.stringify([m.from, m.agent, m.for, m.kind]), g = groups.get(k);
    if (g) g.all.push(m);
    else groups.set(k, { k, all: [m] });
  }
  setEmpty("held", list.length);
  setCount("held", list.length || "");
  for (const k of sure) if (!list.some((m) => m.k === k)) sure.delete(k);
  const state = JSON.stringify([[...sure], [...busy], !!truth.stopped]);
  for (const g of groups.values()) g.state = state;
  const last = list.length ? list[list.length - 1].k : "";
  $("held-how").hidden = !last;
  $("held-how").replaceChildren("An agent takes them when it attaches. ", h("code", {}, "acpctl inbox"), " shows them whole; then ", h("code", {}, "acpctl inbox --ack " + last), " removes those up to number " + last + ".");
  fill($("held-list"), [...groups.values()], drawHeld, null, (g, before) => g.state !== before.state || g.all.length !== before.all.length || g.all.some((m, i) => m !== before.all[i]));
}
setDraw("held", drawAllHeld);

function drawHeld({ all }) {
  const m = all[0], more = all.length - MAX_HELD;
  return [
    h("div", { class: "line1" }, party({ peer: m.from, agent: m.agent }), tag(m.kind), all.length > 1 ? tag("×" + all.length) : "", h("span", { class: "soft small" }, "for ", said(m.for || "any agent"))),
    ...all.slice(0, MAX_HELD).map((x) => h("div", { class: "held" },
      h("span", { class: "num soft small" }, x.k), h("span", { class: "text", dir: "auto" }, x.text), right(clock(x.sent)), h("span", { class: "mono soft small" }, x.id), drawRemoval(x))),
    more > 0 ? h("div", { class: "line2" }, "and " + count(more, "more message", "more messages")) : null,
  ];
}

// drawRemoval lets the owner remove a held message, after a second click.
function drawRemoval(m) {
  const own = (name, text, label, cls, click) => Object.assign(button(name, text, label + " message " + m.k + " of " + m.from, cls, click, m.k), { disabled: busy.has("held " + m.k) || !!truth.stopped });
  const ask = (asked, focus) => { asked ? sure.add(m.k) : sure.delete(m.k); drawAllHeld(); focusOn($("held-list"), focus, m.k); };
  const remove = () => { sure.delete(m.k); act("remove", { seq: +m.k, peer: m.peer, id: m.id, sure: true }, "held " + m.k, "Message " + m.k + " is removed.", "held"); };
  return h("span", { class: "buttons" }, ...sure.has(m.k)
    ? [own("gone", "Remove for good", "Remove for good:", "", remove), own("stay", "Keep", "Keep", "quiet", () => ask(false, "remove"))]
    : [own("remove", "Remove…", "Remove", "quiet small", () => ask(true, "stay"))]);
}

setDraw("channels", () => {
  const list = rows("channels").sort((a, b) => b.open - a.open || (b.last || "").localeCompare(a.last || ""));
  setEmpty("channels", list.length);
  setCount("channels", list.filter((c) => c.open).length || "");
  fill($("channels-list"), list, (c) => [
    h("div", { class: "line1" }, said(c.name, "title"), c.open ? "" : tag("closed"), right(count(c.count, "message"))),
    h("div", { class: "line2" }, said(c.intent), (c.members || []).length ? h("span", {}, " · ", said(c.members.join(", "))) : "", isTime(c.last) ? " · last " + clock(c.last) : "")]);
});

function drawMail() {
  const bindings = rows("bindings"), mail = rows("mail").sort((a, b) => Date.parse(a.since) - Date.parse(b.since));
  setEmpty("mail", bindings.length + mail.length, isKnown("mail") && isKnown("bindings"));
  setCount("mail", mail.filter((m) => m.state !== "delivered").length || "");
  fill($("bindings-list"), bindings, (b) => [h("div", { class: "line1" }, said(b.project + "/" + b.agent, "title"), h("span", { class: "soft" }, "is at ", said(b.peer)), h("span", { class: "right" }, tag(b.mode)))]);
  fill($("mail-list"), mail, (m) => [
    h("div", { class: "line1" }, said(m.file, "title mono clamp"), tag(m.state, m.state === "parked" ? "bad" : m.state === "waiting" ? "warn" : "good"), right(bytes(m.size))),
    h("div", { class: "line2 clamp" }, "for ", said(m.project + "/" + m.agent), " at ", said(m.peer), " · ", m.state === "delivered" ? "" : "for ", m.state === "delivered" ? clock(m.since) : since(m.since),
      m.reason ? h("span", { class: "tone-warn" }, " · ", said(m.reason)) : "")]);
}
setDraw("bindings", drawMail);
setDraw("mail", drawMail);

const LEAST_BAR = 0.05; // part of a bound from which a bar says more than a stub

setDraw("budget", () => {
  const list = rows("budget").sort((a, b) => b.part - a.part || b.refused - a.refused || (a.k < b.k ? -1 : 1));
  setEmpty("budget", list.length);
  const amount = (r, n) => r.unit ? bytes(n) : number(n);
  fill($("budget-list"), cut("budget", list, 5), (r) => {
    const free = r.unit === "bytes_free";
    return [h("div", { class: "bar" },
      h("span", {}, r.peer ? said(r.peer, "title") : h("span", { class: "title" }, free ? "the disk" : "all peers"), " · ", said(r.row)),
      h("span", { class: "num small soft" }, amount(r, r.held) + (free ? " free, at least " : r.bound ? " of " : "") + (r.bound ? amount(r, r.bound) : "")),
      r.part >= LEAST_BAR ? h("progress", { max: 1, value: r.part, "data-tone": r.part >= 0.8 ? "warn" : "", "aria-label": "part of the bound that is held" }) : ""),
    h("div", { class: "line2 small" }, said(r.what), r.refused ? h("span", { class: "tone-bad" }, " · refused " + count(r.refused, "time")) : "", r.part >= 0.8 && r.remedy ? h("span", {}, " · ", said(r.remedy)) : "")];
  });
});
