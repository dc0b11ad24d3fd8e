// What a person shows: examples {state or null, start, end} in frames of the history. No two of
// them name a frame differently: what is said last holds.

import { equal } from "./ui.js";

const spans = (mark) => mark.source === null || mark.source === undefined;

// Without these frames; a mark around them is split.
export function without(examples, start, end) {
  return examples.flatMap((mark) => {
    if (!spans(mark) || mark.end < start || mark.start > end) return [mark];
    const left = { ...mark, end: start - 1 }, right = { ...mark, start: end + 1 };
    return [left, right].filter((part) => part.start <= part.end);
  });
}

export function withMark(examples, state, start, end = start) {
  return [...without(examples, start, end), { state, start, end, source: null }];
}

// A window of a state was dragged to where it is right: its frames show the state, and the frame
// beyond each edge shows what else is read there, or none of the states. inside(frame): whether the
// object is seen; beside(frame): another state whose window holds it, or null; undefined: nobody knows
export function dragged(examples, { state, before, start, end }, inside, beside) {
  const low = Math.min(before?.start ?? start, start), high = Math.max(before?.end ?? end, end);
  const others = examples.filter((mark) => !spans(mark) || mark.state !== state || mark.end < low || mark.start > high);
  let marks = withMark(others, state, start, end);
  for (const frame of [start - 1, end + 1]) {
    if (inside(frame) && beside(frame) !== undefined) marks = withMark(marks, beside(frame), frame);
  }
  return marks;
}

// The window of a state is none: its frames show what else is read there, or none of the states.
export function denied(examples, { state, start, end }, inside, beside) {
  let marks = examples.filter((mark) => !spans(mark) || mark.state !== state || mark.end < start || mark.start > end);
  for (let frame = start, first = start; frame <= end; frame += 1) {
    const last = frame === end || inside(frame + 1) !== inside(frame) || beside(frame + 1) !== beside(frame);
    if (last && inside(frame) && beside(frame) !== undefined) marks = withMark(marks, beside(frame), first, frame);
    if (last) first = frame + 1;
  }
  return marks;
}

// Examples that the studio has made of earlier ones (base), with what a person has changed of those since (mine): frames
// that both name are as the person named them.
export function mergeExamples(base, mine, made) {
  const has = (examples, mark) => examples.some((other) => equal(other, mark));
  const kept = made.filter((mark) => has(mine, mark) || !has(base, mark));
  return mine.filter((mark) => !has(made, mark) && !has(base, mark))
    .reduce((all, mark) => [...(mark.source ? all : without(all, mark.start, mark.end)), mark], kept);
}

export const toggled = (changes, frame) =>
  (changes.includes(frame) ? changes.filter((other) => other !== frame) : [...changes, frame].sort((a, b) => a - b));
