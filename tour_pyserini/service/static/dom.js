// Making elements. Texts become text nodes: nothing that a query or a passage says is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with attributes (functions listen to events) and children: elements, texts, or null for none. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Give a node these children only. */
export function replace(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null));
}

/** Words for screen readers alone. */
export function spoken(words) {
  return element("span", { class: "spoken" }, words);
}

/** Whether the reader asked for less motion. */
export function isStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Mark every element of a passage, wherever it is shown; null: of none. */
export function point(docid) {
  for (const each of document.querySelectorAll("[data-doc]"))
    each.classList.toggle("pointed", docid !== null && each.dataset.doc === docid);
}

/** Point at the passage under the mouse or with the keyboard's focus. */
export function followPointer(root) {
  const enter = (event) => point(event.target.closest("[data-doc]")?.dataset.doc ?? null);
  root.addEventListener("pointerover", enter);
  root.addEventListener("focusin", enter);
  root.addEventListener("pointerleave", () => point(null));
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  replace(node, children);
  return node;
}
