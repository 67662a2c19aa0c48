// Editable tables: buttons add and remove rows; Enter moves to the row below and adds one after the last.
function renumber(rows) {
  [...rows.querySelectorAll("tr[data-row]")].forEach((row, index) => {
    for (const element of row.querySelectorAll("[aria-label]")) {
      element.setAttribute("aria-label", element.getAttribute("aria-label").replace(/row \d+$/, `row ${index + 1}`));
    }
  });
}

function addRow(rows) {
  rows.spare.dataset.row = Number(rows.spare.dataset.row) + 1;
  const row = rows.spare.cloneNode(true);
  for (const cell of row.querySelectorAll("input")) cell.name = cell.name.replace(/-\d+-(?=\w+$)/, `-${row.dataset.row}-`);
  rows.append(row);
  renumber(rows);
  return row;
}

function removeRow(row) {
  const rows = row.parentNode;
  const beside = row.nextElementSibling?.matches("[data-row]") ? row.nextElementSibling : row.previousElementSibling;
  if (row.nextElementSibling?.matches(".wrong")) row.nextElementSibling.remove();
  row.remove();
  renumber(rows);
  (beside?.querySelector("[data-remove]") ?? document.querySelector(`[data-add="${rows.dataset.rows}"]`)).focus();
}

function focusBelow(cell) {
  const row = cell.closest("tr");
  const column = [...row.querySelectorAll("input")].indexOf(cell);
  let next = row.nextElementSibling;
  while (next && !next.matches("[data-row]")) next = next.nextElementSibling;
  (next ?? addRow(row.parentNode)).querySelectorAll("input")[column].focus();
}

for (const rows of document.querySelectorAll("[data-rows]")) {
  for (const element of rows.querySelectorAll("[data-remove]")) element.hidden = false;
  rows.spare = rows.lastElementChild.cloneNode(true); // the empty row with the highest number
  rows.addEventListener("click", (event) => { if (event.target.matches("[data-remove]")) removeRow(event.target.closest("tr")); });
  rows.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.ctrlKey || !event.target.matches("input")) return;
    event.preventDefault();
    focusBelow(event.target);
  });
}
for (const element of document.querySelectorAll("[data-add]")) {
  element.hidden = false;
  element.addEventListener("click", () => addRow(document.querySelector(`[data-rows="${element.dataset.add}"]`)).querySelector("input").focus());
}
