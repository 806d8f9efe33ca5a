'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const byId = id => document.getElementById(id);
  // [id, stage, state, ready, bytes, reason, [[start, end, lane, outcome, peak, cpu, attempt, cpus, gpus], …]]
  const tasks = data.tasks.map((t, i) => ({index: i, id: t[0], stage: t[1], state: t[2], ready: t[3], bytes: t[4], reason: t[5],
    spans: t[6].map(s => ({start: s[0], end: s[1], lane: s[2], outcome: s[3], peak: s[4], cpu: s[5], attempt: s[6], cpus: s[7], gpus: s[8]}))}));
  for (const t of tasks) {
    t.ran = t.spans.reduce((sum, s) => sum + s.end - s.start, 0);
    t.waited = t.spans.length ? Math.max(0, t.spans[0].start - t.ready) : 0;
    t.peak = t.spans.reduce((most, s) => Math.max(most, s.peak), 0);
    t.start = t.spans.length ? t.spans[0].start : Infinity;
    for (const s of t.spans) s.task = t;
  }
  const critical = new Set(data.critical);
  const length = Math.max(data.length, 1e-3);

  const duration = s => s < 0.0095 ? '0 s' : s < 10 ? s.toFixed(2) + ' s' : s < 120 ? s.toFixed(0) + ' s'
    : Math.round(s) < 7200 ? Math.floor(Math.round(s) / 60) + ' min ' + Math.round(s) % 60 + ' s'
    : Math.floor(Math.round(s / 60) / 60) + ' h ' + Math.round(s / 60) % 60 + ' min';
  const bytes = b => { if (!b) return ''; const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']; let i = 0; while (b >= 1024 && i < 4) { b /= 1024; ++i; }
    return (i && b < 100 ? b.toFixed(1) : Math.round(b)) + ' ' + units[i]; };

  // ---- the chart
  const rows = byId('rows'), canvas = rows.querySelector('canvas'), tall = rows.querySelector('div'), tip = byId('tip');
  const pen = canvas.getContext('2d');
  const ran = tasks.filter(t => t.spans.length).sort((a, b) => a.start - b.start);
  const lanes = Array.from({length: Math.max(data.lanes, 1)}, () => []);
  for (const t of ran) for (const s of t.spans) lanes[s.lane].push(s);
  for (const lane of lanes) lane.sort((a, b) => a.start - b.start);
  let mode = 'slots', from = 0, to = length, width = 0, height = 0, hover = null;
  const axis = 22;
  const rowHeight = () => mode === 'slots' ? 22 : 16;
  const rowCount = () => mode === 'slots' ? lanes.length : ran.length;
  const row = i => mode === 'slots' ? lanes[i] : ran[i].spans;
  const x = time => (time - from) / (to - from) * width;
  const timeAt = px => from + px / width * (to - from);
  let colours = {};
  const readColours = () => {
    const style = getComputedStyle(document.documentElement), get = name => style.getPropertyValue(name).trim();
    colours = {ink: get('--ink'), soft: get('--soft'), line: get('--line'), paper: get('--paper'), bad: get('--bad'), wait: get('--wait'), accent: get('--accent'),
      stages: data.stages.map((_, i) => get('--s' + i % 8))};
  };
  const step = () => {
    const rough = (to - from) / Math.max(2, width / 90);
    for (const s of [.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400]) if (s >= rough) return s;
    return Math.ceil(rough / 86400) * 86400;
  };
  const label = t => { const s = step(); return s >= 3600 ? (t / 3600).toFixed(t % 3600 ? 1 : 0) + ' h' : s >= 60 ? Math.round(t / 60) + ' min' : s >= 1 ? Math.round(t) + ' s' : t.toFixed(2) + ' s'; };
  const isBad = s => s.outcome !== 'done' && s.outcome !== 'running' && s.outcome !== 'diverged';
  function draw() {
    const scale = window.devicePixelRatio || 1;
    width = rows.clientWidth;
    const all = axis + rowCount() * rowHeight() + 4;
    height = Math.min(all, Math.max(120, Math.min(innerHeight * .62, 640)));
    tall.style.height = Math.max(0, all - height) + 'px';
    canvas.style.width = width + 'px'; canvas.style.height = height + 'px';
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
    }
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = colours.paper; pen.fillRect(0, 0, width, height);
    pen.font = '11px "DejaVu Sans", Verdana, sans-serif'; pen.textBaseline = 'middle';
    const tick = step();
    for (let t = Math.ceil(from / tick) * tick; t <= to + 1e-9; t += tick) {
      const at = Math.round(x(t)) + .5;
      pen.strokeStyle = colours.line; pen.beginPath(); pen.moveTo(at, axis); pen.lineTo(at, height); pen.stroke();
      pen.fillStyle = colours.soft; const text = label(t), wide = pen.measureText(text).width;
      pen.fillText(text, Math.min(Math.max(at - wide / 2, 2), width - wide - 2), axis / 2);
    }
    const rh = rowHeight(), first = Math.max(0, Math.floor(rows.scrollTop / rh)), last = Math.min(rowCount(), first + Math.ceil((height - axis) / rh) + 1);
    pen.save(); pen.beginPath(); pen.rect(0, axis, width, height - axis); pen.clip();
    for (let i = first; i < last; ++i) {
      const y = axis + i * rh - rows.scrollTop, list = row(i);
      if (mode === 'tasks' && list.length && list[0].task.waited > 0) {
        const t = list[0].task, a = x(t.ready), b = x(t.start);
        if (b >= 0 && a <= width) { pen.fillStyle = colours.wait; pen.fillRect(a, y + rh / 2 - 1.5, Math.max(b - a, .5), 3); }
      }
      let blockEnd = -1;  // spans narrower than a pixel are drawn once a pixel
      for (const s of list) {
        const a = x(s.start), b = x(s.end);
        if (b < 0) continue;
        if (a > width) break;
        if (b - a < 1 && b <= blockEnd && s !== hover) continue;
        const w = Math.max(b - a - (b - a > 3 ? 1 : 0), 1);
        pen.fillStyle = colours.stages[s.task.stage]; pen.fillRect(a, y + 2, w, rh - 4);
        blockEnd = Math.floor(a) + 1;
        if (isBad(s)) { pen.strokeStyle = colours.bad; pen.lineWidth = 2; pen.strokeRect(a + 1, y + 3, Math.max(w - 2, 1), rh - 6); pen.lineWidth = 1;
          pen.beginPath(); pen.moveTo(a, y + rh - 2); pen.lineTo(a + Math.min(w, rh), y + 2); pen.stroke(); }
        if (critical.has(s.task.index)) { pen.fillStyle = colours.ink; pen.fillRect(a, y + rh - 3, w, 2); }
        if (s === hover) { pen.strokeStyle = colours.ink; pen.strokeRect(a + .5, y + 2.5, Math.max(w - 1, 1), rh - 5); }
        if (mode === 'tasks' && w <= 46 && s === list[list.length - 1]) {  // next to it, where there is room
          pen.fillStyle = colours.soft; const wide = pen.measureText(s.task.id).width;
          if (b + 5 + wide < width) pen.fillText(s.task.id, b + 5, y + rh / 2);
          else if (x(list[0].task.ready) - 5 - wide > 0) pen.fillText(s.task.id, x(list[0].task.ready) - 5 - wide, y + rh / 2);
        }
        if (w > 46) {
          pen.save(); pen.beginPath(); pen.rect(Math.max(a, 0), y, Math.min(w, width - a) - 4, rh); pen.clip();
          pen.fillStyle = luminance(colours.stages[s.task.stage]) > .22 ? '#111' : '#fff'; pen.fillText(s.task.id, Math.max(a, 0) + 4, y + rh / 2); pen.restore();
        }
      }
    }
    pen.restore();
  }
  const luminance = hex => { const part = i => { const v = parseInt(hex.slice(i, i + 2), 16) / 255; return v <= .04 ? v / 12.9 : ((v + .055) / 1.055) ** 2.4; };
    return hex[0] === '#' ? .2126 * part(1) + .7152 * part(3) + .0722 * part(5) : 0; };
  let asked = false;
  const redraw = () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } };
  const look = (a, b) => { const least = Math.max(length / 1e6, 1e-3); if (b - a < least) b = a + least;
    const w = Math.min(b - a, length); from = Math.min(Math.max(a, 0), length - w); to = from + w; redraw(); };
  const zoom = (factor, at = (from + to) / 2) => look(at - (at - from) * factor, at + (to - at) * factor);

  const spanAt = (px, py) => {
    if (py < axis) return null;
    const i = Math.floor((py - axis + rows.scrollTop) / rowHeight());
    if (i < 0 || i >= rowCount()) return null;
    const t = timeAt(px), slack = (to - from) / width * 2;
    let best = null;
    for (const s of row(i)) { if (s.start > t + slack) break; if (s.end >= t - slack && (!best || s.start <= t)) best = s; }
    return best;
  };
  const describe = s => [s.task.id + (s.attempt > 1 ? '  attempt ' + s.attempt : ''), s.outcome + ' after ' + duration(s.end - s.start) + (s.task.waited > .0095 && s === s.task.spans[0] ? ', waited ' + duration(s.task.waited) : ''),
    'from ' + duration(s.start) + ' to ' + duration(s.end), s.cpus ? s.cpus + (s.cpus === 1 ? ' CPU' : ' CPUs') + (s.gpus ? ', GPU ' + s.gpus : '') + (s.cpu ? ', ' + duration(s.cpu) + ' of CPU time' : '') : '',
    s.peak ? 'peak memory ' + bytes(s.peak) : '', critical.has(s.task.index) ? 'on the critical path' : '', s.task.reason].filter(Boolean).join('\n');
  function point(event) {
    const box = canvas.getBoundingClientRect(), s = spanAt(event.clientX - box.left, event.clientY - box.top);
    if (s !== hover) { hover = s; redraw(); }
    tip.hidden = !s;
    if (!s) return;
    tip.textContent = describe(s);
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - w - 8)) + 'px';
    tip.style.top = (event.clientY + h + 24 > innerHeight ? event.clientY - h - 12 : event.clientY + 16) + 'px';
  }
  let drag = null;
  canvas.addEventListener('pointerdown', e => { drag = {x: e.clientX, from, to}; });
  addEventListener('pointerup', () => { drag = null; });
  canvas.addEventListener('pointermove', e => {
    if (drag && Math.abs(e.clientX - drag.x) > 3) { const by = (drag.x - e.clientX) / width * (drag.to - drag.from); look(drag.from + by, drag.to + by); tip.hidden = true; } else point(e);
  });
  canvas.addEventListener('pointerleave', () => { hover = null; tip.hidden = true; redraw(); });
  canvas.addEventListener('wheel', e => { if (!e.ctrlKey && !e.shiftKey) return; e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : .8, timeAt(e.clientX - canvas.getBoundingClientRect().left)); }, {passive: false});
  canvas.addEventListener('keydown', e => {
    const by = (to - from) / 5, moves = {ArrowLeft: () => look(from - by, to - by), ArrowRight: () => look(from + by, to + by), '+': () => zoom(.6), '=': () => zoom(.6), '-': () => zoom(1.6), '0': () => look(0, length)};
    if (moves[e.key]) { e.preventDefault(); moves[e.key](); }
  });
  rows.addEventListener('scroll', redraw);
  byId('in').onclick = () => zoom(.5);
  byId('out').onclick = () => zoom(2);
  byId('all').onclick = () => look(0, length);
  for (const name of ['slots', 'tasks']) byId(name).onclick = () => {
    mode = name; rows.scrollTop = 0;
    for (const other of ['slots', 'tasks']) byId(other).setAttribute('aria-pressed', other === name);
    redraw();
  };
  addEventListener('resize', redraw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); redraw(); });

  // ---- the table of tasks
  const columns = [['Task', t => t.id], ['State', t => t.state], ['Ready', t => t.ready], ['Waited', t => t.waited], ['Ran', t => t.ran], ['Attempts', t => t.spans.length], ['Peak memory', t => t.peak], ['Published', t => t.bytes]];
  const body = byId('tasks-body'), head = byId('tasks-head'), filter = byId('filter'), more = byId('more'), found = byId('found');
  let sorted = null, down = false, shown = 100;
  const cell = (text, name) => { const td = document.createElement('td'); td.textContent = text; if (name) td.className = name; return td; };
  function list() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let kept = tasks.filter(t => words.every(w => t.id.toLowerCase().includes(w) || t.state === w));
    if (sorted !== null) { const get = columns[sorted][1]; kept = [...kept].sort((a, b) => { const p = get(a), q = get(b); return (p < q ? -1 : p > q ? 1 : a.index - b.index) * (down ? -1 : 1); }); }
    const fresh = document.createDocumentFragment();
    for (const t of kept.slice(0, shown)) {
      const tr = document.createElement('tr');
      tr.append(cell(t.id + (t.reason ? '  (' + t.reason + ')' : ''), 'id'), cell(t.state, t.state === 'failed' ? 'bad' : ''));
      for (const text of t.spans.length ? [duration(t.ready), duration(t.waited), duration(t.ran), String(t.spans.length), bytes(t.peak), bytes(t.bytes)] : ['', '', '', '', '', bytes(t.bytes)]) tr.append(cell(text, 'n'));
      fresh.append(tr);
    }
    body.replaceChildren(fresh);
    found.textContent = kept.length === tasks.length ? tasks.length + ' tasks' : kept.length + ' of ' + tasks.length + ' tasks';
    more.hidden = kept.length <= shown;
  }
  columns.forEach(([name], i) => {
    const th = document.createElement('th'), button = document.createElement('button');
    th.scope = 'col'; if (i > 1) th.className = 'n';
    button.textContent = name; button.onclick = () => { down = sorted === i ? !down : i > 1; sorted = i;
      [...head.children].forEach((other, k) => other.setAttribute('aria-sort', k === i ? (down ? 'descending' : 'ascending') : 'none')); list(); };
    th.append(button); head.append(th);
  });
  filter.oninput = () => { shown = 100; list(); };
  more.onclick = () => { shown += 500; list(); };
  readColours(); draw(); list();
  for (const node of document.querySelectorAll('.needs-script')) node.hidden = false;
  draw();
})();
