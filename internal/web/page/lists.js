// Delegations, held messages, channels, mailboxes, and what peers use: a list each.

import { $, fill, h, party, said, soft, tag } from "./elements.js";
import { isKnown, rows } from "./board.js";
import { bytes, clock, count, isTime, number, since } from "./words.js";
import { setDraw } from "./drawing.js";
import { cut, setCount, setEmpty } from "./sections.js";

const right = (...children) => h("span", { class: "right num soft small" }, ...children);

setDraw("tasks", () => {
  const list = rows("tasks").sort((a, b) => a.over - b.over || a.place - b.place);
  setEmpty("tasks", list.length);
  setCount("tasks", list.filter((t) => !t.over).length || "");
  fill($("tasks-list"), cut("tasks", list, 6), (t) => {
    const good = t.state === "completed", bad = ["failed", "refused", "expired"].includes(t.state);
    const who = t.direction === "given" ? [soft("to "), party({ peer: t.peer, agent: t.agent })]
      : [soft("from "), party({ peer: t.peer, agent: t.from_agent }), t.agent ? soft(" for ") : "", t.agent ? party({ here: true, agent: t.agent }) : ""];
    return [
      h("div", { class: "line1" }, h("span", {}, ...who), tag(t.state, good ? "good" : bad ? "bad" : t.over ? "" : "warn"),
        t.over || t.progress == null ? "" : soft(Math.round(t.progress * 100) + " %"), // the bar stands with who waits
        right(t.over ? h("span", { class: "mono" }, t.id.slice(0, 8)) : t.since ? since(t.since) : "")),
      h("div", { class: "text", dir: "auto" }, t.task),
      t.outcome ? h("div", { class: "line2" }, "↳ ", said(t.outcome)) : null,
    ];
  });
});

setDraw("held", () => {
  const list = rows("held").sort((a, b) => a.k - b.k);
  setEmpty("held", list.length);
  setCount("held", list.length || "");
  fill($("held-list"), list, (m) => [
    h("div", { class: "line1" }, party({ peer: m.from, agent: m.agent }), tag(m.kind), h("span", { class: "soft small" }, "for ", said(m.for || "any agent")), right(clock(m.sent))),
    h("div", { class: "text", dir: "auto" }, m.text)]);
});

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
  fill($("bindings-list"), bindings, (b) => [h("div", { class: "line1" }, said(b.project + "/" + b.agent, "title"), h("span", { class: "soft" }, "lives at ", said(b.peer)), h("span", { class: "right" }, tag(b.mode)))]);
  fill($("mail-list"), mail, (m) => [
    h("div", { class: "line1" }, said(m.file, "title mono"), tag(m.state, m.state === "parked" ? "bad" : m.state === "waiting" ? "warn" : "good"), right(bytes(m.size))),
    h("div", { class: "line2" }, "for ", said(m.project + "/" + m.agent), " at ", said(m.peer), " · ", m.state === "delivered" ? "" : "for ", m.state === "delivered" ? clock(m.since) : since(m.since),
      m.reason ? h("span", { class: "tone-warn" }, " · ", said(m.reason)) : "")]);
}
setDraw("bindings", drawMail);
setDraw("mail", drawMail);

setDraw("budget", () => {
  const list = rows("budget").sort((a, b) => b.part - a.part || b.refused - a.refused || (a.k < b.k ? -1 : 1));
  setEmpty("budget", list.length);
  const amount = (r, n) => r.unit ? bytes(n) : number(n);
  fill($("budget-list"), cut("budget", list, 5), (r) => {
    const free = r.unit === "bytes_free";
    return [h("div", { class: "bar" },
      h("span", {}, r.peer ? said(r.peer, "title") : h("span", { class: "title" }, free ? "the disk" : "all peers"), " · ", said(r.row)),
      h("span", { class: "num small soft" }, amount(r, r.held) + (free ? " free, at least " : r.bound ? " of " : "") + (r.bound ? amount(r, r.bound) : "")),
      r.bound ? h("progress", { max: 1, value: r.part, "data-tone": r.part >= 0.8 ? "warn" : "", "aria-label": "part of the bound that is held" }) : ""),
    h("div", { class: "line2 small" }, said(r.what), r.refused ? h("span", { class: "tone-bad" }, " · refused " + count(r.refused, "time")) : "", r.part >= 0.8 && r.remedy ? h("span", {}, " · ", said(r.remedy)) : "")];
  });
});
