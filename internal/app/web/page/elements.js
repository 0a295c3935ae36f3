// Making elements. Whatever a peer wrote becomes text nodes and nothing else.

export const $ = (id) => document.getElementById(id);

// h makes an element. Strings among the children become text; "", null and false are left out.
export function h(tag, attributes, ...children) {
  const e = document.createElement(tag);
  setAttributes(e, attributes || {});
  e.append(...children.flat().filter((c) => c != null && c !== false && c !== ""));
  return e;
}
export function svg(tag, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(e, attributes);
  return e;
}

// setAttributes sets attributes, with true as one that has no value; with false or null it removes one.
export function setAttributes(e, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value == null) e.removeAttribute(name);
    else e.setAttribute(name, value === true ? "" : value);
  }
}
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// said is text that somebody else wrote, which has a direction of its own.
export const said = (text, cls) => h("span", { class: "said-by " + (cls || ""), dir: "auto" }, text);
export const soft = (...children) => h("span", { class: "soft" }, ...children);
export const tag = (text, tone) => h("span", { class: "tag", "data-tone": tone }, text);

// button makes a button. The focus finds it again when its row is drawn anew, by act, which names what it
// does, and of, which names to what, if a row has several.
export function button(act, text, label, cls, click, of = null) {
  const b = h("button", { type: "button", "data-act": act, "data-of": of, "aria-label": label, class: cls }, text);
  b.addEventListener("click", click);
  return b;
}

// party is one that sends or is called: machine/agent, where this machine is here. unnamed stands for a
// program here that has no name.
export function party(p, unnamed = "here") {
  if (p.here && !p.agent) return h("span", { class: "party" }, h("span", { class: "name" }, unnamed));
  if (!p.agent) return h("span", { class: "party" }, said(p.peer, "name"));
  return h("span", { class: "party" }, p.here ? soft("here/") : [said(p.peer, "soft"), soft("/")], said(p.agent, "name"));
}

// focusOn gives the focus to a button in an element.
export function focusOn(e, act, of) {
  for (const b of e.querySelectorAll("[data-act]")) if (b.dataset.act === act && b.dataset.of === of) return b.focus();
}

// fill makes the children of a list be those of rows, in their order. draw returns the children of one; it is
// called again only if the row is another object or, where changed is given, if that says so of the row, the one
// before and the element.
export function fill(list, rows, draw, attributes, changed = (row, before) => row !== before) {
  const kept = list.kept || (list.kept = new Map());
  const wanted = new Set(rows.map((r) => r.k));
  for (const [k, e] of kept) if (!wanted.has(k)) { e.remove(); kept.delete(k); }
  rows.forEach((row, i) => {
    let e = kept.get(row.k);
    if (!e) kept.set(row.k, e = document.createElement(list.tagName === "UL" ? "li" : "div"));
    if (!e.row || changed(row, e.row, e)) {
      const { act, of } = e.contains(document.activeElement) ? document.activeElement.dataset : {};
      e.replaceChildren(...draw(row, e).filter(Boolean));
      if (attributes) setAttributes(e, attributes(row));
      if (act) focusOn(e, act, of);
    }
    e.row = row;
    if (list.children[i] !== e) list.insertBefore(e, list.children[i] || null);
  });
}
