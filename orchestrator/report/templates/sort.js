for (const header of document.querySelectorAll("table.sortable th")) {
  header.tabIndex = 0;
  const sort = () => {
    const body = header.closest("table").tBodies[0];
    const index = header.cellIndex;
    const direction = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const key = (row) => row.cells[index].dataset.sort ?? row.cells[index].textContent.trim();
    const compare = (a, b) => {
      if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === "");
      return direction * key(a).localeCompare(key(b), "en", { numeric: false });
    };
    const numeric = (a, b) => {
      if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === "");
      return direction * (Number(key(a)) - Number(key(b)));
    };
    const rows = [...body.rows];
    const numbers = rows.every((row) => !Number.isNaN(Number(key(row))));
    rows.sort(numbers ? numeric : compare);
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    body.append(...rows);
  };
  header.addEventListener("click", sort);
  header.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
}
