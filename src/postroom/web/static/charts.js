// Shows the text of the interval under the pointer, or of the one that the arrow keys choose.
const reading = (slot) => slot.closest(".chart").querySelector(".reading");

function choose(slot) {
  for (const other of slot.parentNode.querySelectorAll(".chosen")) other.classList.remove("chosen");
  slot.classList.add("chosen");
  reading(slot).textContent = slot.dataset.text;
}

function leave(chart) {
  chart.querySelector(".chosen")?.classList.remove("chosen");
  const text = chart.querySelector(".reading");
  text.textContent = text.dataset.summary;
}

document.addEventListener("pointerover", ({ target }) => {
  if (target.matches?.(".slot")) choose(target);
});
document.addEventListener("pointerout", ({ target, relatedTarget }) => {
  if (target.matches?.(".slot") && !relatedTarget?.matches?.(".slot")) leave(target.closest(".chart"));
});
document.addEventListener("focusout", ({ target }) => {
  if (target.matches?.(".chart svg")) leave(target.closest(".chart"));
});
document.addEventListener("keydown", (event) => {
  const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!way || !event.target.matches?.(".chart svg")) return;
  event.preventDefault();
  const slots = [...event.target.querySelectorAll(".slot")];
  const at = slots.findIndex((slot) => slot.matches(".chosen"));
  choose(slots.at(at < 0 ? -1 : Math.min(Math.max(at + way, 0), slots.length - 1)));
});
