// What all sections have: a count, a word if they have nothing, a button for the rest, and a problem.

import { $, setAttributes, setText } from "./elements.js";
import { findProblem, hasMore, isKnown } from "./board.js";
import { dirty, setDraw } from "./drawing.js";

const whole = new Set(); // lists that are shown whole

// cut returns the first rows of a list, or all if somebody wants them.
export function cut(part, list, most) {
  const b = $(part + "-all");
  b.hidden = list.length <= most;
  setText(b, whole.has(part) ? "Show fewer" : "Show all " + list.length);
  return whole.has(part) ? list : list.slice(0, most);
}
for (const b of document.querySelectorAll("[data-all]")) {
  const part = b.dataset.all;
  b.addEventListener("click", () => {
    if (!whole.delete(part)) whole.add(part);
    dirty(part);
  });
}

// setEmpty says that a part has nothing, if that is known: it was read, and can be.
export function setEmpty(part, n, known = isKnown(part)) {
  const e = document.querySelector(`[data-empty=${part}]`);
  e.hidden = n > 0 || !known || !!findProblem(part);
  e.closest(".card").toggleAttribute("data-none", !e.hidden);
}

// setCount shows how many there are in the list of sections; "" or 0: nothing.
export function setCount(part, n, tone) {
  const e = document.querySelector(`[data-count=${part}]`);
  setText(e, n ? String(n) : "");
  setAttributes(e, { "data-tone": n && tone ? tone : null });
}

setDraw("notes", () => {
  for (const e of document.querySelectorAll("[data-problem]")) {
    const why = findProblem(e.dataset.problem);
    e.hidden = !why;
    setText(e, why ? "This cannot be read: " + why : "");
  }
  for (const e of document.querySelectorAll("[data-more]")) {
    e.hidden = !hasMore(e.dataset.more);
    setText(e, "There is more than is shown here.");
  }
});
