// A table that does not fit its column is set in smaller type; one that does not fit then is shown as cards: one per
// row, in which every cell says what it is.
function fitTables() {
  for (const table of document.querySelectorAll("article table")) {
    table.classList.remove("dense", "cards");
    for (const way of ["dense", "cards"]) {
      if (table.getBoundingClientRect().width <= table.parentElement.clientWidth) break;
      table.classList.remove("dense");
      table.classList.add(way);
    }
  }
}

// A picture leads to its file, where it can be made larger.
function openPictures() {
  for (const picture of document.querySelectorAll("article img:not(a img, .shape)")) {
    const link = document.createElement("a");
    link.href = picture.src;
    picture.replaceWith(link);
    link.append(picture);
  }
}

addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table")) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((one) => one.textContent.trim());
    for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
      [...row.cells].forEach((cell, i) => i > 0 && heads[i] && (cell.dataset.name = `${heads[i]}: `));
    }
  }
  openPictures();
  fitTables();
  addEventListener("resize", fitTables);
});
