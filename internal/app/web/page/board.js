// What the page knows: the parts of the board as the server has told them, and whether that is true now.

const parts = new Map(); // part -> Map of key -> row
const about = new Map(); // part -> {more, problem}

// truth.skew is how many milliseconds the server's clock is ahead; truth.stopped is when what is shown
// ceased to be true, in milliseconds, 0 if it is true.
export const truth = { skew: 0, stopped: 0 };
export const now = () => truth.stopped || Date.now() + truth.skew;

export const isKnown = (part) => parts.has(part);
export const rows = (part) => [...(parts.get(part) || new Map()).values()];
export const findRow = (part, key) => (parts.get(part) || new Map()).get(key);
export const findProblem = (part) => (about.get(part) || {}).problem || "";
export const hasMore = (part) => !!(about.get(part) || {}).more;

export function forgetAll() {
  parts.clear();
  about.clear();
}

// takePart takes what has changed of a part.
export function takePart(p) {
  let m = parts.get(p.part);
  if (!m) parts.set(p.part, m = new Map());
  for (const k of p.gone || []) m.delete(k);
  for (const r of p.set || []) m.set(r.k, r);
  about.set(p.part, { more: p.more, problem: p.problem });
}

// What somebody who looks has chosen.
export const view = {
  only: "",     // id of the peer whose messages are shown; "": all
  chosen: "",   // key of the conversation that is shown; "": all messages
  opened: "",   // key of the message that was opened last, there; "": none
  follows: true // the log shows the newest
};
