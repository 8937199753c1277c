(function (number) {
  // Sorts a table by a click on (or Enter in) its head, filters it by what is typed above it.
  for (const table of document.querySelectorAll(`[data-shapesolve="${number}"] table[data-sort]`)) {
    const body = table.tBodies[0];
    const filter = document.createElement("input");
    filter.type = "search";
    filter.placeholder = "filter";
    filter.setAttribute("aria-label", "Filter rows");
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(words);
    });
    table.before(filter);
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.setAttribute("aria-sort", "none");
      head.tabIndex = 0;
      const sort = () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const text = (row) => row.cells[column].textContent;
        const rows = [...body.rows].sort((a, b) => text(a).localeCompare(text(b), undefined, { numeric: true }));
        body.replaceChildren(...(up ? rows : rows.reverse()));
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
    });
  }
})
