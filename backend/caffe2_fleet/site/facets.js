// Filters that add up: a row is shown if it has one of the pressed values of each property, and the words of the search.
// A button counts the rows that it would show. The address keeps what is chosen. Of thousands of rows the first are shown.
{
  const FIRST = 400;
  const table = document.querySelector("#models");
  const more = document.querySelector("#more");
  const buttons = [...document.querySelectorAll("[data-facet]")];
  const facets = [...new Set(buttons.map(button => button.dataset.facet))];
  const search = document.querySelector("[data-search]");
  const texts = new Map([...table.tBodies[0].rows].map(row => [row, row.textContent.toLowerCase()]));
  let limit = FIRST;
  const isPressed = button => button.getAttribute("aria-pressed") === "true";

  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = new Map(facets.map(facet => [facet, new Set(buttons.filter(b => b.dataset.facet === facet && isPressed(b)).map(b => b.dataset.value))]));
    const counts = new Map(); // by property, value and colour, of the rows that the other properties leave
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const found = words.every(word => texts.get(row).includes(word));
      const failed = facets.filter(facet => chosen.get(facet).size && !chosen.get(facet).has(row.dataset[facet]));
      const fits = found && !failed.length;
      shown += fits ? 1 : 0;
      row.hidden = !fits || shown > limit;
      // What no other property leaves out counts: all, or the one that leaves it out.
      for (const facet of !found || failed.length > 1 ? [] : failed.length ? failed : facets) {
        const key = JSON.stringify([facet, row.dataset[facet], row.dataset.mark]);
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    }
    more.hidden = shown <= limit;
    for (const facet of facets) {
      const parts = buttons.filter(button => button.dataset.facet === facet).map(button => {
        const rects = [...button.querySelectorAll("rect")];
        const numbers = rects.map(rect => counts.get(JSON.stringify([facet, button.dataset.value, rect.classList[0]])) ?? 0);
        return { button, rects, numbers, total: numbers.reduce((sum, number) => sum + number, 0) };
      });
      const most = Math.max(1, ...parts.map(part => part.total));
      for (const { button, rects, numbers, total } of parts) {
        let x = 0;
        rects.forEach((rect, i) => {
          rect.setAttribute("x", x);
          rect.setAttribute("width", (100 * numbers[i]) / most);
          x += (100 * numbers[i]) / most;
        });
        button.querySelector("b").textContent = total;
        button.classList.toggle("none", !total && !isPressed(button));
      }
    }
    document.querySelector("#shown").textContent = `${shown} of ${texts.size} models`;
    document.querySelector("#clear").disabled = !words.length && !buttons.some(isPressed);
    const state = new URLSearchParams(buttons.filter(isPressed).map(button => [button.dataset.facet, button.dataset.value]));
    if (words.length) state.set("search", search.value);
    history.replaceState(null, "", `#${state}`);
  };
  const read = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const button of buttons) button.setAttribute("aria-pressed", state.getAll(button.dataset.facet).includes(button.dataset.value));
    search.value = state.get("search") ?? "";
    show();
  };

  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", !isPressed(button));
      show();
    });
  }
  search.addEventListener("input", show);
  table.addEventListener("sort", show);
  more.addEventListener("click", () => {
    limit = Infinity;
    show();
  });
  table.addEventListener("mouseover", event => {
    const cell = event.target.closest("td");
    if (cell && cell.scrollWidth > cell.clientWidth) cell.title ||= cell.textContent;
  });
  document.querySelector("#clear").addEventListener("click", () => {
    location.hash = "";
    read();
  });
  addEventListener("hashchange", read);
  // Keys: / goes to the search, arrows go along the rows, Escape clears the search.
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === search;
    const row = event.target.closest?.("#models tbody tr");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "/" && !typing) search.focus();
    else if (event.key === "Escape" && typing) {
      search.value = "";
      show();
    } else if (step && (row || typing)) {
      const links = [...document.querySelectorAll("#models tbody tr:not([hidden]) a.model")];
      links[links.indexOf(row?.querySelector("a.model")) + step]?.focus();
    } else return;
    event.preventDefault();
  });
  read();
}
