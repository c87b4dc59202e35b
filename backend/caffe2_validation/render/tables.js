"use strict";
// Sort a table by a click on a header: numbers by data-v, texts by language; a second click reverses the order.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        const numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
        return numbers ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
      };
      const rows = [...table.tBodies[0].rows].sort(compare);
      table.tBodies[0].append(...(down ? rows.reverse() : rows));
      table.dispatchEvent(new Event("sort"));
    });
  });
}
// Show the rows of a table that have the tag of the button that is pressed.
for (const group of document.querySelectorAll("[data-filters]")) {
  const rows = [...document.querySelectorAll(`#${group.dataset.filters} tbody tr`)];
  const buttons = [...group.querySelectorAll("button")];
  const show = pressed => {
    for (const button of buttons) button.setAttribute("aria-pressed", button === pressed);
    let count = 0;
    for (const row of rows) {
      row.hidden = pressed.dataset.show !== "all" && !row.dataset.tags.split(" ").includes(pressed.dataset.show);
      count += row.hidden ? 0 : 1;
    }
    const empty = document.querySelector(`#${group.dataset.filters}-empty`);
    if (empty) empty.hidden = count > 0;
  };
  for (const button of buttons) button.addEventListener("click", () => show(button));
  show(buttons[0]);
}
// Copy a command.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  });
}
