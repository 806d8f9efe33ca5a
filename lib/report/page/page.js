// Makes a figure interactive on demand: charts of the data, which the page holds once, replace the static picture.
(function () {
  'use strict';
  var holder = document.getElementById('figures');
  if (!holder || typeof Chart === 'undefined') return;
  var all = null;   // parsed when a figure becomes interactive, not before the page is shown
  function figures() { return all || (all = JSON.parse(holder.textContent)); }
  var dashes = [[], [7, 4], [2, 3], [8, 3, 2, 3]];
  var shapes = ['circle', 'rect', 'triangle', 'triangle', 'rectRot', 'circle'];

  function count(v) {
    var units = [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'k']];
    for (var i = 0; i < units.length; i++) if (Math.abs(v) >= units[i][0]) return +(v / units[i][0]).toPrecision(4) + units[i][1];
    return String(+v.toPrecision(4));
  }
  function words(axis, v) {
    if (axis.ticks === 'percent') return +(v * 100).toPrecision(3) + ' %';
    if (axis.scale === 'log2') return v >= 1000 && v % 1 === 0 ? v.toLocaleString('en-US') : String(+v.toPrecision(6));
    return axis.ticks === 'count' ? count(v) : String(+v.toPrecision(4));
  }
  function scale(axis, low, high) {
    var log = axis.scale !== 'linear';
    var s = { type: log ? 'logarithmic' : 'linear', display: !axis.hidden, title: { display: true, text: axis.title }, grid: { color: '#eee' },
              ticks: { maxRotation: 0, callback: function (v) { return words(axis, v); } } };
    if (low !== undefined && !(log && low <= 0)) s.min = low;
    if (high !== undefined) s.max = high;
    if (axis.scale === 'log2') {
      s.afterBuildTicks = function (own) {
        own.ticks = [];
        for (var k = Math.ceil(Math.log2(own.min)); k <= Math.log2(own.max) + 1e-9; k++) own.ticks.push({ value: Math.pow(2, k) });
      };
    }
    if (axis.scale === 'log10') {
      s.afterBuildTicks = function (own) {
        var ticks = [], wide = Math.log10(own.max / own.min) > 2.5;
        for (var k = Math.floor(Math.log10(own.min)); k <= Math.ceil(Math.log10(own.max)); k++) {
          (wide ? [1] : [1, 2, 5]).forEach(function (f) { var v = f * Math.pow(10, k); if (v >= own.min && v <= own.max) ticks.push({ value: v }); });
        }
        if (ticks.length > 2) own.ticks = ticks;
      };
    }
    return s;
  }
  // Straight lines across a chart, such as the training length.
  var rules = {
    id: 'rules',
    beforeDatasetsDraw: function (chart) {
      var c = chart.ctx, area = chart.chartArea;
      (chart.options.plugins.rules.list || []).forEach(function (rule) {
        var at = rule.vertical ? chart.scales.x.getPixelForValue(rule.at) : chart.scales.y.getPixelForValue(rule.at);
        c.save();
        c.strokeStyle = '#666'; c.fillStyle = '#666'; c.setLineDash([4, 4]); c.font = '11px sans-serif';
        c.beginPath();
        if (rule.vertical) { c.moveTo(at, area.top); c.lineTo(at, area.bottom); } else { c.moveTo(area.left, at); c.lineTo(area.right, at); }
        c.stroke();
        if (rule.label) c.fillText(rule.label, rule.vertical ? at + 4 : area.left + 4, rule.vertical ? area.top + 10 : at - 4);
        c.restore();
      });
    },
    beforeDraw: function (chart) {
      var c = chart.ctx, area = chart.chartArea;
      (chart.options.plugins.rules.shades || []).forEach(function (shade) {
        var from = Math.max(area.left, chart.scales.x.getPixelForValue(shade.low)), to = Math.min(area.right, chart.scales.x.getPixelForValue(shade.high));
        c.save();
        c.fillStyle = '#f0f0f0';
        c.fillRect(from, area.top, to - from, area.bottom - area.top);
        c.fillStyle = '#666'; c.font = '11px sans-serif';
        c.fillText(shade.label, from + 4, area.bottom - 6);
        c.restore();
      });
    }
  };

  function visible(panel, s) { return !window.peStudy || window.peStudy.visible(s.name, s.variant || panel.variant, s.seed); }

  function datasets(panel, unit) {
    var list = [];
    function banded(s) { return (s.role === 'main' || s.role === 'line') && s.points.some(function (p) { return p.length > 2; }); }
    var outlines = panel.series.filter(banded).length >= 4;   // many bands over each other are outlines
    panel.series.forEach(function (s) {
      if (!visible(panel, s)) return;
      var factor = unit ? s.units[unit] : 1;
      function points(at) {
        return s.points.map(function (p) { var y = p.length > at ? p[at] : null; return { x: p[0] * factor, y: y === 'inf' ? null : y }; });
      }
      var main = s.role === 'main' || s.role === 'line';
      if (banded(s)) {
        var edge = { borderWidth: outlines ? 0.6 : 0, borderDash: [2, 2], borderColor: outlines ? s.colour : 'transparent' };
        list.push(Object.assign({ label: s.name, extra: true, data: points(2), pointRadius: 0, spanGaps: false }, edge));
        list.push(Object.assign({ label: s.name, extra: true, data: points(3), pointRadius: 0, backgroundColor: s.colour + '29', fill: outlines ? false : '-1' }, edge));
      }
      list.push({ label: s.name, seed: s.seed, extra: !main && !s.named, data: points(1), known: s.points, borderColor: main ? s.colour : s.role === 'context' ? '#b0b0b0' : s.colour + '66', showLine: s.role !== 'points', backgroundColor: s.colour, borderDash: dashes[s.dash],
                  borderWidth: main ? 2 : 1, pointRadius: s.role === 'main' ? 3 : s.role === 'points' || s.points.length < 2 ? 2 : 0, pointStyle: shapes[s.shape], spanGaps: false, order: main ? 0 : 1 });
    });
    return list;
  }

  // A panel's bounds in another unit, where one factor fits all of its lines; else they follow from the data.
  function bound(panel, name, unit) {
    var at = panel[name], factors = panel.series.map(function (s) { return unit ? s.units[unit] : 1; });
    return at === undefined || factors.some(function (f) { return f !== factors[0]; }) ? undefined : at * factors[0];
  }

  function chart(canvas, figure, panel, unit) {
    var x = unit ? figure.units.filter(function (u) { return u.id === unit; })[0] : figure.x;
    x = { title: x.title, ticks: x.ticks, scale: figure.x.scale };
    return new Chart(canvas, {
      type: 'line', plugins: [rules], data: { datasets: datasets(panel, unit) },
      options: {
        animation: false, maintainAspectRatio: false, parsing: false, interaction: { mode: 'x', intersect: false },
        scales: { x: scale(x, bound(panel, 'x_low', unit), bound(panel, 'x_high', unit)), y: scale(figure.y, panel.y_low, panel.y_high) },
        plugins: {
          rules: { list: panel.rules.filter(function (rule) { return !rule.vertical || !unit; }), shades: panel.shades },
          legend: {
            position: 'bottom',
            labels: { usePointStyle: true, boxWidth: 7, boxHeight: 7, filter: function (item, data) {
              var own = data.datasets[item.datasetIndex];
              return !own.extra && data.datasets.findIndex(function (d) { return !d.extra && d.label === own.label; }) === item.datasetIndex;
            } },
            onClick: function (event, item, legend) {
              var all = legend.chart.data.datasets, shown = legend.chart.isDatasetVisible(item.datasetIndex);
              all.forEach(function (d, i) { if (d.label === all[item.datasetIndex].label) legend.chart.setDatasetVisibility(i, !shown); });
              legend.chart.update();
            }
          },
          tooltip: {
            filter: function (item) { return !item.dataset.extra; },
            callbacks: {
              title: function (items) { return items.length ? x.title + ': ' + words(x, items[0].parsed.x) : ''; },
              label: function (item) {
                var known = item.dataset.known && item.dataset.known[item.dataIndex], text = item.dataset.label + ': ' + words(figure.y, item.parsed.y);
                if (known && known.length > 3) text += ' [' + words(figure.y, known[2]) + ', ' + words(figure.y, known[3]) + ']';
                if (known && known.length > 4) text += ', n = ' + known[4];
                return text;
              }
            }
          }
        }
      }
    });
  }

  document.querySelectorAll('figure[data-live]').forEach(function (element) {
    var name = element.getAttribute('data-live'), figure = null, unit = '';
    var panels = element.querySelector('.panels'), still = panels.innerHTML, charts = null;
    var button = document.createElement('button');
    button.type = 'button';
    button.className = 'wake';
    button.textContent = 'Interactive';
    button.setAttribute('aria-pressed', 'false');
    element.insertBefore(button, panels);
    var scales = [];
    function controls() {
      if (figure) return;
      figure = figures()[name];
      scales = ['x', 'y'].map(function (name) {
        var axis = figure[name], own = axis.scale, other = own === 'linear' ? 'log10' : 'linear', toggle = document.createElement('button');
        toggle.type = 'button';
        toggle.className = 'wake scale';
        toggle.hidden = true;
        function word() { toggle.textContent = name + ': ' + (axis.scale === 'linear' ? 'linear' : 'log'); }
        word();
        toggle.addEventListener('click', function () {
          axis.scale = axis.scale === own ? other : own;
          word();
          redraw();
        });
        element.insertBefore(toggle, panels);
        return toggle;
      });
      if (figure.units) {
        var choice = document.createElement('select');
        choice.className = 'wake unit';
        choice.setAttribute('aria-label', 'Unit of the x axis');
        [{ id: '', title: figure.x.title }].concat(figure.units).forEach(function (u) {
          var option = document.createElement('option');
          option.value = u.id;
          option.textContent = u.title;
          choice.appendChild(option);
        });
        choice.addEventListener('change', function () { unit = choice.value; redraw(); });
        element.insertBefore(choice, panels);
        scales.push(choice);
      }
    }
    function draw() {
      panels.textContent = '';
      charts = figure.panels.filter(function (panel) {
        return panel.series.some(function (s) { return visible(panel, s); });
      }).map(function (panel) {
        var box = document.createElement('div'), title = document.createElement('h4'), room = document.createElement('div'), canvas = document.createElement('canvas');
        box.className = 'live';
        title.textContent = panel.title;
        canvas.setAttribute('role', 'img');
        canvas.setAttribute('aria-label', figure.title + ' ' + panel.title);
        room.appendChild(canvas); box.appendChild(title); box.appendChild(room); panels.appendChild(box);
        return chart(canvas, figure, panel, unit);
      });
    }
    function redraw() {
      charts.forEach(function (c) { c.destroy(); });
      draw();
    }
    // A selection is drawn in charts; the static pictures show everything.
    document.addEventListener('pe-filter', function () {
      if (charts) redraw(); else if (window.peStudy.chosen()) button.click();
    });
    button.addEventListener('click', function () {
      if (charts) {
        charts.forEach(function (c) { c.destroy(); });
        charts = null;
        panels.innerHTML = still;
      } else {
        controls();
        draw();
      }
      scales.forEach(function (toggle) { toggle.hidden = !charts; });
      button.textContent = charts ? 'Static' : 'Interactive';
      button.setAttribute('aria-pressed', charts ? 'true' : 'false');
    });
  });
})();
