"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = head.querySelector("button");
    button.disabled = false;
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[place].dataset.key;
      const compare = (a, b) => {
        const one = key(a), other = key(b), x = Number(one), y = Number(other);
        const numbers = one !== "" && other !== "" && !isNaN(x) && !isNaN(y);
        return (numbers ? x - y : one.localeCompare(other)) * (up ? 1 : -1);
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(compare));
    });
  });
}
