// Checks the values while a person types: the server answers with the findings as it would show them.
import { tidy } from "./values.js";

const PAUSE = 350; // milliseconds without a key

export function followTyping(root, form) {
  const address = `/documents/${root.dataset.document}/checks`;
  let waiting;
  let asked; // the request in progress

  async function check() {
    asked?.abort();
    asked = new AbortController();
    const body = new URLSearchParams(new FormData(form));
    for (const input of form.querySelectorAll("[data-shape]")) body.set(input.name, tidy(input.value, input.dataset.shape));
    body.delete("override");
    const response = await fetch(address, { method: "POST", body, signal: asked.signal });
    if (response.ok) place(new DOMParser().parseFromString(await response.text(), "text/html"));
  }

  function soon() {
    clearTimeout(waiting);
    waiting = setTimeout(() => check().catch((error) => { if (error.name !== "AbortError") throw error; }), PAUSE);
  }

  form.addEventListener("change", ({ target }) => tidyInput(target));
  form.addEventListener("submit", () => form.querySelectorAll("[data-shape]").forEach(tidyInput));
  form.addEventListener("input", (event) => { if (event.target.type !== "checkbox") soon(); });
  form.addEventListener("click", (event) => { if (event.target.matches("[data-remove]")) soon(); });
}

function tidyInput(input) {
  if (input.dataset.shape) input.value = tidy(input.value, input.dataset.shape);
}

// A part that did not change stays, and with it what the visitor ticked or opened.
function place(fresh) {
  for (const part of fresh.querySelectorAll("body > [id]")) {
    const old = document.getElementById(part.id);
    if (old && squeeze(old.innerHTML) !== squeeze(part.innerHTML)) old.replaceChildren(...part.childNodes);
  }
  for (const input of document.querySelectorAll("#fields .field > input[id]")) {
    const problem = document.getElementById(input.id.replace("field-", "problem-"));
    input.toggleAttribute("aria-invalid", Boolean(problem));
    if (problem) {
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", problem.id);
    } else {
      input.removeAttribute("aria-describedby");
    }
  }
}

const squeeze = (html) => html.replace(/\s+/g, " ").trim();
