"use strict";
const body = document.querySelector("tbody");
const selects = [...document.querySelectorAll("select")];

function filter() {
  let shown = 0;
  for (const row of body.rows) {
    row.hidden = selects.some((select) => select.value && row.dataset[select.dataset.column] !== select.value);
    shown += !row.hidden;
  }
  document.querySelector("output").value = `${shown} shown`;
}

// A cell with data-value is a number, or no figure at all, which stands last whichever way the column is sorted.
function compare(one, other, way) {
  const values = [one, other].map((cell) => cell.dataset.value);
  if (values[0] === undefined) return way * one.textContent.localeCompare(other.textContent, "en", { numeric: true });
  if (values.includes("")) return (values[0] === "") - (values[1] === "");
  return way * (values[0] - values[1]);
}

function sort(header) {
  const way = header.ariaSort === "ascending" ? -1 : 1;
  for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
  header.ariaSort = way > 0 ? "ascending" : "descending";
  const column = header.cellIndex;
  body.append(...[...body.rows].sort((one, other) => compare(one.cells[column], other.cells[column], way)));
}

for (const select of selects) select.addEventListener("change", filter);
for (const button of document.querySelectorAll("thead button")) button.addEventListener("click", () => sort(button.parentNode));
filter(); // a browser that comes back to the page keeps what was chosen
