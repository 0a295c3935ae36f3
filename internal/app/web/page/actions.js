// What the page asks of the server: what the owner does, and what came of it.

import { $, setText } from "./elements.js";
import { dirty } from "./drawing.js";

export const busy = new Set(); // what was sent and not answered yet

// post asks the server for something.
export const post = (path, body) => fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// act has the server do something, and says what came of it. key is what it is done to, in a part.
export async function act(path, body, key, done, part) {
  busy.add(key);
  dirty(part);
  let text = done;
  try {
    const answer = await post(path, body);
    if (!answer.ok) text = "That did not work: " + await answer.text();
  } catch {
    text = "That did not work: acpctl web does not answer.";
  }
  busy.delete(key);
  dirty(part);
  announce(text);
}

// announce says something for a few seconds.
let silence;
export function announce(text) {
  setText($("said"), text);
  clearTimeout(silence);
  silence = setTimeout(() => setText($("said"), ""), 6000);
}
