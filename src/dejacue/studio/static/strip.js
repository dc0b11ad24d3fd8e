// The strip: pictures side by side, on which a person marks where each state begins and ends; then its borders,
// closer and closer, until they are known to a frame.

import { fetchJson, frameAddress, place } from "./api.js";
import { html, say, tell, useEffect, useRef, useState } from "./ui.js";

const PICTURES = 12, AT_A_BORDER = 8;
const CURSORS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }, LINES = { ArrowUp: -1, ArrowDown: 1 };

// Stretches of pictures with one label: {state: [[first, last], …]}; null is none of the states, undefined nothing.
export function marksOf(labels) {
  const marks = {};
  labels.forEach((label, at) => {
    if (label === undefined) return;
    const spans = marks[label ?? "none"] ??= [];
    if (at && labels[at - 1] === label) spans.at(-1)[1] = at; else spans.push([at, at]);
  });
  return marks;
}

// How many pictures stand side by side.
const across = ({ children: [first, ...rest] }) => 1 + rest.filter(({ offsetTop }) => offsetTop === first.offsetTop).length;

// frames: of the pictures; proposed: what is believed of each (null: nothing), which Enter confirms; states: names;
// picture(frame) → its address; enter(labels): what was marked; caption: what the strip shows;
// focused: the keys are its own from the beginning
export function Strip({ frames, proposed, states, picture, enter, caption, film, close, missing, focused }) {
  const [labels, setLabels] = useState([]), [edited, setEdited] = useState(false);
  const [[anchor, cursor], setCursor] = useState([0, 0]), list = useRef(), drags = useRef(false);
  const begin = () => { setLabels(frames.map((_, n) => proposed[n] ?? undefined)); setEdited(false); setCursor([0, 0]); };
  useEffect(begin, [frames]);
  useEffect(() => { if (focused) list.current.focus(); }, []);
  const low = Math.min(anchor, cursor), high = Math.max(anchor, cursor), last = frames.length - 1;
  const go = (to, extend) => {
    const at = Math.min(Math.max(to, 0), last);
    setCursor([extend ? anchor : at, at]);
    film.seek(frames[at]);
  };
  const mark = (label) => {
    setLabels(labels.map((old, n) => (n >= low && n <= high ? label : old)));
    setEdited(true);
    go(high + 1);
  };
  const press = (event) => {
    const { key, shiftKey } = event, number = Number(key);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key in CURSORS) go(cursor + CURSORS[key], shiftKey);
    else if (key in LINES) go(cursor + LINES[key] * across(list.current), shiftKey);
    else if (number >= 1 && number <= states.length) mark(states[number - 1]);
    else if (key === "x" || key === "0") mark(null);
    else if (key === "Backspace" || key === "Delete") mark(undefined);
    else if (key === "Enter") enter(labels);
    else if (key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const at = (event) => Number(event.target.closest("[data-picture]")?.dataset.picture ?? -1);
  const down = (event) => {
    if (at(event) < 0) return;
    drags.current = true;
    event.target.releasePointerCapture?.(event.pointerId);  // a finger keeps it otherwise
    go(at(event), event.shiftKey);
  };
  const drag = (event) => { if (drags.current && event.buttons && at(event) >= 0 && at(event) !== cursor) go(at(event), true); };
  const textOf = (n) => (labels[n] === undefined ? "not marked" : `${labels[n] ?? "none"}${edited ? "" : ", proposed"}`);
  return html`<div class="marker" role="group" aria-label="strip">
    <div class="line"><span class="caption">${missing ?? caption}</span>
      ${states.slice(0, 9).map((state, n) => html`<button type="button" class="c${n % 7}" onClick=${() => mark(state)}>
        <span class="badge">${n + 1}</span><bdi>${state}</bdi></button>`)}
      <button type="button" onClick=${() => mark(null)}><kbd>x</kbd>none</button>
      <button type="button" class="main" onClick=${() => enter(labels)}>${edited ? "Mark" : "Confirm"} <kbd>Enter</kbd></button>
      <button type="button" class="quiet" aria-label="close the strip" onClick=${close}>×</button></div>
    <div class="pictures" role="listbox" aria-label="strip: arrows move, digits mark" aria-multiselectable="true" tabindex="0" ref=${list}
      aria-activedescendant=${`picture-${cursor}`} onKeyDown=${press} onPointerDown=${down} onPointerMove=${drag}
      onPointerUp=${() => { drags.current = false; }} onFocus=${() => film.seek(frames[cursor])}>${frames.map((frame, n) => {
        const state = states.indexOf(labels[n]);
        return html`<div role="option" id=${`picture-${n}`} data-picture=${n} aria-selected=${n >= low && n <= high}
          class="${state >= 0 ? `c${state % 7}` : ""} ${labels[n] === undefined ? "open" : ""} ${edited ? "" : "proposed"} ${n === cursor ? "cursor" : ""}"
          aria-label=${`picture ${n + 1}, frame ${frame}: ${textOf(n)}`}>
          <img alt="" draggable="false" src=${picture(frame)} onError=${(event) => { event.target.hidden = true; }} />
          <span>${labels[n] === undefined ? n + 1 : labels[n] ?? "none"}</span></div>`;
      })}</div></div>`;
}

// The strip of a finding. body: the request of its words; change(edit): of the words; examples become facts
export function FindingStrip({ id, video, map, states, body, change, film, close, focused }) {
  const [border, setBorder] = useState(null), [strip, setStrip] = useState(null), latest = useRef(body);
  latest.current = body;
  const load = (next, words = latest.current) => fetchJson(`findings/${place(id)}/strip`,
    { body: { ...words, count: next ? AT_A_BORDER : PICTURES, border: next } }).then(setStrip, tell);
  useEffect(() => { load(null); }, [id]);
  if (!strip || !body) return null;
  const enter = async (labels) => {
    const { frames } = strip;
    try {
      const { examples, borders } = await fetchJson(`findings/${place(id)}/mark`,
        { body: { ...latest.current, frames, border, marks: marksOf(labels) } });
      change({ examples });
      const next = borders[0] ?? null;
      setBorder(next);
      if (next) await load(next, { ...latest.current, examples });
      else { say("every border is known to a frame"); close(); }
    } catch (error) { tell(error); }
  };
  const caption = border ? `The ${border.side} of ${border.state}` : "Mark the first and last picture of each state";
  const picture = (frame) => (video ? frameAddress(video, map.to(frame), 160) : `/api/findings/${place(id)}/thumbnails/${frame}.jpg`);
  return html`<${Strip} frames=${strip.frames} proposed=${strip.believed} states=${states} picture=${picture} enter=${enter}
    caption=${caption} film=${film} close=${close} missing=${strip.missing} focused=${focused} />`;
}

// In a small window it is folded until somebody opens it: then the picture makes room for it.
export const opensAtFirst = () => matchMedia("(min-height: 801px) and (min-width: 901px)").matches;

// The key that opens a strip, or goes to the open one.
export const stripKey = (set) => ({ keys: ["t"], does: "strip of pictures: arrows move, digits mark, Enter goes to the next border",
  act: () => { set("focused"); document.querySelector(".pictures")?.focus(); } });

const spread = (from, to, count) => [...new Set(Array.from({ length: count }, (_, n) => Math.round(from + (to - from) * n / (count - 1))))];

// The longest stretch without labels beyond a labelled frame: its frames, with the labelled ones at both ends; null: none.
export function widestGap(values) {
  let best = null, from = null;
  for (let n = 0; n <= values.length; n += 1) {
    const labelled = n < values.length && values[n] !== -1;
    if (!labelled && from === null) from = n;
    if ((labelled || n === values.length) && from !== null) {
      const gap = [Math.max(from - 1, 0), Math.min(n, values.length - 1)];
      if (n > from && (!best || gap[1] - gap[0] > best[1] - best[0])) best = gap;
      from = labelled ? null : from;
    }
  }
  return best;
}

// The strip of an annotation pass: nothing is proposed. values: labels of frames from `first` on; put(from, to, label)
export function PassStrip({ video, values, first, labels, put, film, close, focused }) {
  const [gap, setGap] = useState(null), [from, to] = gap ?? [0, values.length - 1];
  const [frames, setFrames] = useState(() => spread(first + from, first + to, PICTURES));
  const enter = (marked) => {
    let next = values;
    for (const [label, spans] of Object.entries(marksOf(marked))) {
      for (const [a, b] of spans) next = put(next, frames[a], frames[b], labels.indexOf(label));
    }
    put(next);
    const open = widestGap(next);
    setGap(open);
    if (open) setFrames(spread(first + open[0], first + open[1], AT_A_BORDER));
    else { say("every frame has a label"); close(); }
  };
  const known = frames.map((frame) => labels[values[frame - first]] ?? null);
  return html`<${Strip} frames=${frames} proposed=${known} states=${labels} enter=${enter} film=${film} close=${close} focused=${focused}
    picture=${(frame) => frameAddress(video, frame, 160)}
    caption=${gap ? `Frames ${frames[0]} – ${frames.at(-1)}: which show what?` : "Mark the first and last picture of each label"} />`;
}
