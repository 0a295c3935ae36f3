// Who waits for whom, and since when; calls that lead to others stand as one chain.

import { $, fill, h, party, said, soft, tag } from "./elements.js";
import { findProblem, isKnown, rows } from "./board.js";
import { clock, count, drawAgentAway, since, until } from "./words.js";
import { setDraw } from "./drawing.js";
import { setCount } from "./sections.js";

const caller = (p) => party(p, "a program here");
const byAge = (a, b) => (Date.parse(a.since) || 0) - (Date.parse(b.since) || 0) || (a.k < b.k ? -1 : 1);

// listChains joins calls to those that they follow from: {k, calls: [{r, depth}]}, each call before what
// it has led to, and those chains first that have waited longest.
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
  return roots.sort(byAge).concat(all).map((r) => ({ k: r.k, calls: list(r, 0) })).filter((c) => c.calls.length);
}

function drawWaiting() {
  const all = rows("waiting");
  drawSum(all);
  const chains = listChains(all);
  fill($("waiting-list"), chains, drawChain,
    (c) => ({ "data-missing": c.calls.some((x) => isStuck(x.r)) }),
    (c, before) => c.calls.length !== before.calls.length || c.calls.some((x, i) => x.r !== before.calls[i].r || x.depth !== before.calls[i].depth));
  setCount("waiting", all.length, all.some(isStuck) ? "warn" : "");
}
setDraw("waiting", drawWaiting);

// isStuck: nobody works on a call now, as whoever is called is not there.
const isStuck = (r) => !!(r.missing || r.agent_away);

// drawSum says in a line how many wait beside what needs an approval, and what is wrong; nothing while that cannot
// be read.
function drawSum(all) {
  const missing = all.filter((r) => r.missing), away = all.filter((r) => r.agent_away);
  const oldest = all.sort(byAge).find((r) => r.since);
  const warn = (...words) => h("span", { class: "tone-warn" }, " ", ...words);
  if (findProblem("waiting")) return $("waiting-sum").replaceChildren();
  if (!isKnown("waiting")) return $("waiting-sum").replaceChildren("…");
  $("waiting-sum").replaceChildren(
    all.length ? h("strong", {}, count(all.length, "call waits", "calls wait")) : rows("approvals").length ? "Nobody else is waiting." : "Nobody is waiting.",
    oldest ? h("span", {}, all.length > 1 ? ", the longest for " : " for ", since(oldest.since)) : "",
    all.length ? "." : soft(" Open queries and delegations are listed here."),
    missing.length ? warn(...missing.length === 1 ? [said(missing[0].missing), " is not connected."] : [missing.length + " are with peers that are not connected."]) : "",
    away.length ? warn(...away.length === 1 ? [said(away[0].whom.agent), " is not attached."] : [away.length + " wait for agents that are not attached."]) : "");
}

// drawChain draws who waits for whom on one line, and each call below it.
function drawChain(chain) {
  const first = chain.calls[0].r, single = chain.calls.length === 1;
  return [
    h("div", { class: "path" }, ...drawPath(chain.calls)),
    drawAge(first),
    h("div", { class: "calls" }, ...chain.calls.map((c, i) => drawCall(c.r, single ? "" : drawRoute(c, chain.calls[i - 1]), i > 0 ? first : null))),
  ];
}

// arrow is dotted where whoever calls has guessed what the call follows from.
const arrow = (r) => h("span", { class: "to", "data-guess": r.guess }, h("span", { class: "unseen" }, "waits for"));

// drawRoute says whom a call of a chain is to, and who waits for it unless that is whom the call above it is to.
const drawRoute = (c, above) => !above || c.depth === above.depth + 1
  ? h("span", {}, soft("to "), caller(c.r.whom))
  : h("span", { class: "route" }, caller(c.r.who), arrow(c.r), caller(c.r.whom));

// drawPath draws the parties of a chain with arrows between them. Of calls that branch off it counts the others.
function drawPath(calls) {
  const path = [caller(calls[0].r.who)];
  let depth = 0;
  for (const { r, depth: d } of calls) {
    if (d !== depth) continue;
    depth++;
    path.push(arrow(r), caller(r.whom));
  }
  if (calls.length > depth) path.push(tag("and " + count(calls.length - depth, "call") + " beside"));
  return path;
}

const PATIENCE = 60e3; // milliseconds after which an age stands out, as the legend says
$("waiting-legend").append("Amber: waiting for more than " + PATIENCE / 60e3 + " min.");
const drawAge = (r) => h("div", { class: "age" }, r.since ? since(r.since, PATIENCE) : "", h("small", {}, r.since ? "since " + clock(r.since) : "since before"));

// drawCall draws what a call says, and how far it has come. In a chain it says its route, and since when; below
// the first call of the chain, neither its thread nor the name of the chain again.
function drawCall(r, route, first) {
  const detail = [
    r.asked ? tag("question back") : "", r.state && r.state !== "accepted" ? tag(r.state, "warn") : "",
    r.progress != null ? h("span", { class: "progress" }, h("progress", { max: 1, value: r.progress, "aria-label": "progress" }), h("span", { class: "num" }, Math.round(r.progress * 100) + " %")) : "",
    r.message ? said(r.message, "clamp") : "", r.deadline ? until(r.deadline) : "",
    r.guess && first ? tag("guessed") : "",
    r.thread && r.thread !== first?.thread ? h("span", { class: "tag" }, "thread ", said(r.thread)) : "",
    r.chain && r.chain !== first?.chain ? h("span", { class: "tag", title: r.chain }, "chain " + r.chain.slice(0, 8)) : "",
    r.missing ? h("span", { class: "tone-warn" }, "⚠ ", said(r.missing), " is not connected", r.missing_seen ? " (last seen at " + clock(r.missing_seen) + ")" : "") : "",
    r.agent_away ? drawAgentAway(r.whom.agent, r.agent_away, r.agent_until) : "",
  ].filter(Boolean);
  return h("div", { class: "call" },
    h("span", { class: "call-kind" }, r.kind),
    h("div", { class: "call-what" },
      route,
      r.text ? h("span", { class: "text", dir: "auto" }, r.text) : "",
      h("span", { class: "detail" }, ...detail)),
    h("span", { class: "call-age" }, route && r.since ? since(r.since) : ""));
}
