// Labels of frames: one for each frame from the first on, an index of a list of names or −1.

export function fromRuns({ frames: [first, last], runs, labels }) {
  const values = new Int16Array(last - first + 1).fill(-1);
  for (const run of runs) values.fill(labels.indexOf(run.label), run.start - first, run.end - first + 1);
  return values;
}

// [{start, end, label}] over all frames; null: not labelled yet
export function toRuns(values, first, labels) {
  const runs = [];
  for (let n = 0; n < values.length; n += 1) {
    if (n && values[n] === values[n - 1]) runs.at(-1).end = first + n;
    else runs.push({ start: first + n, end: first + n, label: labels[values[n]] ?? null });
  }
  return runs;
}

export function filled(values, first, start, end, label) {
  const changed = Int16Array.from(values);
  changed.fill(label, start - first, end - first + 1);
  return changed;
}

// A span of a label was dragged from one place to another: frames that it left are not labelled.
export function moved(values, first, label, before, after) {
  const changed = Int16Array.from(values);
  if (before) {
    for (let n = before.start - first; n <= before.end - first; n += 1) if (changed[n] === label) changed[n] = -1;
  }
  if (after) changed.fill(label, after.start - first, after.end - first + 1);
  return changed;
}

// The next frame without a label, from here on and then from the start; null: there is none.
export function nextOpen(values, first, frame) {
  const here = frame - first;
  for (let n = 1; n <= values.length; n += 1) {
    const at = (here + n) % values.length;
    if (values[at] === -1) return first + at;
  }
  return null;
}

const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"],
  GREYS = { none: "#999999", transition: "#999999", unobserved: "#666666" };
export const colourOf = (label, n) => GREYS[label] || COLOURS[n % COLOURS.length];
export const inkOn = (colour) => (["#0072B2", "#666666"].includes(colour) ? "#fff" : "#000");

// A scene of the timeline: a row for each label.
export function labelScene(id, values, [first, last], labels) {
  const runs = toRuns(values, first, labels);
  return {
    schema: "dejacue.scene/1", id, object: null, axis: { first, last }, observed: [[first, last]],
    states: labels.map((name, n) => ({ name, colour: colourOf(name, n), descriptions: [] })),
    rows: labels.map((state) => ({ state,
      windows: runs.filter((run) => run.label === state).map(({ start, end }) => ({ start, end })) })),
  };
}
