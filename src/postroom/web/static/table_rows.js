// Tables to type in: rows are added and removed, Enter goes to the row below, and from the last one to a new one.
function renumbered(rows) {
  [...rows.querySelectorAll("tr[data-row]")].forEach((row, place) => {
    for (const each of row.querySelectorAll("[aria-label]")) {
      each.setAttribute("aria-label", each.getAttribute("aria-label").replace(/row \d+$/, `row ${place + 1}`));
    }
  });
}

function added(rows) {
  rows.spare.dataset.row = Number(rows.spare.dataset.row) + 1;
  const row = rows.spare.cloneNode(true);
  for (const cell of row.querySelectorAll("input")) cell.name = cell.name.replace(/-\d+-(?=\w+$)/, `-${row.dataset.row}-`);
  rows.append(row);
  renumbered(rows);
  return row;
}

function removed(row) {
  const rows = row.parentNode;
  const beside = row.nextElementSibling?.matches("[data-row]") ? row.nextElementSibling : row.previousElementSibling;
  if (row.nextElementSibling?.matches(".wrong")) row.nextElementSibling.remove();
  row.remove();
  renumbered(rows);
  (beside?.querySelector("[data-remove]") ?? document.querySelector(`[data-add="${rows.dataset.rows}"]`)).focus();
}

function below(cell) {
  const row = cell.closest("tr");
  const place = [...row.querySelectorAll("input")].indexOf(cell);
  let next = row.nextElementSibling;
  while (next && !next.matches("[data-row]")) next = next.nextElementSibling;
  (next ?? added(row.parentNode)).querySelectorAll("input")[place].focus();
}

for (const rows of document.querySelectorAll("[data-rows]")) {
  for (const each of rows.querySelectorAll("[data-remove]")) each.hidden = false;
  rows.spare = rows.lastElementChild.cloneNode(true); // the empty one, with the highest number
  rows.addEventListener("click", (event) => { if (event.target.matches("[data-remove]")) removed(event.target.closest("tr")); });
  rows.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.ctrlKey || !event.target.matches("input")) return;
    event.preventDefault();
    below(event.target);
  });
}
for (const each of document.querySelectorAll("[data-add]")) {
  each.hidden = false;
  each.addEventListener("click", () => added(document.querySelector(`[data-rows="${each.dataset.add}"]`)).querySelector("input").focus());
}
