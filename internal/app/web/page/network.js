// The picture of who is connected, and how; relays.

import { $, button, fill, h, said, setText, svg, tag } from "./elements.js";
import { isKnown, rows, view } from "./board.js";
import { clock, count, took } from "./words.js";
import { dirty, setDraw } from "./drawing.js";
import { setCount } from "./sections.js";

const MAX_PEERS = 60;   // in the picture
const MAX_CALLERS = 3;  // strangers, of whom there may be any number

export const labelOf = (p) => p.name || p.claim || p.id;
const byName = (a, b) => labelOf(a).localeCompare(labelOf(b), "en", { numeric: true }) || (a.k < b.k ? -1 : 1);
const isConnected = (p) => p.state === "connected";

setDraw("peers", () => {
  const all = rows("peers");
  const known = all.filter((p) => isConnected(p) || p.state === "trusted").sort(byName);
  const calling = all.filter((p) => p.state === "pending").length;
  const around = all.filter((p) => p.state === "discovered").length;
  const strangers = [calling > MAX_CALLERS ? count(calling - MAX_CALLERS, "more stranger has", "more strangers have") + " called" : "", around ? count(around, "daemon is", "daemons are") + " on the network" : ""].filter(Boolean);
  $("strangers").hidden = !strangers.length;
  $("strangers").replaceChildren(strangers.join(", "), ". ", h("code", {}, "acpctl peers"), " lists them.");
  fill($("callers"), all.filter((p) => p.state === "pending").slice(0, MAX_CALLERS), (p) => [
    p.claim ? ["A stranger that calls itself ", said(p.claim, "title")] : "A stranger", " wants to connect. To compare its fingerprint, and trust it: ", h("code", {}, "acpctl trust " + p.id)].flat());
  const empty = isKnown("peers") && !known.length;
  $("network-empty").hidden = !empty;
  $("picture").hidden = empty;
  $("network").toggleAttribute("data-none", empty && !strangers.length && !rows("relays").length);
  const connected = known.filter(isConnected);
  setCount("peers", known.length ? connected.length + "/" + known.length : "");
  drawLegend(known);
  // A peer keeps its place whatever its state, unless there are more than fit: then those go that are not connected.
  const order = (p) => isConnected(p) ? 0 : 1;
  layOut(known.length <= MAX_PEERS ? known : [...known].sort((a, b) => order(a) - order(b) || byName(a, b)).slice(0, MAX_PEERS).sort(byName));
  if (known.length > MAX_PEERS) { $("strangers").hidden = false; $("strangers").prepend(count(known.length - MAX_PEERS, "peer") + " more. "); }
});

// drawLegend explains those lines that the picture has, if it has several kinds.
function drawLegend(known) {
  const paths = new Set(known.map(pathOf));
  for (const item of $("legend").children) item.hidden = !paths.has(item.dataset.path);
  $("legend").hidden = paths.size < 2;
}
const pathOf = (p) => isConnected(p) ? p.path || "direct" : "";

function layOut(known) {
  const box = $("picture"), W = box.clientWidth;
  if (!W) return;
  const narrow = W < 440, n = known.length, dense = n > (narrow ? 10 : 16);
  box.toggleAttribute("data-dense", dense);
  box.toggleAttribute("data-narrow", narrow);
  const pillH = dense ? 23 : 42, gap = dense ? 3 : 12, right = Math.ceil(n / 2), left = n - right;
  const H = Math.max(96, right * (pillH + gap) + 8);
  const pillW = narrow ? Math.min(124, (W - 104) / 2) : Math.min(180, (W - 190) / 2);
  box.style.height = H + "px";
  $("hub").style.top = H / 2 + "px";
  $("lines").setAttribute("viewBox", "0 0 " + W + " " + H);
  const far = W / 2 - pillW / 2 - 1, near = narrow ? far : Math.max(pillW / 2 + 90, far * 0.8);
  known.forEach((p, i) => {
    const side = i < right ? 1 : -1, k = side > 0 ? right : left, j = side > 0 ? i : i - right;
    const y = H / 2 + (j - (k - 1) / 2) * (pillH + gap);
    const t = Math.abs(y - H / 2) / (H / 2);
    const x = W / 2 + side * Math.min(far, near + (far - near) * Math.sqrt(1 - t * t));
    p.at = { x, y, edge: x - side * pillW / 2 };
  });
  fill($("peers"), known, (p, e) => drawPeer(p, e, dense), (p) => ({ class: "peer", "data-path": pathOf(p), "data-refuses": p.refuses }), (p, before, e) => p !== before || e.only !== (view.only === p.k) || e.dense !== dense);
  for (const p of known) {
    const e = $("peers").kept.get(p.k);
    e.style.width = pillW + "px";
    e.style.height = pillH + "px";
    e.style.left = p.at.x - pillW / 2 + "px";
    e.style.top = p.at.y - pillH / 2 + "px";
  }
  drawLines(known, W / 2, H / 2);
}

const lineOf = new Map(); // peer -> path element
function drawLines(known, cx, cy) {
  const wanted = new Set(known.map((p) => p.k));
  for (const [k, e] of lineOf) if (!wanted.has(k)) { e.remove(); lineOf.delete(k); }
  for (const p of known) {
    let e = lineOf.get(p.k);
    if (!e) { e = svg("path", { class: "line" }); lineOf.set(p.k, e); $("lines").append(e); }
    const { y, edge } = p.at, dx = edge - cx;
    e.setAttribute("d", `M${cx} ${cy}C${cx + dx * 0.45} ${cy} ${edge - dx * 0.45} ${y} ${edge} ${y}`);
    e.setAttribute("data-path", pathOf(p));
  }
}

function drawPeer(p, e, dense) {
  e.only = view.only === p.k;
  e.dense = dense;
  const rtt = p.rtt_us != null ? took(p.rtt_us) : "";
  const how = p.refuses ? "does not trust this daemon" : isConnected(p) ? [dense ? "" : p.path, rtt].filter(Boolean).join(" · ") : "not connected";
  const b = button("only", "", null, "", () => showOnly(view.only === p.k ? "" : p.k));
  b.setAttribute("aria-pressed", String(e.only));
  b.title = [labelOf(p), p.id, p.addr, p.software, p.seen ? "seen " + clock(p.seen) : ""].filter(Boolean).join("\n");
  b.append(h("span", { class: "name" }, said(labelOf(p))), h("span", { class: "how" }, how));
  return [b];
}

// showOnly has the messages of one peer shown alone, "" those of all.
export function showOnly(id) {
  view.only = id;
  view.chosen = "";
  view.follows = true;
  dirty("peers", "messages", "files");
  if (id) $("messages").scrollIntoView({ block: "nearest" });
}

// flash marks the lines of peers for a moment: something passes there.
let flashed = new Set();
export function flash(ids) {
  for (const k of ids) { const e = lineOf.get(k); if (e) { e.setAttribute("data-busy", ""); flashed.add(e); } }
  if (flashed.size) setTimeout(() => { for (const e of flashed) e.removeAttribute("data-busy"); flashed = new Set(); }, 500);
}
new ResizeObserver(() => dirty("peers")).observe($("picture").parentElement);

setDraw("relays", () => {
  fill($("relays"), rows("relays"), (r) => [h("div", { class: "line1" }, h("span", {}, "relay ", said(r.name, "title")),
    tag(r.state, r.state === "up" ? "good" : r.state === "connecting" ? "warn" : "bad"), said(r.url, "soft"), r.error ? said(r.error, "tone-bad") : "")]);
});

// setHub names the daemon in the middle, and how many agents it has.
export function setHub(name, agents) {
  if (name) setText($("hub-name"), name);
  if (agents != null) setText($("hub-sub"), count(agents, "agent"));
}
