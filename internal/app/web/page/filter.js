// Which of the messages that the page keeps are shown.

import { $, h } from "./elements.js";
import { findRow, view } from "./board.js";
import { toneOf } from "./words.js";
import { dirty } from "./drawing.js";
import { post } from "./actions.js";
import { hasMember } from "./groups.js";
import { labelOf, showOnly } from "./network.js";

const MAX_OPTIONS = 200; // of a list
const PAUSE = 300;       // milliseconds after the last key, before the daemon is asked for a text

const wanted = { agent: "", kind: "", failed: false, text: "" };
let found = new Set(); // the daemon's numbers of the messages that have the text, at their end too

const isAnyWanted = () => !!(wanted.agent || wanted.kind || wanted.failed || wanted.text);
export const isFiltered = () => !!view.only || isAnyWanted();

// filterKey differs if other messages are shown.
export const filterKey = () => JSON.stringify([view.only, wanted, found.size]);

// isShown reports whether a row of the log is shown.
export function isShown(l) {
  if (view.only && !(l.group ? hasMember(l, view.only) : l.id === view.only)) return false;
  if (!isAnyWanted()) return true;
  return !!l.dir && (!wanted.agent || l.from === wanted.agent || l.to === wanted.agent) && (!wanted.kind || l.kind === wanted.kind)
    && (!wanted.failed || toneOf(l.outcome) === "bad") && (!wanted.text || hasText(l));
}
const hasText = (l) => found.has(l.seq) || [l.text, l.answer, l.topic, l.thread].some((s) => (s || "").toLowerCase().includes(wanted.text));

// drawFilter offers what the lines have.
export function drawFilter(lines) {
  const peers = new Map(), agents = new Set(), kinds = new Set();
  for (const l of lines) {
    if (!l.dir) continue;
    peers.set(l.id, l.peer);
    if (l.kind) kinds.add(l.kind);
    for (const name of [l.from, l.to]) if (name) agents.add(name);
  }
  const only = findRow("peers", view.only);
  if (view.only && !peers.has(view.only)) peers.set(view.only, only ? labelOf(only) : "one peer");
  const same = (names) => [...names].map((name) => [name, name]);
  setOptions($("filter-peer"), "all peers", [...peers], view.only);
  setOptions($("filter-agent"), "all agents", same(agents), wanted.agent);
  setOptions($("filter-kind"), "all kinds", same(kinds), wanted.kind);
  $("filter").hidden = !peers.size;
  $("filter-none").hidden = !isFiltered();
}

// setOptions sets what a list offers, unless somebody is at it.
function setOptions(e, all, options, value) {
  if (document.activeElement === e) return;
  const sorted = options.sort(([, a], [, b]) => a.localeCompare(b, "en", { numeric: true })).slice(0, MAX_OPTIONS), key = JSON.stringify(sorted);
  if (e.key !== key) e.replaceChildren(h("option", { value: "" }, all), ...sorted.map(([id, name]) => h("option", { value: id, dir: "auto" }, name)));
  e.key = key;
  e.value = value;
}

let asking;
$("filter").addEventListener("input", () => {
  const text = $("filter-text").value.trim().toLowerCase();
  if (text !== wanted.text) {
    found = new Set();
    clearTimeout(asking);
    if (text) asking = setTimeout(() => find(text), PAUSE);
  }
  Object.assign(wanted, { agent: $("filter-agent").value, kind: $("filter-kind").value, failed: $("filter-failed").checked, text });
  if ($("filter-peer").value !== view.only) showOnly($("filter-peer").value);
  view.follows = true;
  dirty("messages");
});
$("filter").addEventListener("reset", () => {
  clearTimeout(asking);
  Object.assign(wanted, { agent: "", kind: "", failed: false, text: "" });
  found = new Set();
  showOnly("");
});
$("filter").addEventListener("submit", (e) => e.preventDefault());

// find asks the daemon which messages have a text, as the page has only their beginnings.
async function find(text) {
  const answer = await post("find", { text }).catch(() => null);
  if (!answer || !answer.ok || text !== wanted.text) return;
  found = new Set((await answer.json()).seqs);
  dirty("messages");
}
