// Tables: a click on a column's head sorts by it, and one field keeps the rows that hold a text, such as an encoding's name.
(function () {
  'use strict';
  var tables = Array.prototype.slice.call(document.querySelectorAll('figure.table table'));
  if (!tables.length) return;

  function key(row, column) {
    var cell = row.cells[column], value = cell.getAttribute('data-v');
    return value !== null ? { number: parseFloat(value) } : { text: cell.textContent, missing: cell.classList.contains('miss') };
  }
  function compare(a, b) {   // numbers first, then text; missing cells last
    if (a.number !== undefined && b.number !== undefined) return a.number - b.number;
    if (a.number !== undefined) return -1;
    if (b.number !== undefined) return 1;
    if (a.missing !== b.missing) return a.missing ? 1 : -1;
    return a.text < b.text ? -1 : a.text > b.text ? 1 : 0;
  }

  tables.forEach(function (table) {
    var body = table.tBodies[0], original = Array.prototype.slice.call(body.rows);
    var heads = table.tHead.rows[table.tHead.rows.length - 1].cells;
    Array.prototype.forEach.call(heads, function (head, column) {
      head.tabIndex = 0;
      head.classList.add('sorts');
      head.setAttribute('aria-sort', 'none');
      function sort() {
        var next = { none: 'ascending', ascending: 'descending', descending: 'none' }[head.getAttribute('aria-sort')];
        Array.prototype.forEach.call(heads, function (other) { other.setAttribute('aria-sort', 'none'); });
        head.setAttribute('aria-sort', next);
        var rows = original.slice();
        if (next !== 'none') {
          rows.sort(function (a, b) {
            var x = key(a, column), y = key(b, column), order = compare(x, y);
            var both = x.number !== undefined && y.number !== undefined;
            return next === 'descending' && (both || (x.number === undefined && y.number === undefined)) ? -order : order;
          });
        }
        rows.forEach(function (row) { body.appendChild(row); });
        table.classList.toggle('sorted', next !== 'none');
      }
      head.addEventListener('click', sort);
      head.addEventListener('keydown', function (event) {
        if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); sort(); }
      });
    });
  });

  var label = document.createElement('label'), field = document.createElement('input');
  label.className = 'filter';
  label.textContent = 'Rows with ';
  field.type = 'search';
  field.placeholder = 'an encoding, a seed';
  label.appendChild(field);
  document.querySelector('nav').appendChild(label);
  field.addEventListener('input', function () {
    var wanted = field.value.trim().toLowerCase();
    tables.forEach(function (table) {
      Array.prototype.forEach.call(table.tBodies[0].rows, function (row) {
        row.hidden = wanted !== '' && row.textContent.toLowerCase().indexOf(wanted) < 0;
      });
    });
  });
})();
