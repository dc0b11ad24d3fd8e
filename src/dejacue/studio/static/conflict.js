// Somebody else has saved the same thing: both versions, and a way to keep either or to merge them.

import { without } from "./marks.js";
import { Dialog, html } from "./ui.js";

export const equal = (value, other) => JSON.stringify(value) === JSON.stringify(other);

// Of two versions of what was `base`: the one that changed, and mine where both did.
const changed = (base, mine, theirs) => (equal(mine, base) ? theirs : mine);

// All that either added, without what either removed.
function mergeSets(base, mine, theirs) {
  const has = (values, value) => values.some((other) => equal(other, value));
  return [theirs.filter((value) => has(mine, value) || !has(base, value)),
    mine.filter((value) => !has(theirs, value) && !has(base, value))];
}

// Frames that both name are as I named them.
export function mergeExamples(base, mine, theirs) {
  const [kept, added] = mergeSets(base, mine, theirs);
  return added.reduce((all, mark) => [...(mark.source ? all : without(all, mark.start, mark.end)), mark], kept);
}

// Words merge by state: descriptions that either wrote.
export function mergeWords(base, mine, theirs) {
  const textOf = (words, name) => words.states.find((state) => state.name === name)?.text;
  const states = [...theirs.states, ...mine.states.filter(({ name }) => textOf(theirs, name) === undefined)
    .map((state) => ({ ...state, key: Math.random() }))]  // theirs may have the same key
    .flatMap((state) => {
      const before = textOf(base, state.name), my = textOf(mine, state.name), their = textOf(theirs, state.name);
      if (my === undefined || their === undefined) {  // one does not have it: removed there, or added here
        return (my ?? their) === before ? [] : [state];
      }
      const both = my !== before && their !== before;
      return [{ ...state, text: both ? [...new Set([...my.split("\n"), ...their.split("\n")])].join("\n")
        : changed(before, my, their) }];
    });
  const [here, new_] = mergeSets(base.changes, mine.changes, theirs.changes);
  const examples = mergeExamples(base.examples, mine.examples, theirs.examples)
    .filter(({ state }) => state === null || states.some(({ name }) => name === state));
  return { ...theirs, states, examples, changes: [...here, ...new_].sort((a, b) => a - b),
    object: changed(base.object, mine.object, theirs.object), readout: mine.readout, coordinates: mine.coordinates,
    top: mine.top };
}

const frames = ({ start, end, source }) => source ?? (start === end ? `frame ${start}` : `frames ${start} – ${end}`);

export const linesOfWords = ({ object, states, examples = [], changes = [] }, settings = {}) => [
  ...(object ? [`object: ${object}`] : []),
  ...states.map(({ name, text }) => `${name}: ${text.split("\n").filter((line) => line.trim()).join("; ")}`),
  ...examples.map((mark) => `${frames(mark)} ${mark.state === null ? "shows none of the states" : `shows ${mark.state}`}`),
  ...changes.map((frame) => `a change at frame ${frame}`),
  ...Object.entries(settings).filter(([, value]) => value).map(([name, value]) => `${name}: ${value}`),
];

const Version = ({ title, lines, others, children }) => html`<section><h3>${title}</h3>
  <ul>${lines.map((line) => html`<li>${others.includes(line) ? line : html`<mark>${line}</mark>`}</li>`)}</ul>
  ${children}</section>`;

// mine, theirs: lines; keep: {mine(), theirs(), merge()}
export function Conflict({ what, mine, theirs, keep, onClose }) {
  const then = (act) => () => { onClose?.(); act(); };
  return html`<${Dialog} title="Two versions" onClose=${onClose}>
    <p>${what} was changed elsewhere, perhaps in another tab. Nothing of either version is lost yet.</p>
    <div class="versions">
      <${Version} title="Yours" lines=${mine} others=${theirs}>
        <button type="button" onClick=${then(keep.mine)}>Keep mine</button></${Version}>
      <${Version} title="Theirs" lines=${theirs} others=${mine}>
        <button type="button" onClick=${then(keep.theirs)}>Keep theirs</button></${Version}></div>
    <button type="button" class="main" onClick=${then(keep.merge)}>Merge</button></${Dialog}>`;
}
