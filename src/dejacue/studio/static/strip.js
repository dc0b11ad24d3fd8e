// The strip: pictures side by side, on which a person marks where each state begins and ends; then its borders,
// closer and closer, until they are known to a frame.

import { fetchJson, frameAddress, place } from "./api.js";
import { useDraft } from "./forms.js";
import { mergeExamples } from "./marks.js";
import { equal, html, say, tell, useEffect, useRef, useState } from "./ui.js";
import { NO_NONE } from "./words.js";

const PICTURES = 12, AT_A_BORDER = 8;
const CURSORS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }, LINES = { ArrowUp: -1, ArrowDown: 1 };

// Stretches of pictures with one label: {state: [[first, last], …]}, pictures counted from 1; null is none of the states, undefined nothing.
// apart(n): what lies between picture n and the one before it stays, though they have one label
function marksOf(labels, apart) {
  const marks = { __proto__: null };
  labels.forEach((label, at) => {
    if (label === undefined) return;
    const spans = marks[label ?? "none"] ??= [];
    if (at && labels[at - 1] === label && !apart(at)) spans.at(-1)[1] = at + 1; else spans.push([at + 1, at + 1]);
  });
  return marks;
}

// How many pictures stand side by side.
const across = ({ children: [first, ...rest] }) => 1 + rest.filter(({ offsetTop }) => offsetTop === first.offsetTop).length;

// frames: of the pictures; states: [{key, name}]; proposed: what is believed of each picture, which Enter confirms, a key
// of a state or as in marksOf; draft: state and setter of {frames, marks}, what was marked on these;
// picture(frame) → its address; enter(names, marks): labels of all pictures, those that were marked; caption: what the
// strip shows; focused: the keys are its own from the beginning
export function Strip({ frames, proposed, states, draft: [draft, keep], picture, enter, caption, film, close, missing, focused }) {
  const marks = equal(draft.frames, frames) ? draft.marks : {}, edited = Object.keys(marks).length > 0;
  const nameOf = (label) => (label === null ? null : states.find(({ key }) => key === label)?.name);
  const labels = frames.map((_, n) => nameOf(n in marks ? marks[n] : proposed[n])), confirm = () => enter(labels, marks);
  const [[anchor, cursor], setCursor] = useState([0, 0]), list = useRef(), drags = useRef(false);
  useEffect(() => setCursor([0, 0]), [frames]);
  useEffect(() => { if (focused) list.current.focus(); }, []);
  const low = Math.min(anchor, cursor), high = Math.max(anchor, cursor), last = frames.length - 1;
  const go = (to, extend) => {
    const at = Math.min(Math.max(to, 0), last);
    setCursor([extend ? anchor : at, at]);
    film.seek(frames[at]);
  };
  const mark = (label) => {
    keep({ frames, marks: { ...marks, ...Object.fromEntries(frames.map((_, n) => [n, label]).slice(low, high + 1)) } });
    go(high + 1);
  };
  const press = (event) => {
    const { key, shiftKey } = event, number = Number(key);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key in CURSORS) go(cursor + CURSORS[key], shiftKey);
    else if (key in LINES) go(cursor + LINES[key] * across(list.current), shiftKey);
    else if (number >= 1 && number <= states.length) mark(states[number - 1].key);
    else if (key === "x" || key === "0") mark(null);
    else if (key === "Backspace" || key === "Delete") mark(undefined);
    else if (key === "Enter") confirm();
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
      ${states.slice(0, 9).map((state, n) => html`<button type="button" class="c${n % 7}" onClick=${() => mark(state.key)}>
        <span class="badge">${n + 1}</span><bdi>${state.name}</bdi></button>`)}
      <button type="button" onClick=${() => mark(null)}><kbd>x</kbd>none</button>
      <button type="button" class="main" onClick=${confirm}>${edited ? "Mark" : "Confirm"} <kbd>Enter</kbd></button>
      <button type="button" class="quiet" aria-label="close the strip" onClick=${close}>×</button></div>
    <div class="pictures" role="listbox" aria-label="strip: arrows move, digits mark" aria-multiselectable="true" tabindex="0" ref=${list}
      aria-activedescendant=${`picture-${cursor}`} onKeyDown=${press} onPointerDown=${down} onPointerMove=${drag}
      onPointerUp=${() => { drags.current = false; }} onFocus=${() => film.seek(frames[cursor])}>${frames.map((frame, n) => {
        const state = states.findIndex(({ name }) => name === labels[n]);
        return html`<div role="option" id=${`picture-${n}`} data-picture=${n} aria-selected=${n >= low && n <= high}
          class="${state >= 0 ? `c${state % 7}` : ""} ${labels[n] === undefined ? "open" : ""} ${edited ? "" : "proposed"} ${n === cursor ? "cursor" : ""}"
          aria-label=${`picture ${n + 1}, frame ${frame}: ${textOf(n)}`}>
          <img alt="" draggable="false" src=${picture(frame)} onError=${(event) => { event.target.hidden = true; }} />
          <span>${labels[n] === undefined ? n + 1 : labels[n] ?? "none"}</span></div>`;
      })}</div></div>`;
}

const shows = ({ start, end, source }, from, to) => !source && start <= to && end >= from;

// The strip of a finding. body: the request of its words, null where they are none yet; unsaid: why; change(edit): of
// the words; examples become facts
export function FindingStrip({ id, video, map, words, body, unsaid, change, film, close, focused }) {
  const [draft, setDraft] = useDraft(`strip ${id}`, () => ({})), [border, setBorder] = useState(draft.border ?? null);
  const [strip, setStrip] = useState(null), latest = useRef(), { states, examples } = words;
  latest.current = body;
  const keyOf = (state) => states.find(({ name }) => name.trim() === state?.trim())?.key;
  const load = async (next, of = latest.current) => {
    const { believed, ...pictures } = await fetchJson(`findings/${place(id)}/strip`,
      { body: { ...of, count: next ? AT_A_BORDER : PICTURES, border: next } });
    setBorder(next);
    setStrip({ ...pictures, believed: believed.map(keyOf) });
  };
  useEffect(() => { load(border).catch(() => load(null)).catch(tell); }, [id]);
  if (!strip) return null;
  const { frames, believed } = strip;
  // what a person has shown since is known
  const proposed = frames.map((frame, n) => {
    const known = examples.find((example) => shows(example, frame, frame));
    return !known ? believed[n] : known.state === null ? null : keyOf(known.state);
  });
  const enter = async (names, marks) => {
    const labels = names.map((name) => name && name.trim()), sent = body;
    try {
      if (!sent) throw new Error(unsaid);
      if (sent.exhaustive && labels.includes(null)) throw new Error(NO_NONE);
      // an example between two pictures that nobody marked stays
      const apart = (n) => !(n in marks || n - 1 in marks)
        && sent.examples.some((example) => example.state !== labels[n] && shows(example, frames[n - 1], frames[n]));
      const answer = await fetchJson(`findings/${place(id)}/mark`, { body: { ...sent, frames, border, marks: marksOf(labels, apart) } });
      const namesOf = (of) => of?.states.map(([name]) => name), now = latest.current;
      if (!equal(namesOf(sent), namesOf(now))) throw new Error("a state was renamed meanwhile: press Enter again");
      const merged = (mine) => mergeExamples(sent.examples, mine, answer.examples);  // some may be new since
      change(({ examples: mine }) => ({ examples: merged(mine) }));
      setDraft({});
      const next = answer.borders[0] ?? null, then = { ...now, examples: merged(now.examples) };
      if (next) await load(next, then).catch(() => load(null, then));
      else { say("every border is known to a frame"); close(); }
    } catch (error) { tell(error); }
  };
  const caption = border ? `The ${border.side} of ${border.state}` : "Mark the first and last picture of each state";
  const picture = (frame) => (video ? frameAddress(video, map.to(frame), 160) : `/api/findings/${place(id)}/thumbnails/${frame}.jpg`);
  return html`<${Strip} frames=${frames} proposed=${proposed} states=${states} picture=${picture} enter=${enter}
    draft=${[draft, (marked) => setDraft({ ...marked, border })]} caption=${caption}
    film=${film} close=${close} missing=${strip.missing} focused=${focused} />`;
}

// In a small window it is folded until somebody opens it: then the picture makes room for it.
export const opensAtFirst = () => matchMedia("(min-height: 801px) and (min-width: 901px)").matches;

// The key that opens a strip, or goes to the open one.
export const stripKey = (set) => ({ keys: ["t"], does: "strip of pictures: arrows move, digits mark, Enter goes to the next border",
  act: () => { set("focused"); document.querySelector(".pictures")?.focus(); } });
