// The viewer: zoom, rotation, thumbnails, search, and a layer of text whose words fill the focused field.
import { toValue } from "./values.js";

const SVG = "http://www.w3.org/2000/svg";
const STEPS = [0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4];
const SHARP = 1.3; // from this zoom on, pages are loaded at a higher resolution

export function openViewer(root, fields) {
  const sheets = document.getElementById("sheets");
  const stage = sheets?.querySelectorAll(".sheet") ?? [];
  if (!stage.length) return undefined;
  const pages = [...stage];
  const tools = root.querySelector(".tools");
  tools.hidden = false;
  let scale = 1;
  let quarter = 0;

  function apply() {
    const { scrollTop, scrollHeight } = sheets;
    sheets.style.setProperty("--zoom", scale);
    for (const page of pages) {
      page.dataset.turn = quarter * 90;
      const image = page.querySelector("img");
      page.style.setProperty("--ratio", image.getAttribute("width") / image.getAttribute("height"));
      if (scale > SHARP && !image.src.includes("size=zoom")) image.src = `${image.src.split("?")[0]}?size=zoom`;
    }
    tools.querySelector(".zoom").textContent = `${Math.round(scale * 100)}%`;
    sheets.scrollTop = scrollTop * (sheets.scrollHeight / scrollHeight);
  }

  function zoom(direction) {
    const at = STEPS.indexOf(STEPS.find((step) => step >= scale));
    scale = STEPS[Math.max(0, Math.min(STEPS.length - 1, at + direction))];
    apply();
  }

  const fit = () => { scale = 1; apply(); };
  const turn = () => { quarter = (quarter + 1) % 4; apply(); };
  apply();

  const thumbs = root.querySelector(".thumbs");
  function toggleThumbs() {
    if (!thumbs) return;
    thumbs.hidden = !thumbs.hidden;
    tools.querySelector("[data-view=thumbs]").setAttribute("aria-pressed", String(!thumbs.hidden));
  }

  const actions = { in: () => zoom(1), out: () => zoom(-1), fit, turn, thumbs: toggleThumbs };
  tools.addEventListener("click", (event) => actions[event.target.closest("[data-view]")?.dataset.view]?.());
  sheets.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1 : -1);
  }, { passive: false });

  // Scrolls the pane, never the page around it.
  function scrollTo(element, block = "center") {
    const pane = sheets.getBoundingClientRect();
    const box = element.getBoundingClientRect();
    const middle = block === "center" ? (pane.height - Math.min(box.height, pane.height)) / 2 : 0;
    sheets.scrollBy({ top: box.top - pane.top - middle, left: box.left - pane.left - (pane.width - box.width) / 2, behavior: calm() });
  }

  for (const link of root.querySelectorAll(".thumbs a, .page-link")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      scrollTo(document.querySelector(link.hash), "start");
    });
  }
  watchPages(pages, sheets, thumbs);

  const boxes = [...root.querySelectorAll("rect[data-field]")];
  function showField(name, scroll) {
    for (const box of boxes) box.classList.toggle("shown", box.dataset.field === name);
    const box = boxes.find((each) => each.dataset.field === name);
    if (scroll && box) scrollTo(box);
  }
  for (const box of boxes) box.addEventListener("click", () => fields.choose(box.dataset.field));

  const text = addTextLayer(root, pages, sheets, fields);
  const search = addSearch(root, text, scrollTo);
  addComparison(root);
  return {
    zoom, fit, turn, toggleThumbs, showField,
    focusSearch: search, withdrawOffer: text.withdrawOffer,
  };
}

const calm = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

// Marks the thumbnail of the page in view.
function watchPages(pages, root, thumbs) {
  if (!thumbs) return;
  const links = [...thumbs.querySelectorAll("a")];
  const shares = new Map();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) shares.set(entry.target, entry.intersectionRect.height);
    const [seen] = [...shares].reduce((best, each) => (each[1] > best[1] ? each : best));
    for (const link of links) link.toggleAttribute("aria-current", link.hash === `#${seen.id}`);
  }, { root, threshold: Array.from({ length: 21 }, (_, step) => step / 20) });
  for (const page of pages) observer.observe(page);
}

// Transparent text above the image: selectable, searchable, and a click offers a word for the focused field.
function addTextLayer(root, pages, sheets, fields) {
  const offer = Object.assign(document.createElement("div"), { className: "offer", hidden: true });
  sheets.append(offer);
  const addButton = (act, ...content) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "button", onclick: act });
    button.append(...content);
    offer.append(button);
  };
  const layers = new Map(); // page number → elements of its words
  const loaded = fetch(`/documents/${root.dataset.document}/words`).then((response) => (response.ok ? response.json() : []));

  async function build(page) {
    const number = Number(page.dataset.page);
    if (layers.has(number)) return layers.get(number);
    const words = (await loaded)[number] ?? [];
    if (layers.has(number)) return layers.get(number);
    const layer = document.createElementNS(SVG, "svg");
    for (const [name, value] of [["class", "words"], ["viewBox", "0 0 1000 1000"], ["preserveAspectRatio", "none"], ["aria-hidden", "true"]]) layer.setAttribute(name, value);
    const elements = words.map(([word, line, left, top, right, bottom]) => {
      const element = document.createElementNS(SVG, "text");
      const size = Math.max(1, bottom - top);
      for (const [name, value] of [["x", left], ["y", bottom - size * 0.2], ["font-size", size], ["textLength", Math.max(1, right - left)], ["lengthAdjust", "spacingAndGlyphs"]]) element.setAttribute(name, value);
      element.dataset.line = line;
      element.box = [left, top, right - left, bottom - top];
      element.textContent = word;
      layer.append(element);
      return element;
    });
    layers.set(number, elements);
    page.querySelector(".turned").append(layer);
    return elements;
  }

  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) build(entry.target);
  }, { root: sheets, rootMargin: "50%" });
  for (const page of pages) observer.observe(page);

  function selectedWords() {
    const selection = getSelection();
    if (selection.isCollapsed) return [];
    return [...layers.values()].flat().filter((word) => selection.containsNode(word, true));
  }

  const withdrawOffer = () => { offer.hidden = true; };
  function use(input, value) {
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    withdrawOffer();
    getSelection().removeAllRanges();
    input.focus();
  }

  // The words for the focused field; and, where another field was read, a way to that one.
  function propose(words) {
    const input = fields.current();
    const other = words.length ? findBox(words[0], input) : undefined;
    if (!words.length || !(input || other)) return withdrawOffer();
    offer.replaceChildren();
    if (input) {
      const value = toValue(words.map((word) => word.textContent).join(" "), input.dataset.shape);
      const label = input.getAttribute("aria-label") ?? input.labels[0].textContent;
      addButton(() => use(input, value), "Use ", Object.assign(document.createElement("b"), { textContent: value }), ` for ${label}`);
    }
    if (other) addButton(() => { withdrawOffer(); fields.choose(other.dataset.field); }, `Go to ${other.textContent}`);
    const [box, pane] = [words[0].getBoundingClientRect(), sheets.getBoundingClientRect()];
    offer.hidden = false;
    offer.style.top = `${box.bottom - pane.top + sheets.scrollTop + 6}px`;
    offer.style.left = `${Math.max(4, Math.min(box.left - pane.left, pane.width - offer.offsetWidth - 16)) + sheets.scrollLeft}px`;
  }

  // The box of a field, other than that of the input, around the middle of a word.
  function findBox(word, input) {
    const [left, top, width, height] = word.box;
    const [x, y] = [left + width / 2, top + height / 2];
    const boxes = [...word.closest(".turned").querySelectorAll("rect[data-field]")];
    const around = boxes.filter((box) => {
      const [boxX, boxY, boxWidth, boxHeight] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
      return x > boxX && x < boxX + boxWidth && y > boxY && y < boxY + boxHeight && `field-${box.dataset.field}` !== input?.id;
    });
    return around.sort((one, two) => one.getAttribute("width") - two.getAttribute("width"))[0];
  }

  sheets.addEventListener("mouseup", (event) => {
    if (offer.contains(event.target)) return;
    const chosen = selectedWords();
    propose(chosen.length ? chosen : event.target.closest?.(".words text") ? [event.target] : []);
  });
  document.addEventListener("copy", (event) => {
    const words = selectedWords();
    if (!words.length) return;
    const lines = words.map((word, index) => (index ? (word.dataset.line === words[index - 1].dataset.line ? " " : "\n") : "") + word.textContent);
    event.clipboardData.setData("text/plain", lines.join(""));
    event.preventDefault();
  });
  return { pages, loaded, build, withdrawOffer };
}

// Finds a phrase in the text of all pages; Enter goes to the next match, Shift+Enter back.
function addSearch(root, text, scrollTo) {
  const input = root.querySelector("#find");
  const found = root.querySelector("#found");
  let matches = [];
  let at = -1;

  async function search() {
    const asked = input.value;
    const wanted = asked.trim().toLowerCase().split(/\s+/).filter(Boolean);
    for (const mark of root.querySelectorAll(".words .match")) mark.remove();
    [matches, at] = [[], -1];
    found.textContent = "";
    if (!wanted.length) return;
    const pages = await text.loaded;
    if (asked !== input.value) return; // another key was pressed meanwhile
    for (const [number, words] of pages.entries()) {
      const lowered = words.map(([word]) => word.toLowerCase());
      for (let first = 0; first + wanted.length <= lowered.length; first += 1) {
        if (!isMatch(lowered, first, wanted)) continue;
        const elements = await text.build(text.pages[number]);
        matches.push(elements.slice(first, first + wanted.length).map(highlight));
      }
    }
    go(1);
    if (!matches.length) found.textContent = "None";
  }

  function go(direction) {
    if (!matches.length) return;
    for (const word of matches[at] ?? []) word.classList.remove("here");
    at = (at + direction + matches.length) % matches.length;
    for (const word of matches[at]) word.classList.add("here");
    scrollTo(matches[at][0]);
    found.textContent = `${at + 1} of ${matches.length}`;
  }

  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    go(event.shiftKey ? -1 : 1);
  });
  return () => { input.focus(); input.select(); };
}

function highlight(word) {
  const mark = document.createElementNS(SVG, "rect");
  mark.setAttribute("class", "match");
  for (const [index, name] of ["x", "y", "width", "height"].entries()) mark.setAttribute(name, word.box[index]);
  word.parentNode.prepend(mark);
  return mark;
}

// Words between the first and the last of a phrase match as a whole, the others at their end or beginning.
function isMatch(words, first, wanted) {
  const last = wanted.length - 1;
  return wanted.every((part, index) => {
    const word = words[first + index];
    if (last === 0) return word.includes(part);
    return index === 0 ? word.endsWith(part) : index === last ? word.startsWith(part) : word === part;
  });
}

// Shows the document of the existing record beside this one.
function addComparison(root) {
  const other = document.getElementById("other");
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-compare]");
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    other.hidden = !other.hidden;
    link.textContent = other.hidden ? "Show its document" : "Hide its document";
    root.classList.toggle("comparing", !other.hidden);
    if (other.childElementCount) return;
    for (let page = 0; page < Number(link.dataset.pages); page += 1) {
      const figure = Object.assign(document.createElement("figure"), { className: "sheet" });
      figure.append(Object.assign(new Image(), { src: `/documents/${link.dataset.compare}/pages/${page}`, alt: `Page ${page + 1} of the existing record's document` }));
      other.append(figure);
    }
  });
}
