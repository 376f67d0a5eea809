// A table that does not fit its column is shown as cards: one per row, in which every cell says what it is.
function fitTables() {
  for (const table of document.querySelectorAll("article table")) {
    table.classList.remove("cards");
    table.classList.toggle("cards", table.getBoundingClientRect().width > table.parentElement.clientWidth);
  }
}

addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table")) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((one) => one.textContent.trim());
    for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
      [...row.cells].forEach((cell, i) => i > 0 && heads[i] && (cell.dataset.name = `${heads[i]}: `));
    }
  }
  fitTables();
  addEventListener("resize", fitTables);
});
