// Small tools to build and update the document. All text goes in as text nodes:
// nothing here, nor anywhere on this page, parses markup.

const byId = (id) => document.getElementById(id);

/** Makes an element. Props are attributes, but for "on…" listeners. */
function build(make, tag, props, children) {
  const e = make(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children);
  return e;
}
const el = (tag, props, ...children) => build((t) => document.createElement(t), tag, props, children);
const svg = (tag, props, ...children) =>
  build((t) => document.createElementNS("http://www.w3.org/2000/svg", t), tag, props, children);

/** Sets text only if it differs, so that a selection in it survives. */
function write(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

/** Sets an attribute only if it differs; undefined removes it. */
function mark(e, name, value) {
  if (value === undefined) e.removeAttribute(name);
  else if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}

/**
 * Makes the children of parent those of items, in order, keeping the elements of
 * items that were there before. create returns {element, update}.
 */
function keyed(parent, items, key, create) {
  const before = (parent.keyed ??= new Map());
  const after = new Map();
  let at = parent.firstChild;
  for (const item of items) {
    const k = key(item);
    if (after.has(k)) continue;
    const child = before.get(k) ?? create(item);
    child.update(item);
    after.set(k, child);
    if (child.element === at) at = at.nextSibling;
    else parent.insertBefore(child.element, at);
  }
  for (const [k, child] of before) if (!after.has(k)) child.element.remove();
  parent.keyed = after;
}

/** A button that shows text and copies it, or, given as value, something else. */
function copyable(text, value = text) {
  const button = el("button", { type: "button", class: "copy", title: "Copy" }, text);
  button.addEventListener("click", async (event) => {
    event.stopPropagation();
    button.dataset.copied = (await copy(value)) ? "copied" : "select and copy by hand";
    setTimeout(() => delete button.dataset.copied, 1200);
  });
  return button;
}

/** The clipboard is there on loopback and https only; elsewhere the old way. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { readonly: true, class: "offscreen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** What stands where there is nothing yet: what that means and what to do. */
function emptyState(title, advice, code) {
  const box = el("div", { class: "empty" }, el("strong", null, title), el("p", null, advice));
  if (code) box.append(el("pre", null, code), copyButton(code));
  return box;
}

/** Shows make() in box instead of what keyed put there. */
function showEmpty(box, make) {
  if (box.querySelector(".empty")) return;
  box.keyed = undefined;
  box.replaceChildren(make());
}

function clearEmpty(box) {
  box.querySelector(".empty")?.remove();
}

function copyButton(code) {
  const button = copyable("Copy", code);
  button.classList.add("plain");
  return button;
}
