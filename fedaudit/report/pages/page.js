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
for (const filter of document.querySelectorAll(".filter")) {
  const rows = [...document.getElementById(filter.dataset.of).tBodies[0].rows];
  const [text, choice, count] = ["input", "select", "output"].map((tag) => filter.querySelector(tag));
  const apply = () => {
    const words = text.value.toLowerCase();
    for (const row of rows) {
      const fits = !choice.value || row.dataset.choice === choice.value;
      row.hidden = !(fits && row.textContent.toLowerCase().includes(words));
    }
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  };
  filter.hidden = false;
  filter.addEventListener("input", apply);
  apply();
}
const show = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", show);
show();
