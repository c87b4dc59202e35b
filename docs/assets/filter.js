// A field above every long table: only rows that contain its text are shown. The address fills it in.
(function () {
  "use strict";
  const LONG = 40;

  function addFilter(table) {
    const rows = Array.from(table.tBodies[0].rows);
    const box = document.createElement("p");
    const input = document.createElement("input");
    const count = document.createElement("span");
    box.className = "filter";
    input.type = "search";
    input.placeholder = "Filter: the name of an operator, a code, ...";
    input.setAttribute("aria-label", "Filter the table");
    box.append(input, count);
    const frame = table.closest(".md-typeset__scrollwrap") || table;
    frame.parentNode.insertBefore(box, frame);
    function apply() {
      const wanted = input.value.trim().toLowerCase();
      let shown = 0;
      for (const row of rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = `${shown} of ${rows.length}`;
    }
    input.addEventListener("input", apply);
    // #q=Relu, or ?h=relu, which the search of the site adds to its results.
    const asked = /[#&]q=([^&]*)/.exec(location.hash) || /[?&]h=([^&]+)/.exec(location.search);
    if (asked) {
      const text = decodeURIComponent(asked[1].replace(/[+]/g, " "));
      if (rows.some((row) => row.textContent.toLowerCase().includes(text.toLowerCase()))) input.value = text;
    }
    apply();
  }

  document.addEventListener("DOMContentLoaded", function () {
    for (const table of document.querySelectorAll(".md-content table")) {
      if (table.tBodies.length && table.tBodies[0].rows.length >= LONG) addFilter(table);
    }
  });
})();
