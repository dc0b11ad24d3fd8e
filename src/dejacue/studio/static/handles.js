// Boxes and clicks on the picture can be moved: dragged by their handles, or with the arrow keys.

import { clamp, html, useRef } from "./ui.js";

export const SMALL = 4;  // pixels: the least side of a box
// of a box (x0, y0, x1, y1): where a handle lies, and the coordinates that it moves
const HANDLES = [
  { name: "whole box", x: [0, 2], y: [1, 1], moves: [0, 1, 2, 3] },
  { name: "top left corner", x: [0, 0], y: [1, 1], moves: [0, 1] },
  { name: "top right corner", x: [2, 2], y: [1, 1], moves: [2, 1] },
  { name: "bottom right corner", x: [2, 2], y: [3, 3], moves: [2, 3] },
  { name: "bottom left corner", x: [0, 0], y: [3, 3], moves: [0, 3] },
];
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const rounded = (value) => Math.round(10 * value) / 10;

// A box of which some coordinates were moved: it stays in the picture, and keeps its sides or at least some of them.
function movedBox(box, moves, by, { width, height }) {
  const size = [width, height];
  const shift = moves.length < 4 ? by : by.map((value, axis) => clamp(value, -box[axis], size[axis] - box[axis + 2]));
  const limits = (n) => (moves.length === 4 ? [0, size[n % 2]] : n < 2 ? [0, box[n + 2] - SMALL] : [box[n - 2] + SMALL, size[n - 2]]);
  return box.map((value, n) => (moves.includes(n) ? rounded(clamp(value + shift[n % 2], ...limits(n))) : value));
}

function moved(prompt, handle, by, video) {
  if (prompt.box) return { ...prompt, box: movedBox(prompt.box, handle.moves, by, video) };
  const [x, y, inside] = prompt.point;
  return { ...prompt, point: [rounded(clamp(x + by[0], 0, video.width)), rounded(clamp(y + by[1], 0, video.height)), inside] };
}

// marks: [[number, prompt]] of this frame; change(number, prompt), or null to remove it
export function Handles({ marks, video, change }) {
  const drag = useRef(null), drop = () => { drag.current = null; };
  const handle = (n, prompt, own, x, y) => {
    const down = (event) => {
      const { width, height } = event.currentTarget.parentElement.getBoundingClientRect();
      event.currentTarget.setPointerCapture(event.pointerId);
      drag.current = { prompt, from: [event.clientX, event.clientY], scale: [video.width / width, video.height / height] };
    };
    const move = (event) => {
      if (!drag.current) return;
      const { from, scale } = drag.current, by = [event.clientX - from[0], event.clientY - from[1]];
      change(n, moved(drag.current.prompt, own, by.map((value, axis) => value * scale[axis]), video));
    };
    const press = (event) => {
      const step = STEPS[event.key], by = event.shiftKey ? 10 : 1, gone = ["Delete", "Backspace"].includes(event.key);
      if (!step && !gone) return;
      event.preventDefault();
      change(n, gone ? null : moved(prompt, own, step.map((value) => value * by), video));
    };
    const at = prompt.box ? prompt.box.map(Math.round).join(", ") : [x, y].map(Math.round).join(", ");
    return html`<button type="button" key=${`${n} ${own.name}`} class="handle ${prompt.box ? "" : "spot"}" aria-label=${`${own.name}: ${at}`}
      title=${`${own.name}: drag it, or use the arrow keys (Shift: ten pixels); Delete removes`}
      style=${{ left: `${100 * x / video.width}%`, top: `${100 * y / video.height}%` }} onKeyDown=${press}
      onPointerDown=${down} onPointerMove=${move} onPointerUp=${drop} onPointerCancel=${drop}></button>`;
  };
  const middle = (box, [a, b]) => (box[a] + box[b]) / 2;
  return marks.flatMap(([n, prompt]) => (prompt.box
    ? HANDLES.map((own) => handle(n, prompt, own, middle(prompt.box, own.x), middle(prompt.box, own.y)))
    : [handle(n, prompt, { name: prompt.point[2] ? "click on the object" : "click beside the object" }, ...prompt.point)]));
}
