// Numbers and times in words.

import { h, said, setAttributes, setText } from "./elements.js";
import { now, truth } from "./board.js";

const two = (n) => String(n).padStart(2, "0");

export function age(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + two(s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + two(Math.floor(s / 60) % 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s / 3600) % 24 + " h";
}
// took says how long something took; "" if nobody would notice.
export function took(us) {
  if (us < 1000) return "";
  if (us < 1e6) return Math.round(us / 1000) + " ms";
  if (us < 6e7) return (us / 1e6).toFixed(1) + " s";
  return age(us / 1000);
}
export function clock(at) {
  const d = new Date(at);
  const time = two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
  return Math.abs(now() - d) < 20 * 3600e3 ? time : d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + time;
}
export function bytes(n) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (n >= size) return (n / size).toFixed(n % size ? 1 : 0) + " " + unit;
  }
  return n + (n === 1 ? " byte" : " bytes");
}
export const number = (n) => n.toLocaleString("en");
export const count = (n, one, more) => number(n) + " " + (n === 1 ? one : more || one + "s");

// since is an age that goes on. It stands out after so many milliseconds, if that is given.
export function since(at, patience = Infinity) {
  const e = h("span", { class: "num", "data-since": Date.parse(at), "data-patience": patience });
  drawAge(e);
  return e;
}
function drawAge(e) {
  const ms = now() - e.dataset.since;
  setText(e, age(ms));
  e.toggleAttribute("data-long", ms > e.dataset.patience);
}

// until is how long it is until a deadline, which comes nearer.
export function until(at) {
  const e = h("span", { class: "tag num", "data-until": Date.parse(at), title: clock(at) });
  drawDeadline(e);
  return e;
}
function drawDeadline(e) {
  const ms = e.dataset.until - now();
  setText(e, ms > 0 ? "deadline in " + roughly(ms) : "past its deadline");
  setAttributes(e, { "data-tone": ms > 0 ? null : "bad" });
}
function roughly(ms) {
  const s = Math.ceil(ms / 1000);
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  return age(1000 * s);
}

// drawAgentAway says since when the agent here that has accepted a delegation is not attached, and until when the
// delegation waits for it.
export const drawAgentAway = (name, at, to) => h("span", { class: "tone-warn" }, "⚠ ", said(name), " is not attached (since " + clock(at), to ? "; the daemon waits until " + clock(to) : "", ")");

// What errors say, by their codes. Another outcome is said in its own word.
const outcomes = new Map(Object.entries({
  not_authorized: "not allowed", unknown_domain: "no agent for this domain", unknown_kind: "kind not known there", invalid: "not valid", too_large: "too large",
  no_agent: "no such agent", overloaded: "too many messages", timeout: "timed out", cancelled: "cancelled", not_found: "not found", loop_detected: "chain too long",
  incompatible_version: "other version of acpd", internal: "failed there", unreachable: "unreachable", daemon_unavailable: "no daemon", unknown_peer: "no such peer",
  not_trusted: "not trusted there", identity_conflict: "same identity twice",
}));
// toneOf is how an outcome is drawn; "" if it is what everybody expects.
export const toneOf = (outcome) => ["ok", "handed", "sent"].includes(outcome) ? "" : outcome === "held" ? "warn" : "bad";
export const outcomeOf = (outcome) => outcomes.get(outcome) || outcome;

export const isTime = (at) => !!at && !at.startsWith("0001-");

setInterval(() => {
  if (document.hidden || truth.stopped) return;
  for (const e of document.querySelectorAll("[data-since]")) drawAge(e);
  for (const e of document.querySelectorAll("[data-until]")) drawDeadline(e);
}, 1000);
