// Messages that need the owner's approval before they wake a session, and files that need it before they come. A click
// here must be about the row that whoever clicks has read, so these rows are above all that peers can make grow, new
// ones come last, and none moves beneath a pointer or takes a click a moment after it has moved.

import { $, button, fill, focusOn, h, party, said, soft } from "./elements.js";
import { findProblem, rows, truth } from "./board.js";
import { clock, since } from "./words.js";
import { act, announce, busy } from "./actions.js";
import { afterDrawing, dirty, setDraw } from "./drawing.js";
import { setCount } from "./sections.js";

const MOVED = 700;   // milliseconds in which a row that has moved, or has other buttons, takes no click
const MAX_OVER = 20; // rows that are over and keep their places

const sure = new Set(); // approvals of which "always" was chosen, and not yet confirmed
const list = $("approvals-list");
let items = [];         // what stands in the list: {k, r, over, asks, off}
let redraw;             // the timer that draws it once more

// place returns rows in their places. One that is over keeps its place while somebody points at the list
// and a row that is not over stands below.
function place(all) {
  const live = new Map(all.map((r) => [r.k, r])), known = new Set(items.map((x) => x.k));
  const held = list.matches(":hover, :focus-within") && items.filter((x) => !live.has(x.k)).length <= MAX_OVER;
  const placed = items.map((x) => ({ k: x.k, r: live.get(x.k) || x.r, over: !live.has(x.k) })).filter((x) => held || !x.over);
  while (placed.length && placed[placed.length - 1].over) placed.pop();
  const fresh = all.filter((r) => !known.has(r.k)).sort((a, b) => Date.parse(a.since) - Date.parse(b.since) || (a.k < b.k ? -1 : 1));
  return placed.concat(fresh.map((r) => ({ k: r.k, r, over: false })));
}

function drawApprovals() {
  const all = rows("approvals");
  items = place(all);
  for (const k of sure) if (!all.some((r) => r.k === k)) sure.delete(k);
  for (const x of items) {
    x.asks = sure.has(x.k);
    x.off = busy.has(x.k) || !!truth.stopped;
  }
  fill(list, items, drawApproval, (x) => ({ "data-mine": !x.over && !x.r.approved }),
    (x, before) => x.r !== before.r || x.over !== before.over || x.asks !== before.asks || x.off !== before.off);
  clearTimeout(redraw);
  if (items.some((x) => x.over)) redraw = setTimeout(() => dirty("approvals"), 1000); // nobody may point at it then
  $("approvals").hidden = !items.length && !findProblem("approvals");
  document.querySelector("[data-nav=approvals]").hidden = !all.length;
  dirty("waiting"); // which says who else waits
  const mine = all.filter((r) => !r.approved).length;
  setCount("approvals", mine, "warn");
  document.title = (mine ? "(" + mine + ") " : "") + ($("name").textContent || "acpd") + " · acpd";
}
setDraw("approvals", drawApprovals);

const nouns = new Map([["notify", "notice"], ["delegate", "delegation"]]);

function drawApproval(x, e) {
  const r = x.r, buttons = [x.over, x.asks, r.approved].join();
  if (e.buttons !== buttons) e.moved = performance.now();
  e.buttons = buttons;
  if (x.over) e.style.minHeight = e.getBoundingClientRect().height + "px"; // as before
  return [
    h("div", { class: "path" }, soft("a " + (nouns.get(r.kind) || r.kind) + " of"), party({ peer: r.peer, agent: r.agent }), ...(isFile(r) ? [] : [soft("for"), party({ here: true, agent: r.session })])),
    h("div", { class: "age" }, since(r.since), h("small", {}, "since " + clock(r.since))),
    h("div", { class: "calls" },
      r.text ? h("span", { class: "text", dir: "auto" }, r.text) : "",
      h("span", { class: "answers" }, ...(x.over ? [soft("no longer waits")] : r.approved ? drawApproved(x) : drawQuestion(x)))),
  ];
}

const isFile = (r) => r.kind === "file";

// Labels name the peer alone: the agent is the peer's word.
const nameOf = (r) => r.peer + "’s " + (nouns.get(r.kind) || r.kind) + (isFile(r) ? "" : " to " + r.session);

function drawQuestion({ r, asks, off }) {
  const send = (answer, done) => { sure.delete(r.k); act("decide", { id: r.k, answer, sure: answer === "always" }, r.k, done, "approvals"); };
  const again = (asked, focus) => { asked ? sure.add(r.k) : sure.delete(r.k); drawApprovals(); focusOn(list, focus, r.k); };
  const own = (name, text, label, cls, click) => button(name, text, label, cls, click, r.k);
  const buttons = asks
    ? [own("sure", "Yes, always", "Yes, always: " + r.rule, "", () => send("always", isFile(r) ? "Always: files of " + r.peer + " come from now on." : "Always: such messages wake " + r.session + " from now on.")),
      own("back", "Back", "Back, and not always", "", () => again(false, "yes"))]
    : [own("yes", "Yes", "Yes: " + nameOf(r) + (isFile(r) ? " comes" : " wakes it"), "main", () => send("yes", isFile(r) ? "Yes: it comes." : "Yes: it wakes " + r.session + ".")),
      own("no", "No", "No: " + nameOf(r) + (isFile(r) ? " does not come" : " does not wake it"), "", () => send("no", isFile(r) ? "No: it does not come." : "No: it wakes nobody.")),
      own("always", "Always…", "Always: " + r.rule + "; this is asked once more", "quiet", () => again(true, "back"))];
  for (const b of buttons) b.disabled = off;
  return [h("span", { class: "ask" }, ...(asks ? [said(r.rule), "?"] : isFile(r) ? ["May it come?"] : ["May it wake ", said(r.session), "?"])), h("span", { class: "buttons" }, ...buttons)];
}

function drawApproved({ r, off }) {
  const back = button("no", "Take it back", "Take back the approval of " + nameOf(r), "quiet",
    () => act("decide", { id: r.k, answer: "no" }, r.k, "No: it wakes nobody.", "approvals"), r.k);
  back.disabled = off;
  return [h("span", { class: "tag", "data-tone": "good" }, "approved"), soft(r.kept_by ? "waits for room: " + r.kept_by + (r.kept_until ? ", until " + clock(r.kept_until) : "") : "waits for its turn"), back];
}

// noteMoves notes when rows have moved on the page; how far it is scrolled does not count.
function noteMoves() {
  for (const e of list.children) {
    const at = e.getBoundingClientRect().top + window.scrollY;
    if (e.at === undefined || Math.abs(at - e.at) > 2) e.moved = performance.now();
    e.at = at;
  }
}
afterDrawing(noteMoves);

list.addEventListener("click", (e) => {
  if (!e.detail) return; // a key: the focus goes with its row
  noteMoves();
  const row = e.target.closest("li");
  if (!row || e.timeStamp - row.moved > MOVED) return;
  e.stopPropagation();
  announce("Nothing was done: this has just appeared, or moved. Look again, and click again.");
}, true);
