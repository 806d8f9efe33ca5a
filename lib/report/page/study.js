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
    cells.forEach(function(text) {
      element(head ? 'th' : 'td', text === undefined || text === null || text === '' ? '–' : String(text), line);
    });
  }
  function numbers(line, name) {  // places that a row names; null where it names none
    var text = line.getAttribute(name);
    return text === null ? null : text.split(' ').filter(Boolean).map(Number);
  }
  function fits(one, line) {
    var variant = line.getAttribute('data-variant'), seed = line.getAttribute('data-seed');
    return one.encoding === line.getAttribute('data-encoding') && (!variant || one.variant === variant) &&
        (!seed || one.seed === seed);
  }
  // The runs and trainings behind a row: those that it names, else the runs of its model, else the trainings of it.
  function behind(line) {
    var all = known(), runs = numbers(line, 'data-runs'), logs = numbers(line, 'data-trainings');
    if (runs || logs) {
      return {
        runs: (runs || []).map(function(at) { return all.runs[at]; }),
        trainings: all.trainings.filter(function(t) { return logs && logs.indexOf(t.log) >= 0; })
      };
    }
    var own = all.runs.filter(function(run) { return run.selected !== false && fits(run, line); });
    return {runs: own, trainings: own.length ? [] : all.trainings.filter(function(t) { return fits(t, line); })};
  }
  function configOf(one) {  // of a training, or of the training of a run
    var all = known(), log = one && (one.log === undefined ? one.training : one.log);
    var found = log === undefined ? undefined : all.trainings.filter(function(t) { return t.log === log; })[0];
    return found && all.configs[found.config];
  }
  function same(one, encoding) {  // the run or training of another encoding that is otherwise the same
    var list = one.log === undefined ? known().runs : known().trainings;
    return list.filter(function(other) {
      return other.encoding === encoding && other.variant === one.variant && other.selected !== false &&
          configOf(other);
    })[0];
  }
  function differences(into, mine, other) {
    into.textContent = '';
    if (!mine || !other) {
      element(
          'p',
          mine ? 'No training log of the other encoding with the same labels was gathered.' :
                 'The training log of this model was not gathered.',
          into);
      return;
    }
    var keys = Object.keys(mine).concat(Object.keys(other)).filter(function (key, i, list) { return list.indexOf(key) === i && mine[key] !== other[key]; }).sort();
    if (!keys.length) { element('p', 'No setting differs.', into); return; }
    var table = element('table', undefined, into);
    row(table, ['setting', 'this model', 'the other'], true);
    keys.forEach(function (key) { row(table, [key, mine[key], other[key]]); });
  }
  function list(title, name, sources) {
    if (!sources.length) return;
    element('h4', title, drawer);
    var table = element('table', undefined, element('div', undefined, drawer));
    var several = ['encoding', 'variant'].filter(function(
        key) { return sources.some(function(one) { return one[key] !== sources[0][key]; }); });
    row(table, several.concat(name ? [name] : [], ['seed', 'step', 'results']), true);
    sources.forEach(function(one) {
      var results = one.results.map(function(d) { return d.slice(0, 12); }).join(' ');
      row(table, several.map(function(key) { return one[key]; }).concat(name ? [one.run_id] : [], [
        one.seed, one.step < 0 ? '' : one.step, results
      ]));
    });
  }
  function settings(sources, encoding) {
    var one = sources.filter(function(source) { return source.encoding === encoding; })[0] || sources[0], all = known();
    if (!one) return;
    var own = configOf(one);
    element('h4', 'Differences from', drawer);
    var choice = element('select', undefined, drawer), place = element('div', undefined, drawer);
    choice.setAttribute('aria-label', 'The model to compare settings with');
    all.encodings.forEach(function(name) {
      if (name !== one.encoding) element('option', name, choice).value = name;
    });
    choice.value =
        all.baseline !== one.encoding && all.encodings.indexOf(all.baseline) >= 0 ? all.baseline : choice.value;
    function show() { differences(place, own, configOf(same(one, choice.value))); }
    choice.addEventListener('change', show);
    if (choice.options.length) show();
    if (own) {
      var more = element('details', undefined, drawer);
      element('summary', 'All settings of its training', more);
      element('pre', Object.keys(own).map(function(key) { return key + ': ' + own[key]; }).join('\n'), more);
    }
  }
  function open(cell, from) {
    close();
    var line = cell.parentNode, figure = cell.closest('figure'), heads = line.closest('table').tHead.rows;
    var head = heads[heads.length - 1].cells[cell.cellIndex];
    var encoding = line.getAttribute('data-encoding'), variant = line.getAttribute('data-variant'), seed = line.getAttribute('data-seed');
    opener = from || cell;
    if (!opener.hasAttribute('tabindex')) opener.tabIndex = -1;  // so that it can have the focus again
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
    var found = behind(line);
    list('Runs behind it', 'run', found.runs);
    list('Trainings behind it', '', found.trainings);
    var digests =
        found.runs.concat(found.trainings).reduce(function(list, one) { return list.concat(one.results); }, []);
    if (digests.length) {
      element('h4', 'To compute it again', drawer);
      element(
          'pre', 'pe-pipeline verify --rerun ' + digests.map(function(d) { return d.slice(0, 12); }).join(' '), drawer);
    }
    settings(found.runs.concat(found.trainings), encoding);
    shut.focus();
  }
  document.addEventListener('click', function (event) {
    var cell = event.target.closest && event.target.closest('td[data-v]');
    if (cell) open(cell);
  });
  // One place of a row is in the order of the tabulator; arrow keys move it to the numbers of the row and back.
  function stops(line) { return Array.prototype.slice.call(line.querySelectorAll('th, td[data-v]')); }
  function move(places, to) {
    if (!to) return;
    places.forEach(function(place) {
      if (place.tabIndex === 0) place.tabIndex = -1;
    });
    to.tabIndex = 0;
    to.focus();
  }
  document.addEventListener('keydown', function (event) {
    if (event.key === 'Escape') close();
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    var at = event.target;
    if (!at.matches || !at.matches('figure.table tbody th, figure.table tbody td[data-v]')) return;
    var line = at.parentNode, places = stops(line), place = places.indexOf(at);
    var to = {ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: places.length - 1}[event.key];
    if (to !== undefined) {
      event.preventDefault();
      move(places, places[to]);
    }
    if (event.key === 'Enter') {
      var cell = at.matches('td') ? at : line.querySelector('td[data-v]');
      if (cell) open(cell, at);
    }
  });
  document.querySelectorAll('figure.table tbody th').forEach(function (head) { head.tabIndex = 0; });
  chips();
})();
