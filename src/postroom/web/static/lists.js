// Lists: selection that survives a reload of the rows, filters that apply at once, "/" for the search field.
const rows = document.getElementById("rows");
const chosen = new Set();

function mark() {
  const boxes = [...rows.querySelectorAll("[data-select]")];
  for (const box of boxes) box.checked = chosen.has(box.name);
  const all = rows.querySelector("[data-select-all]");
  if (all) {
    all.hidden = false;
    all.checked = boxes.length > 0 && boxes.every((box) => box.checked);
    all.indeterminate = !all.checked && boxes.some((box) => box.checked);
  }
  const count = boxes.filter((box) => box.checked).length;
  const bar = rows.querySelector("[data-bulk]");
  if (!bar) return;
  bar.hidden = count === 0;
  bar.querySelector("[data-selected]").textContent = count === 1 ? "1 document" : `${count} documents`;
}

rows.addEventListener("change", ({ target }) => {
  const boxes = target.matches("[data-select-all]") ? rows.querySelectorAll("[data-select]") : [target];
  for (const box of boxes) {
    if (!box.matches("[data-select]")) return;
    if (target.checked) chosen.add(box.name);
    else chosen.delete(box.name);
  }
  mark();
});
new MutationObserver(mark).observe(rows, { childList: true });
mark();

for (const select of document.querySelectorAll("[data-submit]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}
// Empty fields only lengthen the URL.
document.querySelector(".filters")?.addEventListener("formdata", ({ formData }) => {
  for (const [name, value] of [...formData]) if (!value) formData.delete(name);
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  document.querySelector("[data-search]")?.focus();
});
