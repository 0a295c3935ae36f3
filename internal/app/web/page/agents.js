// Agents and sessions, and what headless runs have cost.

import { $, button, fill, h, said, tag } from "./elements.js";
import { now, rows, truth } from "./board.js";
import { clock, count, number } from "./words.js";
import { act, busy } from "./actions.js";
import { setDraw } from "./drawing.js";
import { setHub } from "./network.js";
import { setCount, setEmpty } from "./sections.js";

setDraw("agents", () => {
  const list = rows("agents").sort((a, b) => !!b.harness - !!a.harness || (a.name < b.name ? -1 : 1));
  fill($("agents-list"), list, drawAgent, null, (a, before, e) => a !== before || a.muted || e.off !== isOff(a));
  setEmpty("agents", list.length);
  setCount("agents", list.length || "");
  setHub("", list.length);
});

function drawAgent(a, e) {
  e.off = isOff(a);
  const does = [...(a.domains || []), ...(a.topics || []).map((t) => "topic " + t)];
  return [
    h("div", { class: "line1" }, said(a.name, "title"), a.harness ? tag(a.harness, "good") : "", isMuted(a) ? tag("muted", "warn") : "",
      h("span", { class: "right num soft small" }, a.active ? a.active + " of " + a.most + " at work" : "idle")),
    a.harness && !does.length ? null : h("div", { class: "line2" }, a.harness ? "" : said(listKinds(a)), does.length ? h("span", {}, a.harness ? "" : " · ", said(does.join(", "))) : ""),
    a.harness ? drawSession(a) : null,
    a.asks ? h("div", { class: "line2 tone-warn" }, said(a.asks), " asks its user") : null,
    a.unwakeable ? h("div", { class: "line2 tone-warn" }, "cannot be woken: ", said(a.unwakeable)) : null,
    a.refused ? h("div", { class: "line2 tone-warn" }, "was not woken: ", said(a.refused)) : null,
  ];
}
// listKinds says what an agent answers, and what it only takes. A cancel is part of a delegation.
function listKinds(a) {
  const isAnswered = (k) => k === "query" || k === "delegate", all = (a.kinds || []).filter((k) => k !== "cancel");
  const list = (verb, kinds) => kinds.length ? [verb + " " + kinds.join(", ")] : [];
  return [...list("answers", all.filter(isAnswered)), ...list("takes", all.filter((k) => !isAnswered(k)))].join(" · ");
}
const isOff = (a) => busy.has(a.k) || !!truth.stopped;
const isMuted = (a) => a.muted && Date.parse(a.muted) > now();

// drawSession says who has woken a session, and lets it be muted.
function drawSession(a) {
  const woken = [a.hour ? count(a.hour, "time") + " in the last hour" : "", a.day ? count(a.day, "time") + " in a day" : ""].filter(Boolean);
  const by = (a.by || []).map((b) => b.name + " " + b.day + (b.used_up ? ", whose share is used up until " + clock(b.used_up) : ""));
  const mute = (secs, done) => act("mute", { name: a.k, secs }, a.k, done, "agents");
  const change = isMuted(a) ? button("unmute", "Unmute", "Unmute " + a.name, "quiet", () => mute(0, a.name + " may be woken again."))
    : button("mute", "Mute for an hour", "Mute " + a.name + " for an hour", "quiet", () => mute(3600, "Nothing wakes " + a.name + " for an hour."));
  change.disabled = isOff(a);
  return h("div", { class: "line2 session" },
    h("span", {}, woken.length ? "woken " + woken.join(", ") : "not woken today", by.length ? h("span", {}, " by ", said(by.join(", "))) : "",
      a.waiting ? " · " + count(a.waiting, "message waits", "messages wait") + " to wake it" : "",
      isMuted(a) ? h("span", {}, " · nothing wakes it until ", h("span", { class: "num" }, clock(a.muted))) : ""),
    change);
}

setDraw("spent", () => {
  const list = rows("spent").sort((a, b) => b.cost - a.cost || b.tokens - a.tokens);
  $("spent").hidden = !list.length;
  const part = (r) => Math.max(r.most_cost ? r.cost / r.most_cost : 0, r.most_runs ? r.runs / r.most_runs : 0, r.most_tokens ? r.tokens / r.most_tokens : 0);
  fill($("spent-list"), list, (r) => [h("div", { class: "bar" },
    h("span", {}, said(r.name, "title"), " · ", said(r.profile)),
    h("span", { class: "num small soft" }, count(r.runs, "run") + ", " + number(r.tokens) + " tokens, $" + r.cost.toFixed(2) + (r.most_cost ? " of $" + r.most_cost.toFixed(2) : "")),
    h("progress", { max: 1, value: Math.min(1, part(r)), "data-tone": part(r) > 0.8 ? "warn" : "", "aria-label": "part of the day’s bound" }))]);
});
