// The page of acpctl web. The server says what has changed (EventSource "events"); the other files draw it.

import { $, fill, h, said, setText } from "./elements.js";
import { forgetAll, now, rows, takePart, truth } from "./board.js";
import { clock, number, since } from "./words.js";
import { dirty, dirtyAll, setDraw } from "./drawing.js";
import { setHub } from "./network.js";
import { addLines, forgetMessages } from "./messages.js";
import { setCount } from "./sections.js";
import "./approvals.js";
import "./waiting.js";
import "./agents.js";
import "./lists.js";
import "./files.js";

setDraw("daemon", () => {
  const d = rows("daemon")[0];
  if (!d) return;
  setText($("name"), d.name || d.id);
  $("about").replaceChildren(
    h("span", { class: "mono" }, d.id), " · ", d.version, " · ", d.drain ? "draining" : d.ready ? d.state : "not ready", " · up ", since(d.since), " · ",
    h("span", { class: "num" }, number(d.in)), " in, ", h("span", { class: "num" }, number(d.out)), " out");
  setHub(d.name || d.id);
  dirty("approvals"); // the title of the page has the name
});

setDraw("warnings", () => {
  const all = rows("warnings").sort((a, b) => a.place - b.place);
  $("warnings").hidden = !all.length;
  document.querySelector("[data-nav=warnings]").hidden = !all.length;
  setCount("warnings", all.length, "warn");
  fill($("warnings-list"), all, (r) => [said(r.text)]);
});

// take takes an update of the server.
function take(u) {
  truth.skew = Date.parse(u.now) - Date.now();
  if (u.reset) {
    forgetAll();
    forgetMessages();
    dirtyAll();
  }
  if (u.away) {
    away = u.away;
    drawLink();
  }
  for (const p of u.parts || []) {
    takePart(p);
    dirty(p.part, "notes");
  }
  if (u.lines) addLines(u.lines, u.skipped, u.reset);
}

let away = { why: "" };   // why the daemon does not answer, and since when
let failures = 0;         // of the stream, one after the other
let silent = 0;           // when the stream ceased, in milliseconds; 0: it has not
let proof = "";           // what the first stream began with
const MAX_FAILURES = 30;

// drawLink says whether what is shown is true now, in the chip and everywhere else: ages stop, parts are
// grey and described by what is wrong, and nothing can be done.
function drawLink() {
  const ended = failures > MAX_FAILURES;
  const [tone, text, why] = ended ? ["bad", "ended", "acpctl web has ended. Run it again, and open the link that it prints. The page shows what it knew before."]
    : failures > 2 ? ["bad", "no answer", "acpctl web has not answered since " + clock(silent) + ". If it has ended, run it again, and open the link that it prints. The page shows what it knew before."]
    : failures ? ["warn", "connecting again", ""]
    : away.why ? ["bad", "away", "The daemon has been away since " + clock(away.since) + ": " + away.why + ". The page shows what it knew before, and goes on by itself when the daemon is back."]
    : ["good", "live", ""];
  $("link-state").setAttribute("data-tone", tone);
  setText($("link-text"), text);
  $("away").hidden = !why;
  setText($("away"), why);
  const before = truth.stopped;
  truth.stopped = failures ? silent : away.why ? Date.parse(away.since) : 0;
  const main = document.querySelector("main");
  main.toggleAttribute("data-old", !!truth.stopped);
  $("about").toggleAttribute("data-old", !!truth.stopped);
  for (const e of main.querySelectorAll("section")) {
    if (truth.stopped) e.setAttribute("aria-describedby", why ? "away" : "link-text");
    else e.removeAttribute("aria-describedby");
  }
  if (!!truth.stopped !== !!before) dirty("approvals", "waiting", "agents", "held");
}

// fail notes that the stream has failed, so many times: after too many, acpctl web has ended.
function fail(times) {
  if (!failures) silent = now();
  failures += times;
  drawLink();
  if (failures <= MAX_FAILURES) setTimeout(connect, Math.min(5000, 500 * failures));
}

function connect() {
  const source = new EventSource("events");
  let proven = false;
  source.onmessage = (e) => {
    const u = JSON.parse(e.data);
    if (!proven) { // when acpctl web has ended, another program may have its port
      if (!u.proof || (proof && u.proof !== proof)) { source.close(); fail(Infinity); return; }
      proven = true;
      proof = u.proof;
      failures = silent = 0;
      drawLink();
    }
    take(u);
  };
  source.onerror = () => {
    source.close();
    fail(1);
  };
}
connect();
