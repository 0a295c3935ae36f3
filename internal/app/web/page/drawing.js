// Drawing what has changed, each part at most once at a time, and messages no more often than the machine bears.

const DRAW_PAUSE = 250; // milliseconds between two drawings of messages

const draws = new Map(); // part -> what draws it
const due = new Set();
let planned = false, drawn = 0, pause = DRAW_PAUSE;

// setDraw says what draws a part.
export function setDraw(part, draw) { draws.set(part, draw); }

// afterDrawing has something done whenever parts have been drawn.
const after = [];
export function afterDrawing(what) { after.push(what); }

// dirty has parts drawn soon.
export function dirty(...parts) {
  for (const part of parts) due.add(part);
  if (!planned) { planned = true; setTimeout(drawDue, 0); }
}
export function dirtyAll() { dirty(...draws.keys()); }

function drawDue() {
  planned = false;
  const early = performance.now() - drawn < pause;
  for (const part of [...due]) {
    if (part === "messages" && early) continue;
    due.delete(part);
    const began = performance.now();
    if (draws.has(part)) draws.get(part)();
    if (part === "messages") {
      drawn = performance.now();
      pause = Math.max(DRAW_PAUSE, 5 * (drawn - began)); // on a slow machine drawing leaves time for all else
    }
  }
  for (const what of after) what();
  if (due.size && !planned) { planned = true; setTimeout(drawDue, pause); }
}
