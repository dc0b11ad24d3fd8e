// What all views share: sentences that pop up, keys and their sheet, the timeline as a component.

import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { timeline } from "./report/timeline.js";
import { fetchJson } from "./api.js";

export { html, useCallback, useEffect, useLayoutEffect, useRef, useState };
export { Component, render, useMemo, useReducer } from "./vendor/htm-preact.js";

export const link = (view, ...ids) => [`#/${view}`, ...ids.filter((id) => id !== undefined).map(encodeURIComponent)].join("/");
export const go = (view, id) => { location.hash = link(view, id); };
export const count = (n, singular, plural) => `${n.toLocaleString("en")} ${n === 1 ? singular : plural || `${singular}s`}`;
export const equal = (value, other) => JSON.stringify(value) === JSON.stringify(other);
export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
// A finding in the workspace itself is called after it.
export const titleOf = (id, about) => (id === "finding.json" ? about.name : id);
// A folder that no finding lies in: cup, cup-2, cup-3 …
export function free(name, taken) {
  let n = 1;
  while (taken.includes(n === 1 ? name : `${name}-${n}`)) n += 1;
  return n === 1 ? name : `${name}-${n}`;
}
export const nameOf = (id) => id.split("/").at(-1);

// Settings of this browser, which may be forbidden to keep any.
export function settingOf(name) { try { return localStorage.getItem(name); } catch { return null; } }
export function keepSetting(name, value) { try { localStorage.setItem(name, value); } catch { /* until it is reloaded */ } }

// ---------------------------------------------------------------- sentences

const listeners = new Set();
export function say(text, kind = "done") { for (const hear of listeners) hear({ text, kind }); }
export function tell(error) { if (error.name !== "AbortError") say(error.message, "problem"); }

export function Sentences() {
  const [all, setAll] = useState([]);
  useEffect(() => {
    let next = 0;
    const drop = (id) => setAll((now) => now.filter((sentence) => sentence.id !== id));
    const hear = (sentence) => {
      const id = next += 1;
      setAll((now) => [...now.filter((other) => other.text !== sentence.text).slice(-3),
        { ...sentence, id, drop: () => drop(id) }]);
      setTimeout(drop, sentence.kind === "problem" ? 12000 : 4000, id);
    };
    const leave = () => setAll((now) => now.filter((sentence) => sentence.kind !== "problem"));  // of the view before
    listeners.add(hear);
    addEventListener("hashchange", leave);
    return () => { listeners.delete(hear); removeEventListener("hashchange", leave); };
  }, []);
  return html`<div class="sentences" role="status" aria-live="polite">${all.map((sentence) => html`
    <div key=${sentence.id} class="sentence ${sentence.kind}"><span>${sentence.text}</span>
      <button type="button" class="quiet" aria-label="close" onClick=${sentence.drop}>×</button></div>`)}</div>`;
}

// Why a finding gives no answer, from its notes; undefined where it gives one.
export function noAnswer(notes) {
  const note = notes.find(({ severity }) => severity === "meaningless");
  return note && `No answer: ${note.text}`;
}

export const Problem = ({ children }) => children && html`<p class="problem" role="alert">${children}</p>`;

// ---------------------------------------------------------------- loading

// What a request gives: {value, problem, again}; requested again when a path changes.
export function useFetch(path) {
  const [result, setResult] = useState({});
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null) { setResult({}); return undefined; }
    const stop = new AbortController();
    fetchJson(path, { signal: stop.signal }).then(
      (value) => setResult({ path, value }),
      (error) => error.name !== "AbortError" && setResult((old) => ({ path, problem: error.message,
        status: error.status, value: old.path === path ? old.value : undefined })),
    );
    return () => stop.abort();
  }, [path, turn]);
  const again = useCallback(() => setTurn((n) => n + 1), []);
  return { ...(result.path === path ? result : {}), again };
}

// ---------------------------------------------------------------- keys

const boards = [];  // of the views that are shown: functions that give lists of keys
const written = (target) => target.closest?.("textarea, select, [contenteditable]")
  || (target.matches?.("input") && !["checkbox", "radio", "button"].includes(target.type));

// keys: [{keys: ["Space"], does: "play", act(event), also: whether it works while writing}]; other:
// a timeline, which gets what is left
export function useKeys(keys, other) {
  const now = useRef();
  now.current = { keys, other };
  useEffect(() => {
    const board = () => now.current;
    boards.push(board);
    return () => boards.splice(boards.indexOf(board), 1);
  }, []);
}

const pressed = (event) => {
  const key = event.key === " " ? "Space" : event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const shift = event.shiftKey && (event.ctrlKey || event.metaKey || event.key.length > 1);
  return `${event.ctrlKey || event.metaKey ? "Ctrl+" : ""}${shift ? "Shift+" : ""}${key}`;
};

function onKey(event) {
  if (event.defaultPrevented || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  const key = pressed(event), writing = written(event.target);
  if (key === "Space" && event.target.closest?.("button, a, summary, input")) return;
  for (const { keys, other } of [...boards].reverse().map((board) => board())) {
    const known = keys.find((binding) => binding.keys.includes(key) && (!writing || binding.also));
    const press = !known && !writing && !event.ctrlKey && !event.metaKey && other?.knows(event.key);
    if (!known && !press) continue;
    event.preventDefault();
    if (known) known.act(event); else other.press(event.key, event.shiftKey ? 10 : 1);
    return;
  }
}
document.addEventListener("keydown", onKey);

// A button that was clicked with a pointer does not keep the keys: Space plays, arrows step.
document.addEventListener("click", (event) => {
  const focused = document.activeElement;  // not what was clicked: the timeline makes its buttons anew
  if (!event.detail || !focused?.matches("button") || focused.closest("dialog")) return;
  focused.blur();
  focused.closest(".dejacue-timeline")?.querySelector(".tl-plot").focus({ preventScroll: true });
});

function Keys({ keys }) {
  return html`<dl class="keys">${keys.map((binding) => html`
    <dt>${binding.keys.map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${binding.does}</dd>`)}</dl>`;
}

export function Sheet({ onClose }) {
  const all = boards.map((board) => board());
  const other = all.map((board) => board.other?.keys).find(Boolean);
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <div class="sheets"><div><${Keys} keys=${all.flatMap((board) => board.keys)} /></div>
      ${other && html`<div><h3>Timeline</h3><${Keys} keys=${other} /></div>`}</div>
  </${Dialog}>`;
}

// ---------------------------------------------------------------- pieces

export function Dialog({ title, children, onClose }) {
  const dialog = useRef();
  useEffect(() => { dialog.current.showModal(); }, []);
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose}
      onClick=${(event) => event.target === dialog.current && dialog.current.close()}>
    <div class="sheet"><header><h2>${title}</h2>
      <button type="button" class="quiet" aria-label="close" onClick=${() => dialog.current.close()}>×</button></header>
    ${children}</div></dialog>`;
}

export function Tabs({ names, chosen, onChoose, label }) {
  const move = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = names[(names.indexOf(chosen) + by + names.length) % names.length];
    onChoose(next);
    event.currentTarget.querySelector(`[data-tab="${next}"]`).focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>${names.map((name) => html`
    <button type="button" role="tab" data-tab=${name} aria-selected=${name === chosen}
      tabindex=${name === chosen ? 0 : -1} onClick=${() => onChoose(name)}>${name}</button>`)}</div>`;
}

// Calls act with the latest values once they have not changed for some milliseconds.
export function useRest(act, ms) {
  const latest = useRef(act), timer = useRef();
  latest.current = act;
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback((...values) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => latest.current(...values), ms);
  }, [ms]);
}

const TIMELINE_PX = 208;  // a square video has a fifth of a small window then

// Between the video and the timeline: dragged, or moved with the arrow keys, it gives room to one of them.
// usual: height of the timeline at first, in pixels
export function Divider({ usual = TIMELINE_PX }) {
  const kept = Number(settingOf("dejacue-timeline")) || usual;
  const [height, setHeight] = useState(kept), line = useRef(), from = useRef(null);
  const most = () => Math.round(.75 * innerHeight);
  const set = (wanted) => {
    const next = clamp(Math.round(wanted), 90, most());
    setHeight(next);
    keepSetting("dejacue-timeline", next);
  };
  useLayoutEffect(() => { line.current.parentElement.style.setProperty("--timeline", `${height}px`); }, [height]);
  const keys = { ArrowUp: height + 24, ArrowDown: height - 24, Home: 0, End: most(), Enter: usual };
  const down = (event) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    from.current = event.clientY + height;
  };
  const drop = () => { from.current = null; };
  const press = (event) => {
    if (!(event.key in keys)) return;
    event.preventDefault();
    set(keys[event.key]);
  };
  return html`<div class="divider" ref=${line} role="separator" tabindex="0" aria-orientation="horizontal"
    aria-label="height of the timeline" aria-valuenow=${height} aria-valuemin="90" aria-valuemax=${most()}
    title="drag, or use the arrow keys; a double click resets it" onKeyDown=${press} onPointerDown=${down}
    onPointerMove=${(event) => from.current !== null && set(from.current - event.clientY)}
    onPointerUp=${drop} onPointerCancel=${drop} onDblClick=${() => set(usual)}></div>`;
}

// What stands beside the video; on a phone, a sheet under the timeline.
export function Side({ name, children }) {
  const [open, setOpen] = useState(false);
  return html`<aside class="side ${open ? "unfolded" : ""}"
      onClick=${(event) => event.target.closest("[role=tab]") && setOpen(true)}>
    <button type="button" class="fold" aria-expanded=${open} onClick=${() => setOpen(!open)}>${name}</button>
    ${children}</aside>`;
}

// options of the timeline; hold(handle) gets its handle
export function Timeline({ scene, options, hold }) {
  const home = useRef(), handle = useRef(), handlers = useRef();
  handlers.current = options.on || {};
  useEffect(() => {
    const names = ["seek", "change", "select", "mark", "look"].filter((name) => handlers.current[name]);
    const on = Object.fromEntries(names.map((name) => [name, (value) => handlers.current[name]?.(value)]));
    handle.current = timeline(home.current, scene, { fill: true, ...options, on });
    hold?.(handle.current);
    return () => { handle.current.destroy(); hold?.(null); };
  }, []);
  const drawn = useRef(scene);
  useEffect(() => {
    if (drawn.current === scene) return;
    drawn.current = scene;
    handle.current.update(scene);
  }, [scene]);
  return html`<div class="timeline" ref=${home}></div>`;
}
