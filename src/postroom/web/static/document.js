// Links fields and their boxes on the page image: focusing one highlights the other. "n" opens the next document.
const fields = document.querySelectorAll(".field");
const boxes = document.querySelectorAll("rect[data-field]");

function show(name, scroll) {
  // Moving between cells of the same table must not scroll the page.
  if ([...fields].some((field) => field.dataset.field === name && field.matches(".table.shown"))) return;
  for (const box of boxes) box.classList.toggle("shown", box.dataset.field === name);
  for (const field of fields) field.classList.toggle("shown", field.dataset.field === name);
  const box = [...boxes].find((box) => box.dataset.field === name);
  if (scroll && box) box.scrollIntoView({ block: "center", behavior: "smooth" });
}

for (const field of fields) {
  field.addEventListener("focusin", () => show(field.dataset.field, true));
  field.addEventListener("click", () => show(field.dataset.field, true));
}
for (const box of boxes) {
  box.addEventListener("click", () => {
    show(box.dataset.field, false);
    document.getElementById(`field-${box.dataset.field}`)?.focus({ preventScroll: false });
  });
}
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "n" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    document.getElementById("next")?.click();
  }
  if (event.key === "Enter" && event.ctrlKey) document.getElementById("confirm")?.click();
});
