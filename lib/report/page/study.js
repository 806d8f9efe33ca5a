// The study behind the page: which encodings, seeds and kinds of models are shown, and where each number comes from.
(function () {
  'use strict';
  var holder = document.getElementById('study');
  if (!holder) return;
  var study = null, off = {};   // axis → names that are switched off
  function known() { return study || (study = JSON.parse(holder.textContent)); }
  function element(name, text, parent) {
    var made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }
  function shown(axis, name) { return !(off[axis] && off[axis][name]); }
  // Whether something of that encoding, variant and seed is shown; an empty one means all.
  function visible(encoding, variant, seed) {
    if (encoding && !shown('encoding', encoding)) return false;
    if (seed && !shown('seed', seed)) return false;
    var labels = variant && known().variants[variant];
    return !labels || Object.keys(labels).every(function (axis) { return shown(axis, labels[axis]); });
  }
  window.peStudy = { visible: visible, chosen: function () { return Object.keys(off).some(function (axis) { return Object.keys(off[axis]).length > 0; }); } };

  function apply() {
    document.querySelectorAll('figure.table tbody tr').forEach(function (row) {
      row.classList.toggle('out', !visible(row.getAttribute('data-encoding'), row.getAttribute('data-variant'), row.getAttribute('data-seed')));
    });
    document.querySelectorAll('.panels > [data-encoding]').forEach(function (panel) {
      panel.hidden = !visible(panel.getAttribute('data-encoding'), panel.getAttribute('data-variant'));
    });
    document.dispatchEvent(new Event('pe-filter'));
  }

  function chips() {
    var box = element('details'), all = known();
    box.className = 'chips';
    element('summary', 'Show', box);
    var axes = [['encoding', all.encodings]].concat(Object.keys(all.axes).map(function (axis) { return [axis, all.axes[axis]]; })).concat([['seed', all.seeds]]);
    axes.forEach(function (pair) {
      var axis = pair[0], names = pair[1];
      if (names.length < 2) return;
      var group = element('fieldset', undefined, box);
      element('legend', axis, group);
      var inputs = names.map(function (name) {
        var label = element('label', undefined, group), input = element('input', undefined, label);
        input.type = 'checkbox';
        input.checked = true;
        input.setAttribute('data-axis', axis);
        input.value = name;
        label.appendChild(document.createTextNode(' ' + name));
        input.addEventListener('change', function () {
          off[axis] = off[axis] || {};
          if (input.checked) delete off[axis][name]; else off[axis][name] = true;
          apply();
        });
        return input;
      });
      ['all', 'none'].forEach(function (word) {
        var button = element('button', word, group);
        button.type = 'button';
        button.addEventListener('click', function () {
          off[axis] = {};
          inputs.forEach(function (input) { input.checked = word === 'all'; if (word === 'none') off[axis][input.value] = true; });
          apply();
        });
      });
    });
    if (box.querySelector('fieldset')) document.querySelector('nav').appendChild(box);
  }

  // ---- where a number comes from
  var drawer = null, opener = null;
  function close() {
    if (!drawer) return;
    drawer.remove();
    drawer = null;
    if (opener) opener.focus();
  }
  function row(table, cells, head) {
    var line = element('tr', undefined, table);
    cells.forEach(function (text) { element(head ? 'th' : 'td', text === undefined || text === null ? '–' : String(text), line); });
  }
  function runsOf(encoding, variant, seed) {
    return known().runs.filter(function (run) {
      return run.encoding === encoding && (!variant || run.variant === variant) && (!seed || run.seed === seed);
    });
  }
  function configOf(encoding, variant) {   // of the training with the variant's labels, or of the encoding's first one
    var all = known().trainings.filter(function (t) { return t.encoding === encoding; });
    var labels = known().variants[variant] || {};
    var fitting = all.filter(function (t) { return t.variant === variant || (labels.from && t.labels.stage === labels.from); });
    var found = fitting[0] || all[0];
    return found && known().configs[found.config];
  }
  function differences(into, mine, other) {
    into.textContent = '';
    if (!mine || !other) { element('p', 'The training logs of these models were not gathered.', into); return; }
    var keys = Object.keys(mine).concat(Object.keys(other)).filter(function (key, i, list) { return list.indexOf(key) === i && mine[key] !== other[key]; }).sort();
    if (!keys.length) { element('p', 'No setting differs.', into); return; }
    var table = element('table', undefined, into);
    row(table, ['setting', 'this model', 'the other'], true);
    keys.forEach(function (key) { row(table, [key, mine[key], other[key]]); });
  }
  function open(cell, from) {
    close();
    var line = cell.parentNode, figure = cell.closest('figure'), heads = line.closest('table').tHead.rows;
    var head = heads[heads.length - 1].cells[cell.cellIndex], all = known();
    var encoding = line.getAttribute('data-encoding'), variant = line.getAttribute('data-variant'), seed = line.getAttribute('data-seed');
    opener = from || cell;
    if (opener === cell) cell.tabIndex = -1;   // so that it can have the focus again
    drawer = element('aside', undefined, document.body);
    drawer.id = 'drawer';
    drawer.setAttribute('role', 'dialog');
    drawer.setAttribute('aria-label', 'Where this number comes from');
    var shut = element('button', 'Close', drawer);
    shut.type = 'button';
    shut.addEventListener('click', close);
    element('h3', figure.querySelector('figcaption b').textContent + ' ' + head.firstChild.textContent, drawer);
    element('p', [encoding, variant, seed ? 'seed ' + seed : ''].filter(Boolean).join(', ') || line.cells[0].textContent, drawer);
    var value = element('p', undefined, drawer), small = cell.querySelector('small');
    element('b', cell.firstChild.textContent, value);
    if (small && small !== cell.firstChild) value.appendChild(document.createTextNode(' ' + small.textContent));
    element('p', 'In full: ' + cell.getAttribute('data-v') + '.', drawer);
    element('p', 'In tables/' + figure.id.replace(/^table-/, '') + '.csv, column ' + head.getAttribute('data-id') + '.', drawer);
    var runs = runsOf(encoding, variant, seed);
    if (runs.length) {
      element('h4', 'Runs behind it', drawer);
      var table = element('table', undefined, element('div', undefined, drawer));
      row(table, ['run', 'seed', 'step', 'results'], true);
      runs.forEach(function (run) { row(table, [run.run_id, run.seed, run.step, run.results.map(function (d) { return d.slice(0, 12); }).join(' ')]); });
      var digests = runs.reduce(function (list, run) { return list.concat(run.results); }, []);
      if (digests.length) {
        element('h4', 'To compute it again', drawer);
        element('pre', 'pe-pipeline verify --rerun ' + digests.map(function (d) { return d.slice(0, 12); }).join(' '), drawer);
      }
      var own = configOf(encoding, variant);
      element('h4', 'Differences from', drawer);
      var choice = element('select', undefined, drawer), place = element('div', undefined, drawer);
      choice.setAttribute('aria-label', 'The model to compare settings with');
      all.encodings.forEach(function (name) { if (name !== encoding) element('option', name, choice).value = name; });
      choice.value = all.baseline !== encoding && all.encodings.indexOf(all.baseline) >= 0 ? all.baseline : choice.value;
      choice.addEventListener('change', function () { differences(place, own, configOf(choice.value, variant)); });
      if (choice.options.length) differences(place, own, configOf(choice.value, variant));
      if (own) {
        var more = element('details', undefined, drawer);
        element('summary', 'All settings of its training', more);
        element('pre', Object.keys(own).map(function (key) { return key + ': ' + own[key]; }).join('\n'), more);
      }
    }
    shut.focus();
  }
  document.addEventListener('click', function (event) {
    var cell = event.target.closest && event.target.closest('td[data-v]');
    if (cell) open(cell);
  });
  document.addEventListener('keydown', function (event) {
    if (event.key === 'Escape') close();
    if (event.key === 'Enter' && event.target.matches && event.target.matches('tbody th')) {
      var first = event.target.parentNode.querySelector('td[data-v]');
      if (first) open(first, event.target);
    }
  });
  document.querySelectorAll('figure.table tbody th').forEach(function (head) { head.tabIndex = 0; });
  chips();
})();
