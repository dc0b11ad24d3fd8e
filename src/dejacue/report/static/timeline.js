// The timeline of a finding: draws a scene (docs/timeline.md) and lets its windows be edited.
// One module without imports, for the report, for a notebook (anywidget) and for a web page.

const MIN_FRAMES = 8, SNAP_PX = 8, DRAG_PX = 3, BAR = 15, CROP = 42;
const OPACITY = { "a guess": .4, unsure: .7 };  // of an occurrence, by how far to trust it
const THIN = 20, OPEN = 72;  // pixels: heights of a row in a timeline that fills its place
const PICTURES = { even: "pictures", intervals: "one per interval", none: "no pictures" };
const SECONDS = [.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
  7200, 14400, 43200, 86400];
const NONE = "none of these";
const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

// ---------------------------------------------------------------- numbers

// A packed column, {"f64": base64 of little-endian numbers}.
export function unpack(column) {
  const [[kind, text]] = Object.entries(column), raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let n = 0; n < raw.length; n += 1) bytes[n] = raw.charCodeAt(n);
  return new { f32: Float32Array, f64: Float64Array, i32: Int32Array }[kind](bytes.buffer);
}

// The first place in a growing list whose value is not below x.
export function lower(values, x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1; else high = middle;
  }
  return low;
}

// Straight lines through knots, going on at both ends.
export function line(xs, ys, x) {
  if (xs.length < 2) return ys[0] + x - xs[0];
  const at = Math.min(Math.max(lower(xs, x), 1), xs.length - 1);
  return ys[at - 1] + (ys[at] - ys[at - 1]) * (x - xs[at - 1]) / (xs[at] - xs[at - 1]);
}

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const signed = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

function clockText(seconds, digits, minutely = false) {
  const sign = seconds < 0 ? "−" : "", scale = 10 ** digits;
  const whole = Math.round(Math.abs(seconds) * scale) / scale;
  if (whole < 60 && !minutely) return `${sign}${whole.toFixed(digits)} s`;
  const rest = (whole % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  const minutes = Math.floor(whole / 60), hours = Math.floor(minutes / 60);
  if (!hours) return `${sign}${minutes}:${rest}`;
  return `${sign}${hours}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

// Which frames were observed: runs, and how many observed frames lie before a frame.
class Observed {
  constructor(runs) {
    this.starts = Float64Array.from(runs, (run) => run[0]);
    this.ends = Float64Array.from(runs, (run) => run[1]);
    this.before = new Float64Array(runs.length + 1);
    runs.forEach(([start, end], n) => { this.before[n + 1] = this.before[n] + end - start + 1; });
  }
  // Observed frames below a frame; a frame may lie between two whole numbers.
  count(frame) {
    const run = lower(this.ends, frame);
    if (run === this.ends.length) return this.before[run];
    return this.before[run] + Math.max(Math.ceil(frame) - this.starts[run], 0);
  }
  frame(position) {
    const run = lower(this.before, position + 1) - 1;
    return this.starts[run] + position - this.before[run];
  }
  has(frame) { return this.count(frame + 1) > this.count(frame); }
}

// A curve with the extremes of 2, 4, 8, … neighbours, computed once: what a pixel shows of any
// number of frames is read from a few of them.
class Curve {
  constructor(packed, axis, observed) {
    this.thin = packed.low !== undefined;
    const low = this.thin ? unpack(packed.low) : unpack({ f32: packed.f32 });
    const high = this.thin ? unpack(packed.high) : low;
    this.levels = [[low, high]];
    while (this.levels.at(-1)[0].length > 4) this.levels.push(this.halved(...this.levels.at(-1)));
    this.sums = new Float64Array(low.length + 1);
    this.counts = this.thin ? new Float64Array(low.length + 1) : null;
    for (let n = 0; n < low.length; n += 1) {
      const there = low[n] === low[n];
      this.sums[n + 1] = this.sums[n] + (there ? (low[n] + high[n]) / 2 : 0);
      if (this.thin) this.counts[n + 1] = this.counts[n] + there;
    }
    const width = (axis.last - axis.first + 1) / low.length, from = axis.first - .5;
    this.place = (frame) => observed.count(frame);
    this.frame = (place) => observed.frame(place);
    if (this.thin) {
      this.place = (frame) => clamp(Math.floor((frame - from) / width), 0, low.length);
      this.frame = (place) => from + (place + .5) * width;
    }
    this.step = this.thin ? width : 1;
    const any = this.extremes(0, low.length);
    [this.low, this.high] = any ? [Math.min(this.least, 0), Math.max(this.greatest, 0)] : [0, 0];
  }
  halved(low, high) {
    const count = (low.length + 1) >> 1, made = [new Float32Array(count), new Float32Array(count)];
    for (let n = 0; n < count; n += 1) {
      const a = 2 * n, b = Math.min(a + 1, low.length - 1);
      made[0][n] = low[b] < low[a] || low[a] !== low[a] ? low[b] : low[a];
      made[1][n] = high[b] > high[a] || high[a] !== high[a] ? high[b] : high[a];
    }
    return made;
  }
  // Sets least and greatest to the extremes of the values from one place up to another; says
  // whether there is any. No list is made: it is asked for each pixel.
  extremes(from, to) {
    let low = Infinity, high = -Infinity, a = from, b = to, reads = 0;
    const top = this.levels.length - 1;
    for (let k = 0; a < b; k += 1, a >>= 1, b >>= 1) {
      const [lows, highs] = this.levels[k];
      const left = k === top ? b : a + (a & 1), right = k === top ? b : b - (b & 1);
      for (; a < left; a += 1, reads += 1) {
        if (lows[a] < low) low = lows[a];
        if (highs[a] > high) high = highs[a];
      }
      for (; b > right && b > a; reads += 1) {
        b -= 1;
        if (lows[b] < low) low = lows[b];
        if (highs[b] > high) high = highs[b];
      }
    }
    Curve.reads += reads;
    [this.least, this.greatest] = [low, high];
    return low <= high;
  }
  mean(from, to) {
    const count = this.thin ? this.counts[to] - this.counts[from] : to - from;
    return count > 0 ? (this.sums[to] - this.sums[from]) / count : NaN;
  }
  at(frame) {
    const place = this.place(frame);
    return this.mean(place, Math.min(place + 1, this.sums.length - 1));
  }
}
Curve.reads = 0;

// ---------------------------------------------------------------- looks

const LIGHT = `--tl-page: #ffffff; --tl-panel: #f5f6f8; --tl-ink: #1b1f24; --tl-soft: #59626d;
  --tl-line: #dde1e6; --tl-gap: #e4e7eb; --tl-edge: #8b949e; --tl-doubt: #b34700; --tl-focus: #0b62c4;
  --tl-mix: #000000;`;
const DARK = `--tl-page: #14171b; --tl-panel: #1d2127; --tl-ink: #e8ebee; --tl-soft: #a3adb8;
  --tl-line: #333a43; --tl-gap: #2a3038; --tl-edge: #7a8592; --tl-doubt: #ff9a52; --tl-focus: #7db8ff;
  --tl-mix: #ffffff;`;
const STYLE = `
.dejacue-timeline { ${LIGHT} position: relative; color: var(--tl-ink); font: 14px/1.35 system-ui,
  -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; user-select: none; -webkit-user-select: none; }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) .dejacue-timeline { ${DARK} } }
:is([data-theme="dark"], [data-jp-theme-light="false"]) .dejacue-timeline { ${DARK} }
[data-jp-theme-light="true"] .dejacue-timeline { ${LIGHT} }
.dejacue-timeline * { box-sizing: border-box; }
.dejacue-timeline [hidden] { display: none !important; }
.dejacue-timeline .tl-top { display: flex; flex-wrap: wrap; gap: .35rem 1.1rem; align-items: center;
  justify-content: space-between; margin: 0 0 .6rem; font-size: 13px; color: var(--tl-soft); }
.dejacue-timeline .tl-tools { display: flex; margin-left: auto; gap: .3rem; align-items: center;
  flex-wrap: wrap; }
.dejacue-timeline .tl-keys { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: 0; padding: 0;
  list-style: none; }
.dejacue-timeline .tl-keys li { display: flex; gap: .4rem; align-items: center; margin: 0; }
.dejacue-timeline .tl-keys canvas { width: 24px; height: 12px; }
.dejacue-timeline button, .dejacue-timeline select { font: inherit; color: var(--tl-ink);
  background: var(--tl-panel);
  border: 1px solid var(--tl-line); border-radius: 5px; padding: .1rem .5rem; min-height: 26px;
  cursor: pointer; }
.dejacue-timeline button[aria-pressed="true"] { border-color: var(--tl-ink);
  box-shadow: inset 0 0 0 1px var(--tl-ink); }
.dejacue-timeline button:disabled { color: var(--tl-soft); cursor: default; opacity: .6; }
.dejacue-timeline .tl-body { position: relative; }
.dejacue-timeline.tl-fill { height: 100%; display: flex; flex-direction: column; }
.dejacue-timeline.tl-fill .tl-top { flex-wrap: nowrap; margin: 0 0 2px; gap: .6rem; min-height: 26px; }
.dejacue-timeline.tl-fill .tl-tools { flex-wrap: nowrap; overflow-x: auto; }
.dejacue-timeline.tl-fill .tl-tools > * { flex: none; min-height: 24px; padding: 0 .45rem; }
.dejacue-timeline.tl-fill .tl-scroll { flex: 1; min-height: 0; overflow: hidden auto; position: relative; }
.dejacue-timeline.tl-fill .tl-field { position: sticky; z-index: 1; }
.dejacue-timeline.tl-fill .tl-reading { background: var(--tl-page); z-index: 2; display: flex; align-items: flex-end;
  padding: 0 0 7px 2px; }
.dejacue-timeline.tl-fill .tl-grip { z-index: 1; }
.dejacue-timeline.tl-fill .tl-label:not(.tl-lane) { cursor: pointer; }
.dejacue-timeline.tl-fill .tl-label.tl-open { background: var(--tl-panel); }
.dejacue-timeline .tl-thin { display: flex; align-items: center; gap: .4rem; }
.dejacue-timeline .tl-thin .tl-words, .dejacue-timeline .tl-thin .tl-windows li + li { display: none; }
.dejacue-timeline .tl-thin .tl-name { flex: 1; min-width: 0; height: 100%; }
.dejacue-timeline .tl-thin .tl-badge { line-height: 13px; min-width: 18px; }
.dejacue-timeline .tl-thin .tl-windows button { min-height: 18px; line-height: 16px; padding: 0 .3rem; }
.dejacue-timeline.tl-slim :is(.tl-name output, .tl-thin .tl-windows) { display: none; }
.dejacue-timeline.tl-slim .tl-top > :not(.tl-tools) { display: none; }
.dejacue-timeline .tl-legend { position: relative; flex: none; }
.dejacue-timeline .tl-legend > ul { position: absolute; left: 0; top: 26px; z-index: 4; background: var(--tl-page);
  border: 1px solid var(--tl-line); border-radius: 6px; padding: .5rem .7rem; flex-direction: column; white-space: nowrap; }
.dejacue-timeline .tl-field { position: absolute; top: 0; touch-action: pan-y; cursor: crosshair; }
.dejacue-timeline .tl-plot { width: 100%; height: 100%; outline-offset: 2px; }
.dejacue-timeline .tl-plot canvas { position: absolute; left: 0; top: 0; pointer-events: none; }
.dejacue-timeline :is(.tl-plot, button, select, .tl-grip):focus-visible { outline: 2px solid var(--tl-focus); }
.dejacue-timeline .tl-label { position: absolute; left: 0; overflow: hidden; padding-right: .75rem; }
.dejacue-timeline .tl-name { display: flex; gap: .45rem; align-items: center; font-weight: 600; height: 22px; }
.dejacue-timeline .tl-name bdi, .dejacue-timeline .tl-words { overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.dejacue-timeline .tl-name output { margin-left: auto; font-weight: 600; font-variant-numeric: tabular-nums;
  flex: none; }
.dejacue-timeline .tl-badge { flex: none; min-width: 20px; padding: 0 3px; text-align: center;
  font-size: 12px; line-height: 16px;
  border: 2px solid; border-radius: 5px; }
.dejacue-timeline .tl-words { font-size: 12px; color: var(--tl-soft); height: 18px; }
.dejacue-timeline .tl-windows { display: flex; gap: 4px; margin: 0; padding: 1px; list-style: none;
  font-size: 12px; align-items: center;
  color: var(--tl-soft); white-space: nowrap; }
.dejacue-timeline .tl-windows li { margin: 0; }
.dejacue-timeline .tl-windows button { padding: 0 .4rem; min-height: 24px; line-height: 1.3;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.dejacue-timeline .tl-lane { font-size: 12px; color: var(--tl-soft); display: flex; align-items: center;
  justify-content: space-between; }
.dejacue-timeline .tl-lane output { color: var(--tl-ink); font-weight: 600;
  font-variant-numeric: tabular-nums; }
.dejacue-timeline .tl-reading { position: absolute; left: 0; font-size: 12px;
  font-variant-numeric: tabular-nums; white-space: nowrap;
  overflow: hidden; text-overflow: ellipsis; color: var(--tl-ink); }
.dejacue-timeline .tl-grip { position: absolute; width: 12px; margin-left: -6px; cursor: ew-resize;
  touch-action: none; border-radius: 4px; }
.dejacue-timeline .tl-grip::after { content: ""; position: absolute; left: 3px; right: 3px; top: 0;
  bottom: 0; background: var(--tl-ink);
  border: 1px solid var(--tl-page); border-radius: 3px; }
.dejacue-timeline .tl-reason { position: absolute; left: 0; right: 0; z-index: 1; margin: 0 auto; width: fit-content;
  max-width: 90%; padding: .4rem .8rem; background: var(--tl-page); border: 2px solid var(--tl-doubt);
  border-radius: 6px; pointer-events: none; }
.dejacue-timeline .tl-reason:empty { display: none; }
.dejacue-timeline .tl-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
.dejacue-timeline.tl-narrow .tl-words, .dejacue-timeline .tl-words:empty { display: none; }
.dejacue-timeline.tl-narrow .tl-label:not(.tl-lane) { display: flex; gap: .6rem; align-items: center;
  padding: 0; }
.dejacue-timeline.tl-narrow .tl-name { flex: 1 1 auto; min-width: 0; }
.dejacue-timeline.tl-narrow .tl-windows { flex: none; max-width: 62%; overflow: hidden; }
`;

// A style sheet made by script is allowed where a page forbids inline styles.
function dress(element) {
  const root = element.getRootNode(), home = root.adoptedStyleSheets ? root : document;
  if ([...home.adoptedStyleSheets].some((sheet) => sheet.dejacue)) return;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  sheet.dejacue = true;
  home.adoptedStyleSheets = [...home.adoptedStyleSheets, sheet];
}

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
function mixed(hex, other, share) {
  const a = rgb(hex), b = rgb(other);
  return `rgb(${a.map((value, n) => Math.round(value * share + b[n] * (1 - share))).join(",")})`;
}
const faint = (hex, alpha) => `rgba(${rgb(hex).join(",")},${alpha})`;
function inkOn(hex) {
  const [red, green, blue] = rgb(hex);
  return .299 * red + .587 * green + .114 * blue > 140 ? "#000000" : "#ffffff";
}

function make(tag, name, parent, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function attributes(element, values) {
  for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
}

function trace(pen, ...points) {
  pen.beginPath();
  for (const point of points) pen.lineTo(...point);
}

// Lines of their own: x and y of one end, x and y of the other.
function strokes(pen, ...ends) {
  pen.beginPath();
  for (const [x0, y0, x1, y1] of ends) {
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
  }
  pen.stroke();
}

// Stripes: not by colour alone.
function stripes(context, colour, back, width = 6) {
  const tile = document.createElement("canvas"), pen = tile.getContext("2d");
  tile.width = tile.height = width;
  if (back) { pen.fillStyle = back; pen.fillRect(0, 0, width, width); }
  pen.strokeStyle = colour;
  pen.lineWidth = 1.2;
  strokes(pen, ...[-width, 0, width].map((shift) => [shift - 1, width + 1, shift + width + 1, -1]));
  return context.createPattern(tile, "repeat");
}

// A line through any number of points, drawn in short pieces: one long path is slow where there is
// no graphics card. A point alone is a dot.
class Polyline {
  constructor(pen, dots = false) { Object.assign(this, { pen, dots, xs: [], ys: [], long: false }); }
  to(x, y) {
    this.xs.push(x);
    this.ys.push(y);
    if (this.xs.length < 48) return;
    this.end();
    this.long = true;  // goes on where this piece ends
    this.xs.push(x);
    this.ys.push(y);
  }
  end() {
    const { pen, xs, ys } = this;
    if (xs.length > 1) {
      pen.beginPath();
      for (let n = 0; n < xs.length; n += 1) pen.lineTo(xs[n], ys[n]);
      pen.stroke();
    }
    if (this.dots || (xs.length === 1 && !this.long)) xs.forEach((x, n) => this.dot(x, ys[n]));
    xs.length = ys.length = 0;
    this.long = false;
  }
  dot(x, y) {
    this.pen.beginPath();
    this.pen.arc(x, y, 1.5, 0, 7);
    this.pen.stroke();
  }
}

function cross(pen, x, y) { strokes(pen, [x - 4, y - 4, x + 4, y + 4], [x + 4, y - 4, x - 4, y + 4]); }

function diamond(pen, x, y) {
  trace(pen, [x, y - 5], [x + 5, y], [x, y + 5], [x - 5, y]);
  pen.fill();
}

function question(pen, x, y, ink, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.fillStyle = ink.ink;
  pen.fill();
  Object.assign(pen, { fillStyle: ink.page, textAlign: "center", textBaseline: "middle" });
  pen.fillText("?", x, y + 1);
}

// ---------------------------------------------------------------- the timeline

const KEYS = [
  { keys: ["←", "→"], does: "one frame back or forward (Shift: ten)" },
  { keys: ["Home", "End"], does: "first or last frame" },
  { keys: ["[", "]"], does: "previous or next edge (also , .)" },
  { keys: ["+", "−"], does: "zoom in or out" },
  { keys: ["0"], does: "show all" },
  { keys: ["PageUp", "PageDown"], does: "scroll earlier or later" },
  { keys: ["↑", "↓"], does: "row above or below" },
  { keys: ["n", "p"], does: "select the next or previous window" },
  { keys: ["Esc"], does: "clear the selection; undo a drag" },
];
const EDIT_KEYS = [
  { keys: ["s", "e"], does: "start or end the selected window at the playhead" },
  { keys: ["a"], does: "add a window at the playhead, in the current row" },
  { keys: ["Delete"], does: "delete the selected window" },
  { keys: ["Alt"], does: "while dragging: do not snap" },
];
const MARK_KEYS = [
  { keys: ["1", "…", "9"], does: "the frame shows this state" },
  { keys: ["x"], does: "the frame shows none of the states" },
  { keys: ["c"], does: "a change happens at this frame" },
];

// What a scene need not have.
const EMPTY = {
  id: "", times: null, source: null, presence: null, doubts: [], references: null, comparison: null, named: [], changes: [],
  segments: null, questions: null, thumbnails: [],
};
const CURSORS = {
  axis: "grab", head: "ew-resize", start: "ew-resize", end: "ew-resize", move: "move", window: "pointer",
};

class Timeline {
  constructor(element, scene, options) {
    this.options = { clock: "frames", wheel: "always", toolbar: true, on: {}, ...options };
    this.element = make("div", "dejacue-timeline", element);
    this.element.setAttribute("role", "group");
    dress(this.element);
    this.selected = null;  // {row, index}
    this.chosen = 0;  // row
    this.opened = null;  // the row that is high where others are thin
    this.scroll = 0;
    this.pictures = "even";
    this.element.classList.toggle("tl-fill", Boolean(options.fill));
    this.pointers = new Map();
    this.images = new Map();
    this.stats = { draws: 0, ms: 0, reads: 0 };
    this.showSegments = Boolean(options.segments);
    this.top = make("div", "tl-top", this.element);
    this.scroller = make("div", "tl-scroll", this.element);
    this.body = make("div", "tl-body", this.scroller);
    this.field = make("div", "tl-field", this.body);
    this.plot = make("div", "tl-plot", this.field);
    this.base = make("canvas", "", this.plot);
    this.over = make("canvas", "", this.plot);
    for (const canvas of [this.base, this.over]) attributes(canvas, { "aria-hidden": true });
    const slider = { tabindex: 0, role: "slider", "aria-orientation": "horizontal" };
    attributes(this.plot, { ...slider, "aria-label": "playhead" });
    this.grips = ["start", "end"].map((edge) => this.madeGrip(edge));
    this.reading = make("div", "tl-reading", this.field);
    this.reason = make("p", "tl-reason", this.field);  // why there is no answer, in place of windows
    this.live = make("div", "tl-hidden", this.element);
    this.live.setAttribute("aria-live", "polite");
    this.labels = [];
    this.listen();
    this.update(scene);
  }

  // ------------------------------------------------ what is shown

  update(given) {
    const before = this.scene, scene = { ...EMPTY, ...given };
    const own = (byState) => byState && { __proto__: null, ...byState };  // a state may be called "constructor"
    scene.references = own(scene.references);
    const { missed, superfluous } = scene.comparison || {};
    this.result = { missed: own(missed || {}), superfluous: own(superfluous || {}) };  // of a complete reference
    this.scene = scene;
    this.element.setAttribute("aria-label", `Timeline of ${scene.object || scene.id}`);
    this.first = scene.axis.first;
    this.last = scene.axis.last;
    this.observed = new Observed(scene.observed);
    const curve = (packed) => packed && new Curve(packed, scene.axis, this.observed);
    this.rows = scene.rows.map((row) => ({
      description: null, ...row, curve: curve(row.evidence),
      windows: row.windows.map((own) => ({ score: null, trust: null, ...own })),
      number: scene.states.findIndex((state) => state.name === row.state),
    }));
    const shown = new Set(scene.rows.map((row) => row.state)), bare = { description: null, curve: null };
    scene.states.forEach(({ name }, number) => {  // those that only references name
      if (!shown.has(name)) this.rows.push({ ...bare, state: name, windows: [], number });
    });
    this.segmentEnds = (scene.segments || []).map((one) => one[1]);
    this.presence = curve(scene.presence);
    this.clocks = { frames: { name: "frames", to: (f) => f, from: (v) => v } };
    const others = [["seconds", "time", scene.times], ["source", "frames of the file", scene.source]];
    for (const [key, name, knots] of others) {
      if (!knots) continue;
      const frames = unpack(knots.frames), values = unpack(knots.values);
      this.clocks[key] = { name, to: (f) => line(frames, values, f), from: (v) => line(values, frames, v) };
    }
    if (!this.clocks[this.options.clock]) this.options.clock = "frames";
    if (!before || before.axis.first !== this.first || before.axis.last !== this.last) {
      [this.a, this.b] = [this.first - .5, this.last + .5];
      this.head = clamp(this.head ?? this.first, this.first, this.last);
    }
    this.chosen = clamp(this.chosen, 0, Math.max(this.rows.length - 1, 0));
    if (this.opened >= this.rows.length) this.opened = null;
    if (this.selected && !this.rows[this.selected.row]?.windows[this.selected.index]) this.selected = null;
    const active = this.element.getRootNode().activeElement;
    const held = this.element.contains(active) && !this.field.contains(active);
    this.reason.textContent = (scene.notes || []).find((note) => note.severity === "meaningless")?.text ?? "";
    this.tools();
    this.label();
    this.layout();
    if (held) this.plot.focus({ preventScroll: true });  // what had the focus is gone
  }

  tools() {
    this.top.replaceChildren();
    this.top.hidden = !this.options.toolbar;
    if (!this.options.toolbar) return;
    const { fill, picture } = this.options, scene = this.scene, folded = fill && make("details", "tl-legend", this.top);
    if (folded) make("summary", "", folded, "Legend");
    const legend = make("ul", "tl-keys", folded || this.top);
    this.legend = this.kinds().map(([kind, text]) => {
      const item = make("li", "", legend), canvas = make("canvas", "", item);
      canvas.setAttribute("aria-hidden", "true");
      make("span", "", item, text);
      return [kind, canvas];
    });
    const bar = make("div", "tl-tools", this.top);
    const button = (text, label, act) => {
      const made = make("button", "", bar, text);
      made.type = "button";
      if (label) made.setAttribute("aria-label", label);
      made.addEventListener("click", act);
      return made;
    };
    this.buttons = {
      out: button("−", "zoom out", () => this.zoom(2)),
      in: button("+", "zoom in", () => this.zoom(.5)),
      left: button("◀", "scroll earlier", () => this.pan(-.5)),
      right: button("▶", "scroll later", () => this.pan(.5)),
      all: button("All", "show all frames", () => this.view(this.first, this.last)),
    };
    if (this.options.editable) {
      this.buttons.add = button("Add", "add a window at the playhead, in the current row", () => this.addHere());
      this.buttons.remove = button("Delete", "delete the selected window", () => this.remove());
    }
    if (scene.segments) {
      const toggle = button("Segments", "show segments: stretches of frames that look alike", () => {
        this.showSegments = !this.showSegments;
        attributes(toggle, { "aria-pressed": this.showSegments });
        this.label();
        this.layout();
      });
      attributes(toggle, { "aria-pressed": this.showSegments });
    }
    const choose = (label, names, now, act) => {
      const choice = make("select", "", bar);
      choice.setAttribute("aria-label", label);
      for (const [key, name] of Object.entries(names)) {
        const made = make("option", "", choice, name);
        made.value = key;
        made.selected = key === now;
      }
      choice.addEventListener("change", () => act(choice.value));
      return choice;
    };
    if (picture) choose("pictures", PICTURES, this.pictures, (kind) => { this.pictures = kind; this.layout(); });
    const units = Object.fromEntries(Object.entries(this.clocks).map(([key, { name }]) => [key, name]));
    if (Object.keys(units).length > 1) {
      this.unit = choose("unit of the axis", units, this.options.clock, (kind) => this.clock(kind));
    }
  }

  kinds() {
    const scene = this.scene, windows = this.rows.flatMap((row) => row.windows), found = [];
    if (windows.length) found.push(["found", "occurrence"]);
    for (const trust of Object.keys(OPACITY).reverse()) {
      if (windows.some((own) => own.trust === trust)) found.push([trust, trust]);
    }
    if (scene.references) found.push(["reference", "reference"]);
    for (const kind of ["missed", "superfluous"]) {
      if (Object.values(this.result[kind]).some((all) => all.length)) found.push([kind, kind]);
    }
    if (scene.named.some((one) => one.state !== null)) found.push(["named", "named by a person"]);
    if (scene.named.some((one) => one.state === null)) found.push(["none", `named: ${NONE}`]);
    if (scene.changes.length) found.push(["change", "change"]);
    if (scene.questions?.length) found.push(["question", "frame worth an answer"]);
    const seen = this.observed.before.at(-1);
    if (seen < this.last - this.first + 1) found.push(["gap", "not observed"]);
    if (scene.doubts.length) found.push(["doubt", "doubtful"]);
    return found;
  }

  // The labels beside the rows; in them the windows as buttons, for everybody.
  label() {
    this.labels.forEach((label) => label.element.remove());
    this.labels = this.rows.map((row, at) => {
      const element = make("div", "tl-label", this.body), state = this.scene.states[row.number];
      attributes(element, { role: "group", "aria-label": this.spoken(row) });
      const name = make("div", "tl-name", element);
      if (this.options.fill) name.addEventListener("click", () => this.open(this.opened === at ? null : at));
      const badge = make("span", "tl-badge", name, String(row.number + 1));
      badge.style.borderColor = state.colour;
      make("bdi", "", name, row.state).title = row.state;
      const value = make("output", "", name);
      value.setAttribute("aria-live", "off");
      const words = row.description ?? state.descriptions.join(" / ");
      const text = make("div", "tl-words", element, words);
      text.title = words;
      const list = make("ul", "tl-windows", element);
      return { element, value, list, curve: row.curve, at };
    });
    const lane = (text, key, curve, about) => {
      const element = make("div", "tl-label tl-lane", this.body, text);
      const value = make("output", "", element);
      value.setAttribute("aria-live", "off");
      if (about) attributes(element, { role: "group", "aria-label": about });
      this.labels.push({ element, value, curve, key });
    };
    if (this.presence) lane("presence", "presence", this.presence);
    if (this.scene.doubts.length) {
      const all = this.scene.doubts.slice(0, 20).map((one) => `frames ${one.start} to ${one.end}: ${one.text}`);
      lane("doubtful", "doubts", null, `Doubtful. ${all.join("; ")}`);
    }
    if (this.scene.segments && this.showSegments) lane("segments", "segments", null);
    this.list();
  }

  // The first windows of each row, as buttons.
  list() {
    this.labels.filter((label) => label.list).forEach((label) => {
      const row = this.rows[label.at], held = label.list.contains(document.activeElement);
      label.list.replaceChildren();
      label.element.setAttribute("aria-label", this.spoken(row));
      row.windows.slice(0, 2).forEach((own, index) => {
        const button = make("button", "", make("li", "", label.list), this.range(own));
        const on = this.isSelected(label.at, index);
        attributes(button, { type: "button", "aria-pressed": on, "aria-label": this.saidWindow(row, own) });
        button.addEventListener("click", () => {
          this.select({ row: label.at, index });
          this.reveal(own);
          this.seek(own.start);
        });
        if (held && on) button.focus();
      });
      label.rest = make("li", "", label.list);
      const none = this.reason.textContent ? "no answer" : row.curve ? "not found" : "no window";
      if (!row.windows.length) make("li", "", label.list, none);
    });
    this.fitLists();
  }

  // Where there is no room for the second window, it is counted with the others that are not listed.
  fitLists() {
    const write = ({ at, rest, list }, most) => {
      const count = this.rows[at].windows.length;
      if (count > 1) list.children[1].hidden = most < 2;
      rest.textContent = count > most ? `+ ${count - most}` : "";
    };
    const labels = this.labels.filter((label) => label.list);
    labels.forEach((label) => write(label, 2));
    labels.filter(({ list }) => list.scrollWidth > list.clientWidth).forEach((label) => write(label, 1));
  }

  // Seconds go from the start of the first frame to the end of the last one.
  ends(own, clock) {
    const exact = own.edited ? null : { seconds: own.times, source: own.source }[clock];
    return exact || [own.start, own.end + (clock === "seconds")].map(this.clocks[clock].to);
  }

  range(own) {
    const clock = this.options.clock, [from, to] = this.ends(own, clock);
    if (clock !== "seconds") return `${Math.round(from)} – ${Math.round(to)}`;
    return `${clockText(from, 2, to >= 60).replace(" s", "")} – ${clockText(to, 2)}`;
  }

  saidWindow(row, own) {
    const parts = [`${row.state}: frames ${own.start} to ${own.end}`];
    if (this.clocks.seconds) parts.push(this.ends(own, "seconds").map((time) => clockText(time, 2)).join(" to "));
    if (own.edited) parts.push("edited");
    else if (own.trust) parts.push(own.trust);
    return parts.join(", ");
  }

  spoken(row) {
    const span = (own) => `frames ${own.start ?? own[0]} to ${own.end ?? own[1]}`;
    const spans = (windows) => windows.slice(0, 20).map(span).join(", ");
    const parts = [`State ${row.state}.`];
    parts.push(row.windows.length ? `Found: ${spans(row.windows)}.` : "Not found.");
    const true_ = this.scene.references?.[row.state] || [];
    if (true_.length) parts.push(`Reference: ${spans(true_)}.`);
    const { missed, superfluous } = this.result;
    if (missed[row.state]?.length) parts.push(`Missed: ${spans(missed[row.state])}.`);
    if (superfluous[row.state]?.length) parts.push(`Superfluous: ${spans(superfluous[row.state])}.`);
    const named = this.scene.named.filter((one) => one.state === row.state);
    if (named.length) parts.push(`Named by a person: ${spans(named)}.`);
    return parts.join(" ");
  }

  // ------------------------------------------------ where everything lies

  layout() {
    const wide = this.element.clientWidth;
    if (!wide) return;
    const { fill, picture } = this.options, narrow = wide < 640 && !fill;
    const gutter = narrow ? 0 : Math.round(fill ? clamp(wide * .24, 92, 320) : clamp(wide * .22, 150, 250));
    Object.assign(this, { narrow, gutter, axis: fill ? 27 : 30, picture: fill ? 38 : 54 });
    this.element.classList.toggle("tl-narrow", narrow);
    this.element.classList.toggle("tl-slim", Boolean(fill) && gutter < 150);
    const cropped = !picture && this.scene.thumbnails.some((one) => one.crop);
    this.strip = this.scene.thumbnails.length || picture ? this.picture + (cropped ? CROP : 0) + (fill ? 4 : 9) : 0;
    const room = this.scroller.clientHeight, small = (own) => own.list === undefined;
    if (this.pictures === "none" || (fill && room - this.strip - this.axis < Math.min(this.rows.length, 5) * (THIN + 2))) {
      this.strip = 0;
    }
    const heights = { presence: fill ? 22 : 30, gap: fill ? 2 : 7 };
    const lanes = this.labels.filter(small).reduce((sum, { key }) => sum + (heights[key] ?? 16) + heights.gap, 0);
    const free = room - this.strip - this.axis - lanes, others = this.rows.length - (this.opened === null ? 0 : 1);
    // where all rows are in sight, one that opens takes only what the others do not need
    const most = free - others * (THIN + heights.gap) - heights.gap, opened = most < THIN ? OPEN : Math.min(most, OPEN);
    const taken = this.opened === null ? 0 : opened + heights.gap;
    const share = Math.floor((free - taken) / others) - heights.gap;
    const tall = fill ? clamp(share, THIN, OPEN) : (this.rows.length > 8 ? 66 : OPEN) - (narrow ? 8 : 0);
    let y = this.strip + this.axis;
    this.lanes = [];
    for (const own of this.labels) {
      const above = narrow ? (small(own) ? 20 : 30) : 0, open = fill && own.at === this.opened && !small(own);
      const high = small(own) ? heights[own.key] ?? 16 : open ? opened : tall, thin = !small(own) && high < 58;
      const lane = { label: own, top: y + above, h: high, row: small(own) ? null : own.at, key: own.key, thin };
      const box = { top: y, height: narrow ? above : high, width: narrow ? wide : gutter };
      for (const side of Object.keys(box)) own.element.style[side] = `${box[side]}px`;
      own.element.classList.toggle("tl-thin", thin && !narrow);
      own.element.classList.toggle("tl-open", open);
      this.lanes.push(lane);
      y += above + high + (fill ? heights.gap : small(own) ? 5 : 7);
    }
    this.fitLists();
    this.scrolled();
    const content = y;
    y = fill ? Math.min(y, room) : y;
    this.high = y;
    this.foot = this.scene.comparison ? 15 : this.scene.references ? 10 : 0;  // below the windows
    this.scale = narrow ? 32 : fill && gutter < 150 ? 4 : 40;
    this.wide = Math.max(wide - gutter - this.scale, 60);
    this.body.style.height = `${content}px`;
    const left = fill ? { marginLeft: `${gutter}px` } : { left: `${gutter}px` };
    Object.assign(this.field.style, { ...left, width: `${this.wide}px`, height: `${y}px` });
    Object.assign(this.reading.style, { left: `${-gutter}px`, top: fill ? 0 : `${this.strip + 6}px`,
      width: `${gutter - 12}px`, height: fill ? `${this.strip + this.axis}px` : "" });
    this.reading.hidden = narrow;
    this.reason.style.top = `${this.strip + this.axis + 8}px`;
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.base, this.over]) {
      [canvas.width, canvas.height] = [Math.round((this.wide + this.scale) * ratio), Math.round(y * ratio)];
      Object.assign(canvas.style, { width: `${this.wide + this.scale}px`, height: `${y}px` });
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.dress();
  }

  // Where lanes lie once the rows were scrolled.
  scrolled() {
    this.scroll = this.options.fill ? this.scroller.scrollTop : 0;
    for (const lane of this.lanes) lane.y = lane.top - this.scroll;
  }

  // Whether some of a lane can be seen below the axis.
  seen({ y, h }) { return y + h > this.strip + this.axis && y < this.high; }

  // A row is high while it is open; the others are as high as the place allows.
  open(row) {
    if (!this.options.fill || this.opened === row) return;
    this.opened = row;
    this.layout();
    this.bring(row);
  }

  bring(row) {
    const lane = row !== null && this.options.fill && this.lanes.find((one) => one.row === row);
    if (!lane) return;
    const head = this.strip + this.axis, { scroller } = this;
    if (lane.y < head) scroller.scrollTop += lane.y - head;
    else if (lane.y + lane.h > this.high) scroller.scrollTop += lane.y + lane.h - this.high;
  }

  // Colours come from the style sheet, so that a theme changes them.
  dress() {
    const style = getComputedStyle(this.element), pen = this.base.getContext("2d");
    const names = ["page", "panel", "ink", "soft", "line", "gap", "edge", "doubt", "focus", "mix"];
    const plain = (colour) => { pen.fillStyle = colour.trim(); return pen.fillStyle; };  // #rrggbb
    const ink = Object.fromEntries(names.map((name) => [name, plain(style.getPropertyValue(`--tl-${name}`))]));
    this.ink = ink;
    this.hatch = { gap: stripes(pen, ink.edge, ink.gap, 7), doubt: stripes(pen, ink.page, ink.doubt, 5),
      superfluous: stripes(pen, ink.page, null, 5) };
    this.colours = this.scene.states.map((state) => plain(state.colour)).map((colour) => ({
      plain: colour, line: mixed(colour, ink.mix, .82), pale: faint(colour, .4), band: faint(colour, .17),
      text: inkOn(colour),
    }));
    this.legend?.forEach(([kind, canvas]) => this.drawKey(kind, canvas));
    this.redraw();
  }

  x(frame) { return (frame - this.a) / (this.b - this.a) * this.wide; }
  frameAt(x) { return clamp(Math.round(this.a + x / this.wide * (this.b - this.a)), this.first, this.last); }

  get all() { return this.last - this.first + 1; }
  sized(size) { return clamp(size, Math.min(MIN_FRAMES, this.all), this.all); }

  show(a, b) {
    const size = this.sized(b - a);
    this.a = clamp((a + b - size) / 2, this.first - .5, this.last + .5 - size);
    this.b = this.a + size;
    this.redraw();
    this.options.on.view?.({ first: Math.ceil(this.a), last: Math.floor(this.b) });
  }
  view(first, last) { this.show(first - .5, last + .5); }
  zoom(by, at = this.inView(this.head) ? this.head : (this.a + this.b) / 2) {
    const size = this.sized((this.b - this.a) * by), share = (at - this.a) / (this.b - this.a);
    this.show(at - share * size, at + (1 - share) * size);
  }
  pan(share) { const by = share * (this.b - this.a); this.show(this.a + by, this.b + by); }
  inView(frame) { return frame >= this.a && frame <= this.b; }
  reveal(own) {
    const size = this.b - this.a, long = own.end - own.start + 1, wide = long / size * this.wide;
    if (this.inView(own.start - .5) && this.inView(own.end + .5) && wide > 6) return;
    const room = clamp(size, 1.5 * long, 20 * long), middle = (own.start + own.end) / 2;
    this.show(middle - room / 2, middle + room / 2);
  }

  clock(kind) {
    this.options.clock = this.clocks[kind] ? kind : "frames";
    if (this.unit) this.unit.value = this.options.clock;
    this.list();
    this.redraw();
  }

  // ------------------------------------------------ drawing

  redraw() {
    if (this.waiting || !this.wide || this.gone) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = null; this.draw(); });
  }

  // Pictures come one after the other: the curves below them stay as they are.
  redrawStrip() {
    if (this.waiting || this.waitingStrip || !this.wide || this.gone) return;
    this.waitingStrip = requestAnimationFrame(() => {
      this.waitingStrip = null;
      if (this.waiting) return;
      const pen = this.base.getContext("2d");
      pen.clearRect(0, 0, this.wide + this.scale, this.strip);
      this.drawPictures(pen);
    });
  }

  draw() {
    const began = performance.now(), pen = this.base.getContext("2d");
    Curve.reads = 0;
    this.grid = null;
    pen.clearRect(0, 0, this.wide + this.scale, this.high);
    pen.font = FONT;
    pen.textBaseline = "middle";
    this.ticks = this.placedTicks();
    this.holes = this.placedGaps();
    for (const lane of this.lanes) if (this.seen(lane)) this.drawLane(pen, lane);
    pen.clearRect(0, 0, this.wide + this.scale, this.strip + this.axis);  // rows scroll below
    if (this.strip) this.drawPictures(pen);
    this.drawAxis(pen);
    this.drawChanges(pen);
    this.drawOver();
    this.placeGrips();
    const size = this.b - this.a, near = 1e-6 * this.all;
    if (this.buttons) {
      this.buttons.in.disabled = size <= this.sized(0) + near;
      this.buttons.out.disabled = this.buttons.all.disabled = size >= this.all - near;
      this.buttons.left.disabled = this.a <= this.first - .5 + near;
      this.buttons.right.disabled = this.b >= this.last + .5 - near;
      if (this.buttons.remove) this.buttons.remove.disabled = !this.selected;
    }
    this.stats = { draws: this.stats.draws + 1, ms: performance.now() - began, reads: Curve.reads };
  }

  placedTicks() {
    const kind = this.options.clock, own = this.clocks[kind], timed = kind === "seconds";
    const low = own.to(this.a), high = own.to(this.b), room = (high - low) / Math.max(2, this.wide / 86);
    const power = 10 ** Math.floor(Math.log10(Math.max(room, 1)));
    const steps = timed ? SECONDS : [1, 2, 5, 10].map((n) => n * power);
    const every = steps.find((step) => step >= room) ?? 86400 * Math.ceil(room / 86400);
    const digits = every >= 1 ? 0 : every >= .1 ? 1 : 2, made = [];
    for (let n = Math.ceil(low / every); n * every <= high && made.length < 200; n += 1) {
      const x = this.x(own.from(n * every)), text = timed ? clockText(n * every, digits) : String(n * every);
      if (x >= 0 && x <= this.wide) made.push({ x, text });
    }
    return made;
  }

  drawAxis(pen) {
    const y = this.strip;
    pen.fillStyle = this.ink.soft;
    pen.strokeStyle = this.ink.edge;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const { x, text } of this.ticks) {
      pen.textAlign = x < 24 ? "left" : x > this.wide - 24 ? "right" : "center";
      pen.fillText(text, x < 24 ? Math.max(x, 0) : Math.min(x, this.wide), y + this.axis - 19);
      pen.moveTo(Math.round(x) + .5, y + this.axis - 7);
      pen.lineTo(Math.round(x) + .5, y + this.axis - 3);
    }
    pen.moveTo(0, y + this.axis - 2.5);
    pen.lineTo(this.wide, y + this.axis - 2.5);
    pen.stroke();
  }

  // Those of the scene: as many equal places as have room, in each the one nearest to its middle.
  evenPictures(wide) {
    const each = (this.b - this.a) / Math.max(Math.floor(this.wide / wide), 1), places = new Map();
    for (const one of this.scene.thumbnails.filter(({ frame }) => this.inView(frame))) {
      const n = Math.floor((one.frame - this.first + .5) / each), middle = this.first - .5 + (n + .5) * each;
      const away = Math.abs(one.frame - middle), held = places.get(n);
      if (!held || away < held.away) places.set(n, { ...one, away, middle: this.x(middle) });
    }
    return [...places.values()];
  }

  // Pictures that are asked for lie side by side, on places that stay while one pans; others never lie over each other.
  drawPictures(pen) {
    const ask = this.options.picture, wide = Math.round(this.picture * (this.aspect || 16 / 9)) + (ask ? 0 : 4);
    this.placed = [];
    if (ask && this.pictures === "even") { this.drawFilm(pen, ask, wide); return; }
    let free = -Infinity;
    for (const own of ask ? this.intervalPictures(ask) : this.evenPictures(wide)) {
      const { frame, url, crop, colour } = own, x = this.x(frame), foot = this.strip - (colour ? 4 : 8);
      const middle = clamp(own.middle ?? x, wide / 2 - 2, this.wide - wide / 2 + 2);
      if (middle - wide < free || !this.inView(frame)) continue;
      free = middle - 1;
      this.drawPicture(pen, url, middle, 0, this.picture);
      if (crop) this.drawPicture(pen, crop, middle, this.picture + 2, CROP - 2);
      this.placed.push([middle - wide / 2, middle + wide / 2, frame]);
      pen.fillStyle = colour || this.ink.edge;
      if (colour) pen.fillRect(middle - wide / 2, foot, wide, 3);
      else { trace(pen, [x - 4, foot], [x + 4, foot], [x, foot + 5]); pen.fill(); }
    }
  }

  intervalPictures(ask) {
    const middle = ({ start, end }) => Math.round((start + end) / 2);
    return this.rows.flatMap((row) => row.windows.map((own) => ({ frame: middle(own), url: ask(middle(own)),
      colour: this.colours[row.number].plain }))).sort((one, two) => one.frame - two.frame);
  }

  // Steps grow by a quarter of an octave, so that few pictures are new after a zoom.
  drawFilm(pen, ask, wide) {
    const frames = wide * (this.b - this.a) / this.wide, step = Math.max(1, 2 ** (Math.ceil(4 * Math.log2(frames)) / 4));
    for (let n = Math.floor((this.a - this.first) / step); this.first + n * step < this.b; n += 1) {
      const frame = Math.round(this.first + (n + .5) * step - .5);
      if (frame < this.first || frame > this.last) continue;
      const left = this.x(this.first + n * step - .5), right = this.x(this.first + (n + 1) * step - .5);
      this.drawPicture(pen, ask(frame), (left + right) / 2, 0, this.picture, right - left - 1);
      this.placed.push([left, right, frame]);
    }
  }

  pictureAt(x) { return this.placed?.find(([left, right]) => x >= left && x < right)?.[2]; }

  // Where its place is narrower than the picture, the middle of it is shown.
  drawPicture(pen, url, x, y, high, place = Infinity) {
    const image = this.image(url);
    if (!image) return;
    const shape = Math.min(this.options.aspect ?? image.naturalWidth / image.naturalHeight, 2);
    const wide = Math.min(high * shape, place), part = image.naturalWidth * wide / (high * shape);
    pen.drawImage(image, (image.naturalWidth - part) / 2, 0, part, image.naturalHeight, x - wide / 2, y, wide, high);
    if (!y && !this.aspect) { this.aspect = clamp(shape, .5, 2); this.redraw(); }
  }

  image(url) {
    const known = this.images.get(url);
    if (known) return known.naturalWidth ? known : null;
    clearTimeout(this.fetching);  // not while one is still zooming
    (this.wanted ||= new Set()).add(url);
    this.fetching = setTimeout(() => {
      if (this.images.size > 400) this.images.clear();
      for (const one of this.wanted) {
        const image = new Image();
        this.images.set(one, image);
        image.addEventListener("load", () => this.redrawStrip());
        image.src = one;
      }
      this.wanted.clear();
    }, this.options.picture ? 120 : 0);
    return null;
  }

  // Stretches of pixels in which the object was not observed.
  placedGaps() {
    const { starts, ends } = this.observed, from = lower(ends, this.a), to = lower(starts, this.b), found = [];
    if (to - from > this.wide) {  // more runs than pixels: those that are unobserved for the most
      for (let x = 0; x < this.wide; x += 1) {
        const f0 = this.a + x / this.wide * (this.b - this.a), f1 = f0 + (this.b - this.a) / this.wide;
        if ((this.observed.count(f1) - this.observed.count(f0)) * 2 < f1 - f0) {
          if (found.length && found.at(-1)[1] === x) found.at(-1)[1] = x + 1; else found.push([x, x + 1]);
        }
      }
      return found;
    }
    let x = Math.max(this.x(this.first - .5), 0);
    for (let n = from; n < to; n += 1) {
      const left = this.x(starts[n] - .5);
      if (left > x) found.push([x, left]);
      x = this.x(ends[n] + .5);
    }
    const end = Math.min(this.x(this.last + .5), this.wide);
    if (end > x) found.push([x, end]);
    return found;
  }

  drawLane(pen, lane) {
    const { y, h } = lane;
    pen.save();
    pen.beginPath();
    pen.rect(0, y, this.wide, h);
    pen.clip();
    pen.fillStyle = this.ink.panel;
    pen.fillRect(0, y, this.wide, h);
    if (lane.key !== "segments") this.drawGaps(pen, y, h);
    pen.strokeStyle = this.ink.line;
    pen.lineWidth = 1;
    strokes(pen, ...this.ticks.map(({ x }) => [Math.round(x) + .5, y, Math.round(x) + .5, y + h]));
    if (lane.key === "doubts") this.drawDoubts(pen, lane);
    if (lane.key === "segments") this.drawSegments(pen, lane);
    if (lane.key === "presence") this.drawCurve(pen, this.presence, lane, this.ink.soft, faint("#808080", .4));
    if (lane.row !== null) this.drawRow(pen, lane, this.rows[lane.row]);
    pen.restore();
    const curve = lane.key === "presence" ? this.presence : lane.row !== null && this.rows[lane.row].curve;
    if (curve) this.drawScale(pen, curve, lane);
    if (lane.row === this.chosen && this.rows.length > 1 && this.focused) {
      pen.fillStyle = this.ink.focus;
      pen.fillRect(0, y, 2, h);
    }
  }

  // Striped; where stripes would not be seen, in their mean colour.
  drawGaps(pen, y, h) {
    for (const narrow of [false, true]) {
      pen.fillStyle = narrow ? mixed(this.ink.edge, this.ink.gap, .3) : this.hatch.gap;
      for (const [a, b] of this.holes) if (b - a < 5 === narrow) pen.fillRect(a, y, b - a, h);
    }
  }

  // Where the curve of a lane lies: below the bars, above what a person or a reference says.
  inner({ key, y, h, thin }) {
    if (key === "presence" || thin) return [y + 3, h - 6 - (thin ? 4 + (this.foot && 4) : 2)];
    return [y + BAR + 6, h - BAR - this.foot - 12];
  }

  // The y of a value.
  height(curve, lane) {
    const [y, h] = this.inner(lane), unit = h / Math.max(curve.high - curve.low, 1e-9);
    return (value) => y + (curve.high - value) * unit;
  }

  drawScale(pen, curve, lane) {
    const [y, h] = this.inner(lane), zero = this.height(curve, lane)(0);
    if (this.scale < 20) return;
    const marks = [[zero, "0"]];
    if (zero - y > 13) marks.push([y, signed(curve.high, 1)]);
    if (y + h - zero > 13) marks.push([y + h, signed(curve.low, 1)]);
    pen.fillStyle = this.ink.soft;
    pen.textAlign = "left";
    pen.font = FONT.replace("12px", "11px");
    for (const [at, text] of marks) pen.fillText(text, this.wide + 6, at);
    pen.font = FONT;
  }

  eachIn(windows, act) {
    for (const own of windows) {
      const start = own.start ?? own[0], end = own.end ?? own[1];
      if (end + .5 < this.a || start - .5 > this.b) continue;
      const left = this.x(start - .5), right = Math.max(this.x(end + .5), left + 1.5);
      act(own, Math.max(left, -9), Math.min(right, this.wide + 9));
    }
  }

  drawRow(pen, lane, row) {
    const { y, h, thin } = lane, ink = this.colours[row.number], foot = y + h - (thin ? this.foot && 4 : this.foot);
    const bar = thin ? 4 : BAR;  // of a thin row: a line below the curve
    const text = (own, left, right, colour) => {
      const at = Math.max(left, 0), room = Math.min(right, this.wide) - at, striped = this.superfluous(row, own).length;
      const all = striped ? [`${this.range(own)} superfluous`, this.range(own)] : [this.range(own)];
      const words = all.find((some) => pen.measureText(some).width + 10 <= room);
      if (!words) return;
      const wide = pen.measureText(words).width;
      pen.fillStyle = thin ? faint(this.ink.panel, .8) : ink.plain;
      if (thin || striped) pen.fillRect(at + 2, y + (thin ? 2 : 0), wide + 6, thin ? 12 : BAR);  // what runs through
      pen.fillStyle = colour;
      pen.textAlign = "left";
      pen.fillText(words, at + 5, y + BAR / 2 + 1);
    };
    this.eachIn(row.windows, (own, left, right) => {
      const on = this.selectedWindow === own;
      pen.lineWidth = on ? 2 : 1;
      pen.strokeStyle = on ? this.ink.ink : ink.line;
      pen.fillStyle = ink.band;
      pen.fillRect(left, y, right - left, foot - y);
      pen.globalAlpha = OPACITY[own.trust] ?? 1;
      pen.fillStyle = ink.plain;
      pen.fillRect(left, thin ? foot - bar : y, right - left, bar);
      pen.globalAlpha = 1;
      pen.fillStyle = this.hatch.superfluous;
      this.eachIn(this.superfluous(row, own), (_, from, to) => pen.fillRect(from, thin ? foot - bar : y, to - from, bar));
      if (on) pen.strokeRect(left + 1, y + 1, right - left - 2, foot - y - 2);
      else strokes(pen, [left + .5, y, left + .5, foot], [right - .5, y, right - .5, foot]);
      if (!thin) text(own, left, right, ink.text);
    });
    pen.lineWidth = 1;
    if (row.curve) this.drawCurve(pen, row.curve, lane, ink.line, ink.pale);
    if (thin) this.eachIn(row.windows, (own, left, right) => text(own, left, right, this.ink.ink));
    this.drawTrue(pen, lane, row);
    for (const own of this.scene.named) {
      if (own.state === null || own.state === row.state) this.drawNamed(pen, own, foot - 7);
    }
  }

  // The parts of a window that belong to an occurrence which matches no true one.
  superfluous(row, own) {
    const all = own.edited ? [] : this.result.superfluous[row.state] || [];
    const parts = all.map(([start, end]) => [Math.max(start, own.start), Math.min(end, own.end)]);
    return parts.filter(([start, end]) => start <= end);
  }

  // True windows below the curve; one that was missed is hollow and says so where it has room.
  drawTrue(pen, { y, h, thin }, row) {
    const missed = this.result.missed[row.state] || [], high = thin ? 3 : this.scene.comparison ? 11 : 6;
    const top = y + h - high - (thin ? 0 : 1);
    this.eachIn(this.scene.references?.[row.state] || [], ([start, end], left, right) => {
      pen.fillStyle = this.ink.ink;
      pen.fillRect(left, top, right - left, high);
      if (!missed.some(([a, b]) => start <= b && a <= end)) return;
      pen.fillStyle = this.ink.panel;
      pen.fillRect(left + 1.5, top + (thin ? 1 : 1.5), right - left - 3, high - (thin ? 2 : 3));
      pen.font = FONT.replace("12px", "10px");
      const at = Math.max(left, 0) + 5, room = Math.min(right, this.wide) - 5 - at;
      pen.fillStyle = this.ink.ink;
      pen.textAlign = "left";
      if (!thin && pen.measureText("missed").width < room) pen.fillText("missed", at, top + high / 2 + .5);
      pen.font = FONT;
    });
  }

  // A diamond for a state, a cross for none of them; a bar where it is a stretch.
  drawNamed(pen, own, y) {
    this.eachIn([own], (_, left, right) => {
      const x = (left + right) / 2;
      pen.lineWidth = 2;
      pen.strokeStyle = pen.fillStyle = own.state === null ? this.ink.soft : this.ink.ink;
      if (right - left > 10) pen.fillRect(left, y - 1.5, right - left, 3);
      (own.state === null ? cross : diamond)(pen, x, y);
    });
  }

  drawCurve(pen, curve, lane, colour, pale) {
    const at = this.height(curve, lane);
    pen.strokeStyle = this.ink.edge;
    pen.setLineDash([2, 3]);
    strokes(pen, [0, at(0), this.wide, at(0)]);
    pen.setLineDash([]);
    pen.strokeStyle = colour;
    pen.lineWidth = 1.6;
    pen.lineJoin = "bevel";
    const each = (this.b - this.a) / this.wide;
    if (each > 1.5 * curve.step || curve.thin) this.drawDense(pen, curve, at, pale, Math.max(each, curve.step));
    else this.drawPoints(pen, curve, at);
    pen.lineWidth = 1;
  }

  // Pale: the least and the greatest value of each pixel; dark: the mean. Pixels lie on a grid of
  // frames, so that nothing flickers while one pans.
  drawDense(pen, curve, at, pale, each) {
    const places = this.places(curve, each), first = Math.floor(this.a / each), means = new Polyline(pen);
    pen.fillStyle = pale;
    for (let n = 0; n < places.length - 1; n += 1) {
      const from = places[n], to = places[n + 1];
      if (from >= to || !curve.extremes(from, to)) { means.end(); continue; }
      const left = this.x((first + n) * each), right = this.x((first + n + 1) * each), top = at(curve.greatest);
      const x = Math.round(left), wide = Math.max(Math.round(right) - x, 1);
      pen.fillRect(x, top, wide, Math.max(at(curve.least) - top, .5));
      means.to((left + right) / 2, at(curve.mean(from, to)));
    }
    means.end();
  }

  // The place of a curve at each line of the grid; the same for all curves that are not thinned.
  places(curve, each) {
    if (!curve.thin && this.grid?.each === each) return this.grid.places;
    const first = Math.floor(this.a / each), count = Math.ceil(this.b / each) - first;
    const places = Int32Array.from({ length: count + 1 }, (_, n) => curve.place((first + n) * each));
    if (!curve.thin) this.grid = { each, places };
    return places;
  }

  drawPoints(pen, curve, at) {
    const values = curve.levels[0][0], from = Math.max(curve.place(this.a) - 1, 0);
    const to = Math.min(curve.place(this.b) + 1, values.length);
    const dots = this.wide / (this.b - this.a) > 12;
    const line = new Polyline(pen, dots);
    let before = NaN;
    for (let n = from; n < to; n += 1) {
      const frame = curve.frame(n);
      if (frame - before !== 1) line.end();
      line.to(this.x(frame), at(values[n]));
      before = frame;
    }
    Curve.reads += Math.max(to - from, 0);
    line.end();
  }

  drawDoubts(pen, { y, h }) {
    this.eachIn(this.scene.doubts, (own, left, right) => {
      pen.fillStyle = this.hatch.doubt;
      pen.fillRect(left, y + 2, right - left, h - 4);
      if (right - left < 14) return;
      pen.fillStyle = this.ink.page;
      pen.fillRect((left + right) / 2 - 5, y + 2, 10, h - 4);
      pen.fillStyle = this.ink.doubt;
      pen.textAlign = "center";
      pen.fillText("!", (left + right) / 2, y + h / 2 + 1);
    });
  }

  drawSegments(pen, { y, h }) {
    const all = this.scene.segments, from = lower(this.segmentEnds, this.a);
    for (let n = from; n < all.length && all[n][0] - .5 < this.b; n += 1) {
      const left = this.x(all[n][0] - .5), right = this.x(all[n][1] + .5);
      pen.fillStyle = n % 2 ? this.ink.edge : this.ink.soft;
      pen.globalAlpha = n % 2 ? .35 : .7;
      pen.fillRect(left + .5, y + 3, Math.max(right - left - 1, 1), h - 6);
    }
    pen.globalAlpha = 1;
  }

  drawChanges(pen) {
    const top = this.strip + this.axis;
    pen.strokeStyle = pen.fillStyle = this.ink.ink;
    for (const frame of this.scene.changes) {
      if (!this.inView(frame)) continue;
      const x = Math.round(this.x(frame - .5)) + .5;
      pen.setLineDash([5, 3]);
      this.drawDown(pen, x);
      pen.setLineDash([]);
      pen.fillRect(x - 3, top - 9, 6, 6);
    }
    for (const { frame } of this.scene.questions || []) {
      if (this.inView(frame)) question(pen, this.x(frame), top - 10, this.ink, 8);
    }
  }

  drawKey(kind, canvas) {
    const ratio = window.devicePixelRatio || 1, pen = canvas.getContext("2d"), c = "#0072B2";
    [canvas.width, canvas.height] = [24 * ratio, 12 * ratio];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const fill = (style) => { pen.fillStyle = style; pen.fillRect(1, 1, 22, 10); };
    const ink = (colour) => { pen.strokeStyle = pen.fillStyle = colour; pen.lineWidth = 2; };
    const keys = {
      found: () => fill(c), unsure: () => fill(faint(c, OPACITY.unsure)),
      "a guess": () => fill(faint(c, OPACITY["a guess"])), gap: () => fill(this.hatch.gap), doubt: () => fill(this.hatch.doubt),
      reference: () => { ink(this.ink.ink); pen.fillRect(1, 4, 22, 5); },
      missed: () => { ink(this.ink.ink); pen.lineWidth = 1.5; pen.strokeRect(1.75, 2.75, 20.5, 6.5); },
      superfluous: () => { fill(c); fill(this.hatch.superfluous); },
      named: () => { ink(this.ink.ink); diamond(pen, 12, 6); },
      none: () => { ink(this.ink.soft); cross(pen, 12, 6); },
      change: () => { ink(this.ink.ink); pen.fillRect(9, 0, 6, 6); pen.lineWidth = 1; strokes(pen, [12, 5, 12, 12]); },
      question: () => { pen.font = FONT.replace("12px", "10px"); question(pen, 12, 6, this.ink, 6); },
    };
    keys[kind]();
  }

  // The playhead and what the pointer reads; the rest is not drawn again for them.
  drawOver() {
    const pen = this.over.getContext("2d"), top = this.strip;
    pen.clearRect(0, 0, this.wide + this.scale, this.high);
    if (this.hover !== null && this.hover !== undefined && this.inView(this.hover)) {
      const x = Math.round(this.x(this.hover)) + .5;
      pen.strokeStyle = this.ink.soft;
      this.drawDown(pen, x);
      for (const lane of this.lanes) if (this.seen(lane)) this.drawDot(pen, lane, x);
      if (this.narrow || this.options.fill) this.drawReading(pen, x, top);
    }
    if (this.inView(this.head)) {
      const x = Math.round(this.x(this.head)) + .5;
      pen.fillStyle = pen.strokeStyle = this.ink.ink;
      pen.lineWidth = 1.5;
      this.drawDown(pen, x);
      pen.beginPath();
      [[x - 6, top + this.axis - 13], [x + 6, top + this.axis - 13], [x + 6, top + this.axis - 8], [x, top + this.axis - 1],
        [x - 6, top + this.axis - 8]].forEach((point) => pen.lineTo(...point));
      pen.fill();
      pen.lineWidth = 1;
    }
    this.read();
  }

  // A line down through all lanes; where labels stand between them, not through those.
  drawDown(pen, x) {
    pen.beginPath();
    if (!this.narrow) { pen.moveTo(x, this.strip + this.axis - 3); pen.lineTo(x, this.high - 5); }
    else for (const { y, h } of this.lanes) { pen.moveTo(x, y); pen.lineTo(x, y + h); }
    pen.stroke();
  }

  drawDot(pen, lane, x) {
    const curve = lane.label.curve, value = curve && this.valueAt(curve, this.hover);
    if (!curve || Number.isNaN(value)) return;
    pen.beginPath();
    pen.arc(x, this.height(curve, lane)(value), 3, 0, 7);
    pen.fillStyle = this.ink.page;
    pen.fill();
    pen.stroke();
  }

  drawReading(pen, x, top) {
    pen.font = FONT;
    const words = this.words(this.hover), wide = pen.measureText(words).width + 12;
    const left = clamp(x - wide / 2, 0, this.wide + this.scale - wide);
    pen.fillStyle = this.ink.ink;
    pen.fillRect(left, top + 1, wide, 20);
    pen.fillStyle = this.ink.page;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillText(words, left + 6, top + 12);
  }

  valueAt(curve, frame) { return curve.thin || this.observed.has(frame) ? curve.at(frame) : NaN; }

  words(frame) {
    const parts = [`frame ${frame}`];
    if (this.clocks.seconds) parts.push(clockText(this.clocks.seconds.to(frame), 2));
    if (this.clocks.source) parts.push(`file ${Math.round(this.clocks.source.to(frame))}`);
    if (!this.observed.has(frame)) parts.push("not observed");
    return parts.join(" · ");
  }

  doubtAt(frame) { return this.scene.doubts.find((one) => one.start <= frame && frame <= one.end); }

  // Numbers under the pointer or, where there is none or a player shows another frame, at the playhead.
  read() {
    const looked = this.hover ?? this.head, frame = this.options.fill ? this.head : looked, words = this.words(frame);
    if (looked !== this.looked) this.options.on.look?.(looked);
    this.looked = looked;
    this.reading.textContent = words;
    for (const { value, curve, key } of this.labels) {
      if (curve) {
        const own = this.valueAt(curve, frame);
        value.textContent = Number.isNaN(own) ? "" : signed(own);
      } else if (key === "doubts") {
        value.textContent = this.doubtAt(frame) ? "!" : "";
      }
    }
    const said = this.labels.filter((label) => label.list && label.curve)
      .map((label) => [this.rows[label.at].state, this.valueAt(label.curve, this.head)])
      .filter(([, value]) => !Number.isNaN(value)).map(([state, value]) => `${state} ${signed(value)}`);
    attributes(this.plot, {
      "aria-valuemin": this.first, "aria-valuemax": this.last, "aria-valuenow": this.head,
      "aria-valuetext": [this.words(this.head), ...said.slice(0, 6)].join(", "),
    });
  }

  // ------------------------------------------------ playhead, selection, editing

  playhead(frame, follow = false) {
    this.head = clamp(Math.round(frame), this.first, this.last);
    if (follow && !this.inView(this.head)) {
      const size = this.b - this.a;
      this.show(this.head - .1 * size, this.head + .9 * size);
    } else this.redrawOver();
  }

  redrawOver() {
    if (this.waiting || this.waitingOver || !this.wide || this.gone) return;
    this.waitingOver = requestAnimationFrame(() => { this.waitingOver = null; this.drawOver(); });
  }

  seek(frame) {
    this.playhead(frame, true);
    this.options.on.seek?.(this.head);
  }

  say(words) { this.live.textContent = words; }

  // {row, index} or {state, index}; null selects nothing.
  select(wanted, quiet = false) {
    const row = wanted && (wanted.row ?? this.rows.findIndex((one) => one.state === wanted.state));
    const own = wanted && this.rows[row]?.windows[wanted.index ?? 0];
    this.selected = own ? { row, index: wanted.index ?? 0 } : null;
    if (own) this.chosen = row;
    if (own && !this.drag) this.open(row);
    this.list();
    this.redraw();
    if (quiet) return;
    if (own) this.say(this.saidWindow(this.rows[row], own));
    this.options.on.select?.(own ? this.told(this.selected) : null);
  }

  told({ row, index }, more) {
    const own = this.rows[row], { start, end } = own.windows[index];
    return { state: own.state, description: own.description, row, index, start, end, ...more };
  }

  // The frames that a window of a row may take, up to its neighbours.
  limits(row, index) {
    const own = this.rows[row].windows[index];
    let low = this.first, high = this.last;
    this.rows[row].windows.forEach((other, n) => {
      if (n === index) return;
      if (other.end < own.start) low = Math.max(low, other.end + 1);
      if (other.start > own.end) high = Math.min(high, other.start - 1);
    });
    return [low, high];
  }

  change(at, start, end, kind, done) {
    const own = this.rows[at.row].windows[at.index];
    if (!done && own.start === start && own.end === end) return;
    Object.assign(own, { start, end, edited: true });
    if (done) {
      this.list();
      this.say(this.saidWindow(this.rows[at.row], own));
    }
    this.redraw();
    this.options.on.change?.(this.told(at, { kind, done }));
  }

  remove(at = this.selected) {
    if (!at || !this.options.editable) return;
    const told = this.told(at, { kind: "delete", done: true });
    this.rows[at.row].windows.splice(at.index, 1);
    this.select(null, true);
    this.say(`deleted ${told.state}: frames ${told.start} to ${told.end}`);
    this.options.on.change?.(told);
    this.options.on.select?.(null);
    this.plot.focus({ preventScroll: true });
  }

  // Where an edge may snap to: other windows, segments, runs, changes, the playhead.
  targets(edge, except) {
    const starts = [this.head], ends = [this.head];
    const take = (start, end) => { starts.push(start); ends.push(end); };
    const beside = (own) => { take(own.start, own.end); take(own.end + 1, own.start - 1); };
    this.rows.forEach((row, n) => row.windows.forEach((own, k) => {
      if (!(n === except.row && k === except.index)) beside(own);
    }));
    for (const [start, end] of [...(this.scene.segments || []), ...this.scene.observed]) {
      if (end + 1 >= this.a && start - 1 <= this.b) take(start, end);
    }
    for (const frame of this.scene.changes) take(frame, frame - 1);
    return edge === "start" ? starts : ends;
  }

  snapped(frame, edge, drag) {
    if (drag.free) return frame;
    const near = (drag[edge] ||= this.targets(edge, drag.at));
    const room = SNAP_PX * (this.b - this.a) / this.wide;
    const nearer = (one, two) => (Math.abs(two - frame) < Math.abs(one - frame) ? two : one);
    const best = near.reduce(nearer, Infinity);
    return Math.abs(best - frame) <= room ? best : frame;
  }

  madeGrip(edge) {
    const grip = make("div", "tl-grip", this.field);
    attributes(grip, { role: "slider", tabindex: 0, "aria-orientation": "horizontal" });
    grip.dataset.edge = edge;
    grip.hidden = true;
    grip.addEventListener("keydown", (event) => this.gripKey(event, edge));
    return grip;
  }

  gripKey(event, edge) {
    const [low, high] = this.limits(this.selected.row, this.selected.index), by = event.shiftKey ? 10 : 1;
    const { start, end } = this.selectedWindow;
    const [now, least, most] = edge === "start" ? [start, low, end] : [end, start, high];
    const back = now - by, on = now + by;
    const keys = { ArrowLeft: back, ArrowDown: back, ArrowRight: on, ArrowUp: on, Home: least, End: most };
    const to = keys[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const moved = { start, end, [edge]: clamp(to, least, most) };
    this.change(this.selected, moved.start, moved.end, edge, true);
    this.seek(moved[edge]);
  }

  isSelected(row, index) { return this.selected?.row === row && this.selected.index === index; }
  get selectedWindow() { return this.selected && this.rows[this.selected.row].windows[this.selected.index]; }

  placeGrips() {
    const own = this.selectedWindow, lane = own && this.lanes.find((one) => one.row === this.selected.row);
    this.grips.forEach((grip) => {
      const edge = grip.dataset.edge, frame = own && (edge === "start" ? own.start - .5 : own.end + .5);
      const seen = own && this.options.editable && this.inView(frame) && this.seen(lane);
      if (!seen && document.activeElement === grip) this.plot.focus({ preventScroll: true });
      grip.hidden = !seen;
      if (!seen) return;
      const [low, high] = this.limits(this.selected.row, this.selected.index);
      attributes(grip, {
        "aria-valuemin": edge === "start" ? low : own.start, "aria-valuemax": edge === "start" ? own.end : high,
        "aria-valuenow": own[edge], "aria-valuetext": this.words(own[edge]),
        "aria-label": `${edge} of ${this.rows[this.selected.row].state}`,
      });
      const top = Math.max(lane.y, this.strip + this.axis);
      const box = { left: this.x(frame), top, height: lane.y + lane.h - this.foot - top };
      for (const side of Object.keys(box)) grip.style[side] = `${box[side]}px`;
    });
  }

  // ------------------------------------------------ pointer

  listen() {
    this.off = new AbortController();
    const signal = this.off.signal;
    const on = (target, name, act, more) => target.addEventListener(name, act, { signal, ...more });
    on(this.scroller, "scroll", () => { this.scrolled(); this.redraw(); });
    on(this.field, "pointerdown", (event) => { if (event.target !== this.reading) this.down(event); });
    on(this.field, "pointermove", (event) => this.moved(event));
    on(this.field, "pointerup", (event) => this.up(event));
    on(this.field, "pointercancel", (event) => { this.pointers.delete(event.pointerId); this.undo(); });
    on(this.field, "pointerleave", () => { if (!this.drag) { this.hover = null; this.redrawOver(); } });
    on(this.field, "dblclick", (event) => this.double(event));
    on(this.field, "wheel", (event) => this.wheel(event), { passive: false });
    on(this.field, "keydown", (event) => this.key(event));
    on(this.element, "focusin", () => { this.focused = true; this.redraw(); });
    on(this.element, "focusout", () => { this.focused = false; this.redraw(); });
    on(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.dress());
    on(window, "beforeprint", () => { this.layout(); this.draw(); });  // paper waits for no frame
    this.themes = new MutationObserver(() => this.dress());
    const watched = { attributeFilter: ["data-theme", "data-jp-theme-light"] };
    for (const root of [document.documentElement, document.body]) this.themes.observe(root, watched);
    this.sizes = new ResizeObserver(() => {
      const size = `${this.element.clientWidth} ${this.options.fill ? this.scroller.clientHeight : ""}`;
      if (size === this.before) return;
      this.before = size;
      this.layout();
    });
    for (const part of [this.element, this.scroller]) this.sizes.observe(part);
  }

  where(event) {
    const box = this.plot.getBoundingClientRect();
    return { x: clamp(event.clientX - box.left, 0, this.wide), y: event.clientY - box.top };
  }

  // What lies under a point: the axis, the playhead, an edge or the bar of a window, a row.
  hit({ x, y }, touch) {
    const top = this.strip;
    const beside = Math.abs(x - this.x(this.head)) < (touch ? 16 : 8);
    if (y < top + this.axis) return { on: y > top && beside ? "head" : "axis" };
    const lane = this.lanes.find((one) => y >= one.y && y < one.y + one.h), row = lane?.row ?? null;
    if (row === null) return { on: "lane", key: lane?.key };
    const near = touch ? 14 : 6, windows = this.rows[row].windows;
    let best = null;
    windows.forEach((own, index) => {
      const left = this.x(own.start - .5), right = Math.max(this.x(own.end + .5), left + 1.5);
      const mine = this.isSelected(row, index), inside = x >= left && x <= right, at = { row, index };
      const free = this.options.editable, [from, to] = [Math.abs(x - left), Math.abs(x - right)];
      const gap = Math.min(from, to), fits = right - left > 3 * near || !inside;  // a short one can be moved
      if (free && (!touch || mine) && fits && gap <= Math.min(near, best?.gap ?? near)) {
        best = { on: from < to ? "start" : "end", at, gap };
      } else if (inside && !best) {
        const moves = free && (mine || (y < lane.y + BAR && !touch));
        best = { on: moves ? "move" : "window", at, gap: Infinity };
      }
    });
    return best || { on: "row", at: { row, index: -1 } };
  }

  down(event) {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    const point = this.where(event), touch = event.pointerType === "touch";
    this.pointers.set(event.pointerId, point);
    this.field.setPointerCapture(event.pointerId);
    if (this.pointers.size === 2) {
      this.undo();
      this.pinch = this.fingers();
      return;
    }
    const grip = event.target.dataset?.edge;
    const hit = grip ? { on: grip, at: this.selected } : this.hit(point, touch);
    if (!grip) this.plot.focus({ preventScroll: true });
    const own = hit.at && this.rows[hit.at.row].windows[hit.at.index];
    this.drag = {
      ...hit, from: point, frame: this.frameAt(point.x), a: this.a, b: this.b,
      before: own && { ...own }, far: false, free: event.altKey,
    };
    if (hit.at) this.chosen = hit.at.row;
  }

  fingers() {
    const [one, two] = [...this.pointers.values()];
    const apart = Math.max(Math.hypot(one.x - two.x, one.y - two.y), 10);
    return { middle: (one.x + two.x) / 2, apart, a: this.a, b: this.b };
  }

  moved(event) {
    const point = this.where(event), touch = event.pointerType === "touch";
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, point);
    if (this.pinch && this.pointers.size === 2) {
      const now = this.fingers(), size = (this.pinch.b - this.pinch.a) * this.pinch.apart / now.apart;
      const held = this.pinch.a + this.pinch.middle / this.wide * (this.pinch.b - this.pinch.a);
      this.show(held - now.middle / this.wide * size, held + (1 - now.middle / this.wide) * size);
      return;
    }
    this.hover = (point.y < this.strip && this.pictureAt(point.x)) || this.frameAt(point.x);
    if (this.drag) {
      this.drag.far ||= Math.abs(point.x - this.drag.from.x) > DRAG_PX;
      this.drag.free = event.altKey;
      if (this.drag.far) this.dragTo(point);
    } else {
      const { on, key } = this.hit(point, touch), doubt = key === "doubts" && this.doubtAt(this.hover);
      this.plot.title = doubt ? doubt.text : "";
      this.field.style.cursor = CURSORS[on] || "crosshair";
    }
    this.redrawOver();
  }

  dragTo(point) {
    const drag = this.drag, frame = this.frameAt(point.x);
    if (drag.on === "head") this.seek(frame);
    else if (["axis", "lane", "row", "window"].includes(drag.on)) {
      const by = (drag.from.x - point.x) / this.wide * (drag.b - drag.a);
      this.field.style.cursor = "grabbing";
      this.show(drag.a + by, drag.b + by);
    } else this.dragWindow(Math.round((point.x - drag.from.x) / this.wide * (this.b - this.a)));
  }

  dragWindow(by) {
    const drag = this.drag, { on, at, before: { start, end } } = drag;
    const [low, high] = drag.limits ||= this.limits(at.row, at.index);
    if (!this.isSelected(at.row, at.index)) this.select(at, true);
    const from = this.snapped(start + by, "start", drag), to = this.snapped(end + by, "end", drag);
    if (on === "start") this.change(at, clamp(from, low, end), end, on, false);
    else if (on === "end") this.change(at, start, clamp(to, start, high), on, false);
    else {
      const shift = clamp(from - start !== by ? from - start : to - end, low - start, high - end);
      this.change(at, start + shift, end + shift, on, false);
    }
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    if (this.pinch) {
      if (this.pointers.size === 0) this.pinch = null;
      return;
    }
    const drag = this.drag;
    this.drag = null;
    if (!drag) return;
    if (!drag.far) {
      if (drag.at && drag.at.index >= 0) this.select(drag.at);
      else if (drag.on === "row") this.select(null);
      this.seek(drag.frame);
    } else if (["start", "end", "move"].includes(drag.on)) {
      const own = this.rows[drag.at.row].windows[drag.at.index];
      this.change(drag.at, own.start, own.end, drag.on, true);
      this.open(drag.at.row);
    }
    if (event.pointerType === "touch") { this.hover = null; this.redrawOver(); }
  }

  // A drag that ends otherwise leaves everything as it was.
  undo() {
    const drag = this.drag;
    this.drag = null;
    if (!drag?.far) return false;
    if (drag.before) {
      Object.assign(this.rows[drag.at.row].windows[drag.at.index], { edited: undefined }, drag.before);
      this.list();
      this.redraw();
      this.options.on.change?.(this.told(drag.at, { kind: drag.on, done: true }));
    } else this.show(drag.a, drag.b);
    return true;
  }

  double(event) {
    const hit = this.hit(this.where(event), false), own = hit.at && this.rows[hit.at.row].windows[hit.at.index];
    if (own) {
      const room = Math.max((own.end - own.start + 1) * .25, 4);
      this.show(own.start - .5 - room, own.end + .5 + room);
    } else if (this.b - this.a < .98 * (this.last - this.first + 1)) this.view(this.first, this.last);
    else this.zoom(.25, this.frameAt(this.where(event).x));
  }

  wheel(event) {
    const unit = event.deltaMode ? 16 : 1, at = this.a + this.where(event).x / this.wide * (this.b - this.a);
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const scrolls = this.scroller.scrollHeight > this.scroller.clientHeight;  // rows do, as in a list
    const zooms = event.ctrlKey || (!scrolls && (this.options.wheel === "always" || this.focused));
    if (!sideways && !zooms) return;  // the page scrolls
    event.preventDefault();
    if (sideways) this.pan((event.deltaX || event.deltaY) * unit / this.wide);
    else this.zoom(clamp(1.0018 ** (event.deltaY * unit * (event.ctrlKey ? 4 : 1)), .2, 5), at);
  }

  // ------------------------------------------------ keyboard

  get keys() {
    return [...KEYS, ...(this.options.editable ? EDIT_KEYS : []), ...(this.options.on.mark ? MARK_KEYS : [])];
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = this.action(event.key, event.shiftKey ? 10 : 1);
    if (!act) return;
    event.preventDefault();
    act();
  }

  action(key, by) {
    const mark = this.options.on.mark, frame = this.head, state = this.scene.states[key - 1]?.name;
    if (mark && /^[1-9]$/.test(key) && state !== undefined) return () => mark({ kind: "state", state, frame });
    const marks = mark && {
      x: () => mark({ kind: "none", state: null, frame }),
      c: () => mark({ kind: "change", state: null, frame }),
    };
    const adds = this.options.editable && { a: () => this.addHere() };
    const edits = this.options.editable && this.selected && {
      s: () => this.moveEdge("start"), e: () => this.moveEdge("end"),
      Delete: () => this.remove(), Backspace: () => this.remove(),
    };
    return {
      ArrowLeft: () => this.seek(this.head - by), ArrowRight: () => this.seek(this.head + by),
      Home: () => this.seek(this.first), End: () => this.seek(this.last),
      "[": () => this.jump(-1), ",": () => this.jump(-1), "]": () => this.jump(1), ".": () => this.jump(1),
      "+": () => this.zoom(.5), "=": () => this.zoom(.5), "-": () => this.zoom(2), "−": () => this.zoom(2),
      0: () => this.view(this.first, this.last), PageUp: () => this.pan(-.8), PageDown: () => this.pan(.8),
      ArrowUp: () => this.choose(-1), ArrowDown: () => this.choose(1),
      n: () => this.next(1), p: () => this.next(-1),
      Escape: () => this.undo() || (this.open(null), this.select(null)), ...marks, ...adds, ...edits,
    }[key];
  }

  // To the playhead, as far as the other edge and the neighbours allow.
  moveEdge(edge) {
    const { start, end } = this.selectedWindow, [low, high] = this.limits(this.selected.row, this.selected.index);
    if (edge === "start") this.change(this.selected, clamp(this.head, low, end), end, edge, true);
    else this.change(this.selected, start, clamp(this.head, start, high), edge, true);
  }

  addHere() {
    const row = this.chosen, windows = this.rows[row]?.windows, frame = this.head;
    if (!windows || windows.some((own) => own.start <= frame && frame <= own.end)) return;
    windows.push({ start: frame, end: frame, score: null, trust: null, edited: true });
    this.select({ row, index: windows.length - 1 }, true);
    this.change(this.selected, frame, frame, "create", true);
  }

  choose(by) {
    if (!this.rows.length) return;
    this.chosen = clamp(this.chosen + by, 0, this.rows.length - 1);
    this.say(this.spoken(this.rows[this.chosen]));
    this.open(this.chosen);
    this.redraw();
  }

  // To the next edge of any window.
  jump(by) {
    const away = this.rows.flatMap((row) => row.windows).flatMap((own) => [own.start, own.end]).map((frame) => (frame - this.head) * by);
    const least = away.reduce((one, two) => (two > 0 && two < one ? two : one), Infinity);
    if (least < Infinity) this.seek(this.head + least * by);
  }

  // Windows in the order of their rows, then of their frames.
  next(by) {
    const listed = (row, n) => row.windows.map((own, index) => ({ row: n, index, start: own.start }));
    const all = this.rows.flatMap(listed).sort((one, two) => one.row - two.row || one.start - two.start);
    if (!all.length) return;
    const held = all.findIndex((one) => this.isSelected(one.row, one.index)), now = held < 0 && by < 0 ? 0 : held;
    const then = all[(now + by + all.length) % all.length];
    this.select(then);
    this.reveal(this.selectedWindow);
    this.seek(this.selectedWindow.start);
  }

  destroy() {
    this.gone = true;
    this.off.abort();
    this.themes.disconnect();
    this.sizes.disconnect();
    clearTimeout(this.fetching);
    cancelAnimationFrame(this.waiting);
    cancelAnimationFrame(this.waitingStrip);
    cancelAnimationFrame(this.waitingOver);
    this.element.remove();
  }
}

// Draws a scene in an element. options:
//   editable   windows can be dragged, resized, added by key and deleted
//   clock      "frames", "seconds" or "source"; segments: shown from the start
//   wheel      "always" zooms, "focus" only once the timeline has the focus (or with Ctrl)
//   toolbar    false: no legend and no buttons
//   picture    (frame) → address of its picture, instead of the thumbnails of the scene; aspect: width by height
//   fill       as high as the element: rows are thin, open when selected, and scroll below the axis; the numbers
//              beside them are those of the playhead
//   on         seek(frame), look(frame under the pointer or, without one, at the playhead),
//              view({first, last}), select(window or null), mark({kind, state, frame}),
//              change({state, description, row, index, start, end, kind, done})
export function timeline(element, scene, options = {}) {
  const own = new Timeline(element, scene, options);
  return {
    element: own.element,
    update: (next) => own.update(next),
    playhead: (frame, follow) => own.playhead(frame, follow),
    select: (wanted) => own.select(wanted, true),
    view: (first, last) => own.view(first, last),
    clock: (kind) => own.clock(kind),
    knows: (key) => Boolean(own.action(key, 1)),
    press: (key, by = 1) => own.action(key, by)?.(),
    destroy: () => own.destroy(),
    get keys() { return own.keys; },
    get stats() { return own.stats; },
    get shown() {
      const selected = own.selected && own.told(own.selected);
      return { first: own.a + .5, last: own.b - .5, playhead: own.head, selected };
    },
    get windows() {
      return own.rows.map(({ state, description, windows }) => {
        return { state, description, windows: windows.map((one) => [one.start, one.end]) };
      });
    },
  };
}

// In a notebook: the model has scene, options, frame, selection and windows.
function render({ model, el }) {
  const tell = (name, value) => { model.set(name, value); model.save_changes(); };
  const own = timeline(el, model.get("scene"), {
    ...model.get("options"), wheel: "focus",
    on: {
      seek: (frame) => tell("frame", frame), select: (window) => tell("selection", window),
      change: ({ done }) => { if (done) tell("windows", own.windows); },
    },
  });
  const heard = {
    "change:frame": () => {
      if (own.shown.playhead !== model.get("frame")) own.playhead(model.get("frame"), true);
    },
    "change:scene": () => own.update(model.get("scene")),
    "change:selection": () => own.select(model.get("selection")),
  };
  for (const [name, act] of Object.entries(heard)) model.on(name, act);
  return () => {
    for (const [name, act] of Object.entries(heard)) model.off(name, act);
    own.destroy();
  };
}

export default { render };
