// The page of a document: links fields with their boxes, moves from field to field, and handles the keys.
// A field to check is first selected as a row: keys are shortcuts. E or Tab edits it; Escape selects it again.
import { followTyping } from "./findings.js";
import { openViewer } from "./viewer.js";

const root = document.querySelector(".review-page");
const fields = [...document.querySelectorAll(".field[data-field]")];
const form = document.getElementById("fields");
if (root.hasAttribute("data-checked") && form) followTyping(root, form);
const viewer = openViewer(root, { current: () => current, choose });
let current = null; // the input that was focused last, which a word of the page is offered for

function show(name, { scroll = true } = {}) {
  for (const field of fields) field.classList.toggle("shown", field.dataset.field === name);
  viewer?.showField(name, scroll);
}

for (const field of fields) {
  field.addEventListener("focusin", (event) => {
    const isNew = !field.classList.contains("shown");
    const input = event.target === field ? findInput(field) : event.target;
    if (input.matches("input:not([readonly])")) current = input;
    if (!isNew) return; // moving between cells of a table must not scroll the page
    show(field.dataset.field);
    viewer?.withdrawOffer(); // it was for another field
  });
  field.addEventListener("click", () => show(field.dataset.field));
}
function choose(name) {
  show(name, { scroll: false });
  const field = fields.find((each) => each.dataset.field === name);
  field?.querySelector("input:not([type=hidden])")?.focus();
}

// The fields that a person must look at: those marked, and those with a failed check or an error.
function toCheck() {
  return fields
    .filter((field) => field.matches(".attention") || field.querySelector(".findings .warn"))
    .filter(findInput); // in a table, Enter moves to the row below
}

function findInput(field) {
  return field.querySelector(":scope > input:not([readonly], [type=hidden])");
}

// Selects the row of a field. Its name is for screen readers, which do not read an unnamed group.
function focusField(field) {
  const input = findInput(field);
  field.tabIndex = -1;
  field.setAttribute("role", "group");
  field.setAttribute("aria-label", `Check: ${input.labels[0].textContent}, ${input.value || "empty"}`);
  field.focus();
  field.scrollIntoView({ block: "nearest" });
}

function editField(field) {
  findInput(field).focus();
  findInput(field).select();
}

function focusAfter(element) {
  const following = Node.DOCUMENT_POSITION_FOLLOWING;
  const next = toCheck().find((field) => element.compareDocumentPosition(findInput(field)) & following && !field.contains(element));
  if (next) return focusField(next);
  const left = document.querySelector("#override input:not(:checked)");
  (left ?? document.getElementById("confirm"))?.focus();
}

form?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
  if (!event.target.matches("input, .field") || event.target.closest("[data-rows]")) return;
  event.preventDefault();
  if (event.target.type === "checkbox") event.target.click();
  focusAfter(event.target);
});

// One decision per page, however often the key is pressed.
let isSent = false;
for (const sent of document.querySelectorAll(".review-page form[method=post]")) {
  sent.addEventListener("submit", (event) => {
    if (isSent) event.preventDefault();
    isSent = true;
  });
}
addEventListener("pageshow", () => { isSent = false; });

const click = (id) => document.getElementById(id)?.click();

function open(id) {
  const box = document.getElementById(id);
  if (!box) return;
  box.open = true;
  box.querySelector("input, select").focus();
}

const dialog = document.getElementById("keys");
const singleKeys = document.getElementById("single-keys");
singleKeys.checked = localStorage.getItem("single-keys") !== "off";
singleKeys.addEventListener("change", () => {
  localStorage.setItem("single-keys", singleKeys.checked ? "on" : "off");
  showKeys();
});
const help = document.querySelector("[data-keys]");
help.hidden = false;
help.addEventListener("click", () => dialog.showModal());

// Only the keys that work now are shown: while a person types, single keys are text.
const isTyping = (element) => element.matches("input:not([type=checkbox]), select, textarea");
function showKeys() {
  const isSingle = singleKeys.checked;
  root.classList.toggle("typing", isTyping(document.activeElement));
  root.classList.toggle("no-single-keys", !isSingle);
  root.classList.toggle("selecting", isSingle && document.activeElement.matches(".field"));
}
document.addEventListener("focusin", showKeys);
document.addEventListener("focusout", () => setTimeout(showKeys)); // until then, the old element has the focus

const keys = {
  n: () => click("next"),
  p: () => click("previous"),
  s: () => click("skip"),
  z: () => click("undo"),
  r: () => open("reject"),
  a: () => open("assign"),
  c: () => document.getElementById("comment")?.focus(),
  f: () => { const [first] = toCheck(); if (first) focusField(first); },
  e: () => {
    const selected = document.activeElement.closest(".field");
    const field = selected && findInput(selected) ? selected : toCheck()[0];
    if (field) editField(field);
  },
  o: () => document.querySelector("#override input")?.click(),
  "?": () => dialog.showModal(),
  "/": () => viewer?.focusSearch(),
  "+": () => viewer?.zoom(1),
  "=": () => viewer?.zoom(1),
  "-": () => viewer?.zoom(-1),
  w: () => viewer?.fit(),
  t: () => viewer?.turn(),
  m: () => viewer?.toggleThumbs(),
};

function leave(target) {
  const box = target.closest(".pop[open]") ?? document.querySelector(".pop[open]");
  if (box) {
    box.open = false;
    box.querySelector("summary").focus();
  } else if (target.matches("input, select, textarea")) {
    const field = target.closest(".field[data-field]");
    if (field && findInput(field) === target) focusField(field);
    else target.blur();
  }
  viewer?.withdrawOffer();
}

document.addEventListener("keydown", (event) => {
  if (dialog.open || event.altKey || event.defaultPrevented) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return click("confirm");
  if (event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape") return leave(event.target);
  if (isTyping(event.target) || !singleKeys.checked) return;
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// Enter submits a choice, as it submits text.
document.getElementById("assignee")?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  event.target.form.requestSubmit();
});

document.getElementById("summary").addEventListener("click", (event) => {
  if (!event.target.matches("[data-first-problem]")) return;
  event.preventDefault();
  const first = document.querySelector(".field .findings .warn")?.closest(".field");
  if (first && findInput(first)) focusField(first);
  else (first ?? document.getElementById("override")).scrollIntoView({ block: "nearest" });
});

// A box that opened closes when the visitor clicks elsewhere.
document.addEventListener("click", (event) => {
  for (const box of document.querySelectorAll(".pop[open]")) if (!box.contains(event.target)) box.open = false;
});

// A person with a keyboard starts at the first field to check; on a phone, the keyboard would cover the page.
if (root.hasAttribute("data-open") && matchMedia("(hover: hover)").matches) {
  const wrong = document.querySelector("[autofocus]");
  const first = wrong ? wrong.closest(".field") : toCheck()[0];
  if (first && findInput(first)) focusField(first);
  else (wrong ?? document.getElementById("confirm"))?.focus();
  // The record that a document differs from comes before its fields, and decides what to do with them.
  if (document.querySelector(".conflict")) document.querySelector(".fields-pane").scrollTop = 0;
}
showKeys();
