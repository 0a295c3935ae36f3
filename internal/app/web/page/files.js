// Files that came, come, or are sent: those of the conversation that is shown, or of all.

import { $, fill, h, party, said, soft, tag } from "./elements.js";
import { rows, view } from "./board.js";
import { bytes, clock } from "./words.js";
import { setDraw } from "./drawing.js";
import { cut } from "./sections.js";
import { keyOf } from "./messages.js";

const open = new Set(["asked", "moving", "paused"]);

setDraw("files", () => {
  const list = rows("files").filter((f) => view.chosen ? keyOf(f) === view.chosen : !view.only || f.id === view.only)
    .sort((a, b) => open.has(b.state) - open.has(a.state) || Date.parse(b.since) - Date.parse(a.since) || (a.k < b.k ? -1 : 1));
  fill($("files-list"), cut("files", list, 3), drawFile);
});

function drawFile(f) {
  const own = { here: true, agent: f.own }, theirs = { peer: f.peer, agent: f.agent }, [from, to] = f.dir === "out" ? [own, theirs] : [theirs, own];
  const moving = f.state === "moving", part = f.size ? f.bytes / f.size : 0;
  return [
    h("div", { class: "line1" }, said(f.name, "title mono"), soft(moving ? bytes(f.bytes) + " of " + bytes(f.size) : bytes(f.size)),
      moving ? h("progress", { max: 1, value: part, "aria-label": "part of the file that has arrived" }) : drawState(f),
      h("span", {}, party(from), h("span", { class: "to" }, h("span", { class: "unseen" }, "to")), party(to)),
      h("span", { class: "right num soft small" }, clock(f.since))),
    f.text ? h("div", { class: "line2 clamp" }, said(f.text)) : null,
  ];
}

function drawState(f) {
  switch (f.state) {
    case "asked": return tag(f.dir === "out" ? "its receiver's owner is asked" : "needs your approval", "warn");
    case "paused": return tag("broken off: its sender can continue", "warn");
    case "taken": return h("span", { class: "tag" }, "taken by ", said(f.taken_by));
    case "here": return tag("here", "good");
  }
  return tag(f.state);
}
