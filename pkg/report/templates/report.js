"use strict";
// Tables sort by their heads. Without this script the page says the same.
(function () {
  // The first number of a cell: "0.933 [0.912, 0.954]" sorts by 0.933.
  function number(cell) {
    return parseFloat((cell.dataset.sort || cell.textContent).replace("\u2212", "-"));
  }
  function sort(table, column, text, down) {
    var body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (a, b) {
      var x = a.cells[column], y = b.cells[column];
      if (text && x.dataset.sort === undefined && (isNaN(Number(x.textContent)) || isNaN(Number(y.textContent)))) {
        return (down ? -1 : 1) * x.textContent.localeCompare(y.textContent, "en", { numeric: true });
      }
      var p = number(x), q = number(y);
      if (isNaN(p) || isNaN(q)) { return isNaN(p) - isNaN(q); } // what is not there stays last
      return (down ? -1 : 1) * (p - q);
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }
  document.querySelectorAll("table.sorts").forEach(function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      while (head.firstChild) { button.appendChild(head.firstChild); }
      head.appendChild(button);
      button.addEventListener("click", function () {
        var text = head.classList.contains("text");
        // Numbers begin with the largest, text and arms with the first.
        var next = head.getAttribute("aria-sort");
        var down = next ? next === "ascending" : !text;
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, text, down);
      });
    });
  });
})();
