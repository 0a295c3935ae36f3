// Messages and events as they pass, all together and by conversation.

import { $, button, fill, focusOn, h, party, said, tag } from "./elements.js";
import { view } from "./board.js";
import { clock, count, number, outcomeOf, took, toneOf } from "./words.js";
import { dirty, setDraw } from "./drawing.js";
import { post } from "./actions.js";
import { addToGroup, drawGroup, groupOf, newGroup, wordsOf } from "./groups.js";
import { drawFilter, filterKey, isFiltered, isShown } from "./filter.js";
import { flash } from "./network.js";
import { setEmpty } from "./sections.js";

const MAX_LOG = 150;     // messages that are drawn
const MAX_KEPT = 1000;   // of all messages
const MAX_TALK = 1000;   // of those of one conversation
const MAX_THREADS = 80;

let recent = [];         // the newest lines
const threads = new Map();
let unseen = 0;          // messages that came while somebody reads older ones
let started = null;      // when the first one passed
let isCut = false;       // lines have passed that are not kept, of whom is not known
const cutOf = new Set(); // of whom lines, or conversations, were kept and had to go
const whole = new Map(); // key of a message that is open -> {text, answer, note}, all that it says
let opens = 0;           // how often whole has changed

// keep returns at most so many of a list whose oldest come first. Whoever has most makes room, so that one who
// sends much takes no place of another's. ownerOf says whose each is; dropped is called with what goes.
function keep(list, most, ownerOf, dropped) {
  const held = new Map(), drop = new Map();
  for (const x of list) held.set(ownerOf(x), (held.get(ownerOf(x)) || 0) + 1);
  for (let over = list.length - most; over > 0; over--) {
    let largest;
    for (const [owner, n] of held) if (largest === undefined || n > held.get(largest)) largest = owner;
    held.set(largest, held.get(largest) - 1);
    drop.set(largest, (drop.get(largest) || 0) + 1);
  }
  return list.filter((x) => {
    const owner = ownerOf(x), n = drop.get(owner) || 0;
    if (!n) return true;
    drop.set(owner, n - 1);
    dropped(x);
    return false;
  });
}
const ownerOf = (l) => l.owner || ""; // the server's word: all strangers are as one

export function forgetMessages() {
  recent = [];
  threads.clear();
  unseen = 0;
  started = null;
  isCut = false;
  cutOf.clear();
  whole.clear();
  view.follows = true;
}

// addLines takes lines of the server; skipped counts those that it has left out. isFirst: before the first of all
// that is only what is older.
export function addLines(lines, skipped, isFirst) {
  if (skipped) isCut = true;
  if (skipped && !isFirst) recent.push({ k: "s" + lines[0].n, at: lines[0].at, skipped });
  const ids = new Set();
  for (const l of lines) {
    l.k = "l" + l.n;
    if (!started) started = l.at;
    if (l.dir) ids.add(l.id);
    const group = groupOf(l, !toneOf(l.outcome));
    if (!group) recent.push(l);
    else if (!addToGroup(recent[recent.length - 1], l, group)) recent.push(newGroup(l, group));
    if (l.dir && !group) addToThread(l);
  }
  recent = keep(recent, MAX_KEPT, ownerOf, (l) => cutOf.add(ownerOf(l)));
  keep([...threads.values()], MAX_THREADS, (t) => t.id, (t) => {
    if (t.k === view.chosen) return;
    threads.delete(t.k);
    cutOf.add(t.id);
  });
  unseen += lines.length;
  flash(ids);
  dirty("messages");
}

export const keyOf = (l) => l.thread ? "t" + l.id + " " + l.thread : "p" + l.id; // of its conversation

function addToThread(l) {
  const key = keyOf(l);
  let t = threads.get(key);
  if (!t) threads.set(key, t = { k: key, id: l.id, peer: l.peer, thread: l.thread, lines: [], count: 0 });
  t.lines.push(l);
  t.count++;
  t.last = l;
  if (t.lines.length > MAX_TALK) t.lines.splice(0, t.lines.length - MAX_TALK);
  threads.delete(key); // the newest is last
  threads.set(key, t);
}

const log = $("log");
const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 48;
const sizeOfLog = () => log.clientWidth + "x" + log.clientHeight;
let placed = 0;          // where the log was scrolled to, to show the newest
let size = "";           // what it had when it was looked at last

// showEnd scrolls to the newest.
function showEnd() {
  log.scrollTop = log.scrollHeight;
  placed = log.scrollTop;
}

// noteSize keeps the newest in sight when the log has another size, as after the turn of a phone: that moves what
// is shown, and nobody has scrolled.
function noteSize() {
  if (size === sizeOfLog()) return;
  size = sizeOfLog();
  if (view.follows) showEnd();
}
new ResizeObserver(noteSize).observe(log);

log.addEventListener("scroll", () => {
  noteSize(); // which may come before the observer
  if (log.scrollTop === placed) return;
  view.follows = isAtEnd();
  if (view.follows && unseen) dirty("messages");
});
$("newest").addEventListener("click", () => { view.follows = true; drawMessages(); log.focus(); });

function choose(key) {
  view.chosen = key;
  view.opened = "";
  view.follows = true;
  drawMessages();
  dirty("files");
}

// toggle opens a message, in its conversation, or closes it.
function toggle(l) {
  opens++;
  if (view.chosen && whole.delete(l.k)) return drawMessages();
  if (!threads.has(keyOf(l))) for (const x of recent) if (x.dir && keyOf(x) === keyOf(l)) addToThread(x);
  if (!whole.has(l.k)) read(l);
  Object.assign(view, { chosen: keyOf(l), opened: l.k, follows: false });
  drawMessages();
  dirty("files");
  focusOn(log, "open", l.k);
}

// read reads all that a message says, of which the page has the beginning.
async function read(l) {
  whole.set(l.k, { text: l.text, answer: l.answer });
  const answer = await post("message", { seq: l.seq }).catch(() => null);
  const m = answer && answer.ok ? await answer.json() : { text: l.text, answer: l.answer, note: answer ? await answer.text() : "acpctl web does not answer." };
  if (!whole.has(l.k)) return; // closed meanwhile
  if (m.cut) m.note = "The daemon has kept only the beginning.";
  whole.set(l.k, m);
  opens++;
  dirty("messages");
}

const rowsOfLog = () => [...log.querySelectorAll("[data-act=open]")];
log.addEventListener("click", (e) => {
  const row = e.target.closest("[data-act=open]");
  if (row && !getSelection().toString()) toggle(row.line);
});
log.addEventListener("keydown", (e) => {
  const all = rowsOfLog(), i = all.indexOf(document.activeElement), step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (e.key === "Enter" && i >= 0) toggle(all[i].line);
  else if (step && all.length) all[i < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, i + step))].focus();
  else return;
  e.preventDefault();
});

function drawMessages() {
  drawThreads();
  const t = threads.get(view.chosen);
  if (view.chosen && !t) view.chosen = "";
  drawFilter(recent);
  const those = t ? t.lines : recent, all = isFiltered() ? those.filter(isShown) : those;
  const at = t ? all.findIndex((l) => l.k === view.opened) : -1;
  const isFar = at >= 0 && at < all.length - MAX_LOG / 2; // what is opened is in sight, and so is what stands around it
  const lines = isFar ? all.slice(Math.max(0, at - MAX_LOG / 2), at + MAX_LOG / 2 - 1) : keep(all, MAX_LOG - 1, ownerOf, () => {});
  const older = lines.length < all.length || isCut || (t ? t.count > t.lines.length : view.only ? cutOf.has(view.only) : cutOf.size > 0);
  const isMessage = (l) => !!l.dir;
  $("messages-since").replaceChildren(isFiltered() ? number(all.filter(isMessage).length) + " of " + count(those.filter(isMessage).length, "message") : started ? "since " + clock(started) : "");
  const shown = [view.chosen, filterKey(), opens].join("\n");
  if (!view.follows && log.shown === shown) {
    $("newest").hidden = !unseen;
    $("newest").replaceChildren(count(unseen, "new message"));
    return;
  }
  log.shown = shown;
  unseen = 0;
  $("newest").hidden = true;
  setEmpty("lines", threads.size, true);
  const talk = log.closest(".talk");
  talk.hidden = !recent.length;
  talk.toggleAttribute("data-events", !threads.size); // and no message
  if (!lines.length) {
    fill(log, [{ k: "none" }], () => [h("p", { class: "empty" }, isFiltered() ? "No message matches." : "No messages.", older ? " Some older messages are not kept." : "")]);
    return;
  }
  const drawn = lines.map((l) => ({ k: (t ? "b" : "r") + l.k, l, version: l.version, whole: t && whole.get(l.k) }));
  fill(log, older ? [{ k: "older" }, ...drawn] : drawn, (r) => [r.l ? t ? drawBubbles(r.l, r.whole) : drawRow(r.l) : drawOlder()], null,
    (r, before) => r.l !== before.l || r.version !== before.version || r.whole !== before.whole);
  size = sizeOfLog();
  if (view.follows) showEnd();
  else showRow(log.kept.get("b" + view.opened));
}

// showRow scrolls to what was opened.
function showRow(e) {
  if (!e || !whole.has(view.opened)) return;
  log.scrollTop += e.getBoundingClientRect().top - log.getBoundingClientRect().top - 8;
  placed = log.scrollTop;
}
setDraw("messages", drawMessages);
setDraw("lines", drawMessages);

function drawThreads() {
  const list = $("threads");
  const found = [...threads.values()].reverse().filter((t) => !isFiltered() || t.lines.some(isShown));
  // Nothing moves beneath a pointer or the focus.
  if (list.kept && list.matches(":hover, :focus-within")) {
    const place = new Map([...list.kept.keys()].map((k, i) => [k, i]));
    found.sort((a, b) => (place.get("c" + a.k) ?? 1e6) - (place.get("c" + b.k) ?? 1e6));
  }
  const all = { k: "c", key: "", sub: found.length ? count(found.length, "conversation") : "as they pass" };
  const items = [all].concat(found.map((t) => ({ k: "c" + t.k, key: t.k, peer: t.peer, thread: t.thread, count: t.count, last: t.last, sub: t.last.answer || t.last.text })));
  for (const t of items) t.pressed = view.chosen === t.key;
  fill(list, items, (t) => {
    const b = button("choose", "", null, "", () => choose(t.key));
    b.setAttribute("aria-pressed", String(t.pressed));
    b.append(h("span", { class: "t" }, titleOf(t), t.count ? h("span", { class: "c num" }, String(t.count)) : ""));
    b.append(h("span", { class: "l" }, said(t.sub)));
    return [b];
  }, null, (t, before) => t.count !== before.count || t.last !== before.last || t.pressed !== before.pressed || t.sub !== before.sub);
}

// titleOf is what a conversation is called: its peer first, as a thread's name is the peer's choice, and may be
// that of another peer.
function titleOf(t) {
  if (!t.key) return h("span", { class: "of" }, "All messages");
  if (!t.thread) return h("span", { class: "of" }, said(t.peer));
  return h("span", { class: "of" }, said(t.peer, "soft"), h("span", { class: "in soft" }, h("span", { class: "unseen" }, "thread")), said(t.thread));
}

// endOf is what became of a message, if that is not what everybody expects, and how long it took.
const endOf = (l) => h("span", { class: "num " + (toneOf(l.outcome) ? "tone-" + toneOf(l.outcome) : "soft") }, [toneOf(l.outcome) && outcomeOf(l.outcome), took(l.took_us || 0)].filter(Boolean).join(" · "));

// ends are the two that a message is between: [who sent it, for whom].
function ends(l) {
  const own = { here: true, agent: l.dir === "out" ? l.from : l.to }, theirs = { peer: l.peer, agent: l.dir === "out" ? l.to : l.from };
  return l.dir === "out" ? [own, theirs] : [theirs, own];
}
const route = (l) => { const [from, to] = ends(l); return [party(from), h("span", { class: "to" }, h("span", { class: "unseen" }, "to")), party(to)]; };

const drawOlder = () => h("p", { class: "empty" }, "… some older messages are not kept");

function drawRow(l) {
  const when = h("span", { class: "when num" }, clock(l.at));
  const quiet = (...what) => h("div", { class: "row", "data-quiet": true }, when, h("div", { class: "what" }, ...what));
  if (l.skipped || l.lost) {
    return quiet("… " + count(l.skipped || l.lost, "message") + (l.lost ? " not shown: they passed while no page was open, or were too many for the daemon to keep" : " not shown: too many at once"));
  }
  if (l.group) return quiet(...drawGroup(l));
  if (l.event) return quiet(l.peer ? said(l.peer, "title") : "", l.peer ? " " : "", wordsOf(l.event), l.text ? " · " : "", l.text ? said(l.text) : "");
  return opening(l, h("div", { class: "row" }, when,
    h("div", { class: "what" },
      h("div", { class: "route" }, ...route(l), tag(l.kind), l.topic ? h("span", { class: "tag" }, said(l.topic)) : ""),
      l.text ? h("div", { class: "text", dir: "auto" }, l.text) : "",
      l.answer ? h("div", { class: "words clamp" }, "↳ ", said(l.answer)) : ""),
    h("div", { class: "out" }, endOf(l))));
}

// opening has a click on an element open a message.
function opening(l, e) {
  Object.assign(e, { line: l, tabIndex: -1 });
  Object.assign(e.dataset, { act: "open", of: l.k });
  return e;
}

// drawBubbles draws a message and its answer; m is all that they say, if the message is open.
function drawBubbles(l, m) {
  const [from, to] = ends(l), mine = l.dir === "out", text = { class: m ? "whole" : null, dir: "auto" };
  const at = () => h("span", { class: "num" }, clock(l.at)), note = m && m.note ? h("p", { class: "soft small" }, m.note) : "";
  const first = opening(l, h("div", { class: "bubble" + (mine ? " mine" : "") },
    h("div", { class: "meta" }, party(from), tag(l.kind), l.topic ? said(l.topic) : "", l.answer ? "" : at(), l.answer && !toneOf(l.outcome) ? "" : endOf(l)),
    h("div", text, (m || l).text)));
  if (!l.answer) return h("div", {}, first, note);
  const answer = h("div", { class: "bubble" + (mine ? "" : " mine") },
    h("div", { class: "meta" }, party(to), at(), took(l.took_us || 0) ? h("span", { class: "num" }, "after " + took(l.took_us)) : ""), h("div", text, (m || l).answer));
  answer.addEventListener("click", () => { if (!getSelection().toString()) toggle(l); });
  return h("div", {}, first, answer, note);
}
