// Rows that stand for several lines: of what passes without anybody's word, those that come one after the other
// with nothing else between them.

import { count } from "./words.js";
import { said } from "./elements.js";

const MAX_NAMED = 4;    // peers, or routes, that a row names of one kind
const MAX_MEMBERS = 50; // of a row
const MAX_SPAN = 60e3;  // milliseconds between the first event of a row and the last: each has its time, nearly

// Probes are what programs ask each other: who is there, and what they can do.
const probeKinds = new Set(["ping", "discover"]);

// What events say of one peer, and of several.
const eventWords = new Map(Object.entries({
  up: ["is connected", "are connected"], down: ["is no longer connected", "are no longer connected"], moved: ["has another path", "have other paths"],
  discovered: ["is on the network", "are on the network"], lost: ["has left the network", "have left the network"], pending: ["is a stranger that called", "are strangers that called"],
  refused: ["does not trust this daemon"], trust: ["is trusted, or its name has changed"], identity_conflict: ["shows another key"], mail: ["mail"], budget: ["a bound was reached"],
  relay: ["relay"], approval: ["needs your approval"], missed: ["some events are not shown"],
}));
export const wordsOf = (event) => (eventWords.get(event) || [event])[0];

// groupOf names what a line stands together with; "": with nothing. isGood: it went well.
export function groupOf(l, isGood) {
  if (probeKinds.has(l.kind)) return isGood ? "probes" : "";
  if (!l.id || (eventWords.get(l.event) || []).length < 2) return "";
  return l.owner ? "events" : "events of strangers"; // of whom there may be any number
}

// addToGroup adds a line to the last row, if that is of the group and has room, and returns false else.
export function addToGroup(row, l, group) {
  if (!row || row.group !== group || row.members.length >= MAX_MEMBERS) return false;
  if (group !== "probes" && Date.parse(l.at) - row.began > MAX_SPAN) return false;
  const m = newMember(l), i = row.members.findIndex((x) => x.what === m.what && x.id === m.id);
  if (i >= 0) m.times += row.members.splice(i, 1)[0].times;
  row.members.push(m); // what has been last is last
  row.at = l.at;
  row.version = l.n;
  return true;
}
export const newGroup = (l, group) => ({ k: l.k, at: l.at, began: Date.parse(l.at), owner: l.owner, group, members: [newMember(l)] });
const newMember = (l) => ({ what: l.event || l.kind + (l.dir === "out" ? " to " : " of "), event: l.event, id: l.id, peer: l.peer, text: l.text, times: 1 });

export const hasMember = (row, id) => row.members.some((m) => m.id === id);

// drawGroup returns what a row says of its members.
export function drawGroup(row) {
  if (row.group === "probes") return list(row.members, (m) => [m.what, said(m.peer)]);
  const events = new Map();
  for (const m of row.members) {
    const same = events.get(m.event) || [];
    events.delete(m.event);
    events.set(m.event, same.concat(m));
  }
  return [...events].flatMap(([event, members], i) => {
    const [one, several] = eventWords.get(event), m = members[0];
    const last = members.length > 1 ? [" ", several] : [" ", one, m.text ? [" · ", said(m.text)] : ""];
    return [i ? "; " : "", ...list(members, (x) => [said(x.peer, "title")]), ...last];
  }).flat();
}

function list(members, name) {
  const rest = members.length - MAX_NAMED;
  const named = members.slice(0, MAX_NAMED).flatMap((m, i) => [i ? ", " : "", ...name(m), m.times > 1 ? " ×" + m.times : ""]);
  return rest > 0 ? [...named, ", and " + count(rest, "other")] : named;
}
