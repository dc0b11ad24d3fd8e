// A finding: the video, the timeline, and the words beside them.

import { fetchJson, download, frameAddress, place } from "./api.js";
import { Conflict } from "./conflict.js";
import { Kept, draftOf, holdDraft, storeDraft } from "./drafts.js";
import { Film, NoFilm, shapeOf, useFilm, useVideo } from "./film.js";
import { SaveTo } from "./forms.js";
import { denied, dragged, toggled, withMark } from "./marks.js";
import { line, unpack } from "./report/timeline.js";
import { Doubts, Show } from "./show.js";
import { FindingStrip, opensAtFirst, stripKey } from "./strip.js";
import {
  Dialog, Divider, Problem, Side, Tabs, Timeline, equal, free, go, html, link, say, tell, titleOf, useFetch, useEffect,
    useKeys, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from "./ui.js";
import { Compare, NO_NONE, Words, pairsOf } from "./words.js";

const REST_MS = 150, MERGE_MS = 1500, QUESTIONS = 3;
const MAX_CURVE_VALUES = 400_000;  // of all curves together; longer ones are thinned

// Words, examples and settings can be undone; edits of one text that follow each other are one step, until one
// of them has moved a window.
function steps(all, { kind, edit, key, now, words }) {
  if (kind === "begin") return { past: [], now: words, future: [] };
  if (kind === "undo" && all.past.length) return { past: all.past.slice(0, -1), now: all.past.at(-1),
    future: [all.now, ...all.future] };
  if (kind === "redo" && all.future.length) return { past: [...all.past, all.now], now: all.future[0],
    future: all.future.slice(1) };
  if (kind === "replace") return { past: [...all.past, all.now], now: words, future: [] };
  if (kind === "moved") return { ...all, key: null };
  if (kind !== "change") return all;
  const merged = key && all.key === key && now - all.at < MERGE_MS, edits = typeof edit === "function" ? edit(all.now) : edit;
  return { past: merged ? all.past : [...all.past.slice(-200), all.now], now: { ...all.now, ...edits }, future: [],
    key, at: now };
}

export const initialWords = (info) => ({
  object: info.object || "", examples: info.examples, changes: info.changes, readout: null, coordinates: null,
  exhaustive: info.exhaustive,
  states: pairsOf(info).map(([name, texts], key) => ({ key, name, text: texts.join("\n") })),
});

const settingsOf = ({ readout, coordinates } = {}) => ({ readout: readout?.name ?? null, coordinates: coordinates ?? null });
// What edits begin with: words, settings and revision of the saved finding.
const versionOf = (info) => ({ words: initialWords(info), settings: settingsOf(info.settings), revision: info.revision });

// The request; what is wrong before it is sent is thrown as a sentence.
function request(words) {
  const states = new Map();
  for (const state of words.states) {
    const name = state.name.trim();
    if (!name) throw new Error("a state has no name; give it one");
    if (states.has(name)) throw new Error(`two states are called "${name}"; rename one`);
    states.set(name, state.text.split("\n").map((line) => line.trim()).filter(Boolean));
  }
  const { examples, changes, readout, coordinates } = words, exhaustive = words.exhaustive && states.size > 1,
    named = examples.map((example) => ({ ...example, state: example.state?.trim() ?? null }));
  if (exhaustive && named.some(({ state }) => state === null)) throw new Error(NO_NONE);
  return { states: [...states], object: words.object.trim() || null, examples: named, changes, exhaustive, readout, coordinates };
}

// Reads again when the words rest; the last answer stays until the next one is there. begins:
// whether the words are others than those of the first scene
function useReading(id, words, first, begins) {
  const [reading, setReading] = useState({ scene: first }), skip = useRef(!begins);
  useEffect(() => {
    if (skip.current) { skip.current = false; return undefined; }
    let body;
    try { body = request(words); } catch (error) { setReading((old) => ({ ...old, problem: error.message }));
      return undefined; }
    const stop = new AbortController();
    const timer = setTimeout(async () => {
      setReading((old) => ({ ...old, busy: true }));
      try {
        const options = { body: { ...body, most: MAX_CURVE_VALUES }, signal: stop.signal };
        setReading({ scene: await fetchJson(`findings/${place(id)}/read`, options) });
      } catch (error) {
        if (error.name !== "AbortError") setReading((old) => ({ ...old, busy: false, problem: error.message }));
      }
    }, REST_MS);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [words]);
  return reading;
}

// The frames worth an answer of this reading, while they are looked at (on), and a way to the next one.
function useQuestions(id, words, scene, on, film) {
  const [latest, setLatest] = useState({}), going = useRef(false);
  const known = latest.scene === scene ? latest.questions : null;
  const arrive = (questions) => {
    const at = questions.findIndex(({ frame }) => frame === film.frame), next = questions[(at + 1) % questions.length];
    going.current = false;
    if (next) film.seek(next.frame); else say("no questions left: no other frame is worth an answer", "note");
  };
  useEffect(() => {
    if (!on) return undefined;
    const stop = new AbortController(), body = () => ({ ...request(words), questions: QUESTIONS, most: 1000 });
    const timer = setTimeout(async () => {
      try {
        const answer = await fetchJson(`findings/${place(id)}/read`, { body: body(), signal: stop.signal });
        setLatest({ scene, questions: answer.questions });
        if (going.current) arrive(answer.questions);
      } catch (error) { if (going.current) tell(error); }
    }, going.current ? 0 : REST_MS);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [scene, on]);
  return [known, () => { if (known) arrive(known); else going.current = true; }];
}

// Frames of the history ↔ frames of the file, through the knots of a scene.
export function mapping(scene) {
  if (!scene.source) return { to: (frame) => frame, from: (frame) => frame };
  const frames = unpack(scene.source.frames), values = unpack(scene.source.values);
  return { to: (frame) => Math.round(line(frames, values, frame)),
    from: (frame) => Math.round(line(values, frames, frame)) };
}

export function Finding({ id, about, again, jobs }) {
  const info = useFetch(`findings/${place(id)}/info`), media = useVideo(info.value?.video);
  const scene = useFetch(`findings/${place(id)}/scene?most=${MAX_CURVE_VALUES}`);
  const problem = info.problem || scene.problem;
  if (problem) return html`<main><h1>${id}</h1><${Problem}>${problem}</${Problem}></main>`;
  if (!info.value || !scene.value) return html`<main><p class="waiting">Reading ${id} …</p></main>`;
  return html`<${Desk} id=${id} about=${about} again=${again} info=${info.value} first=${scene.value}
    media=${media} jobs=${jobs} />`;
}

function useMarks(words, change, scene, film) {
  const inside = (frame) => scene.observed.some(([start, end]) => frame >= start && frame <= end);
  // where nothing is read it is none of the states or, if every frame shows one, the other of two, else not known
  const elsewhere = (state) => {
    if (!words.exhaustive) return null;
    const others = new Set(scene.rows.map((row) => row.state).filter((name) => name !== state));
    return others.size === 1 ? [...others][0] : undefined;
  };
  const holds = (state) => (frame) => scene.rows.find((row) => row.state !== state
    && row.windows.some((interval) => interval.start <= frame && frame <= interval.end))?.state ?? elsewhere(state);
  const mark = (state, frame = film.frame) => {
    if (!inside(frame)) say(`the object is not seen in frame ${frame}, so the frame cannot be an example`, "problem");
    else change({ examples: withMark(words.examples, state, frame) });
  };
  return {
    mark, inside,
    change: () => change({ changes: toggled(words.changes, film.frame) }),
    unchange: (frame) => change({ changes: words.changes.filter((other) => other !== frame) }),
    remove: (n) => change({ examples: words.examples.filter((_, at) => at !== n) }),
    edited({ state, start, end, kind, index, row }) {
      const before = scene.rows[row]?.windows[index];
      if (kind === "delete") change({ examples: denied(words.examples, { state, start, end }, inside, holds(state)) });
      else change({ examples: dragged(words.examples,
        { state, start, end, before: kind === "create" ? null : before }, inside, holds(state)) });
    },
  };
}

function Desk({ id, about, again, info, first, media, jobs }) {
  const draft = useRef(draftOf(`finding ${id}`)), [base, setBase] = useState(() => draft.current?.base ?? versionOf(info)),
    [theirs, setTheirs] = useState(null);
  const [all, step] = useReducer(steps, null, () => ({ past: [], now: base.words, future: [], ...draft.current?.all }));
  const [tab, setTab] = useState("Words"), [saving, setSaving] = useState(false);
  const words = all.now, read = useReading(id, words, first, Boolean(draft.current)), { scene } = read;
  const { value: segments } = useFetch(`findings/${place(id)}/segments`);  // of a long history they take a while
  const [view, setView] = useState(null), [selected, setSelected] = useState(null);
  const [strip, setStrip] = useState(() => !info.examples.length && opensAtFirst());  // open until something was shown
  const map = useMemo(() => mapping(first), [first]);
  const span = selected && [selected.start, selected.end];
  const film = useFilm({ first: scene.axis.first, last: scene.axis.last, map, span });
  const windows = useMemo(() => JSON.stringify(scene.rows.map((row) =>
    row.windows.map((interval) => [interval.start, interval.end]))), [scene]);
  useEffect(() => step({ kind: "moved" }), [windows]);
  const change = (edit, key) => step({ kind: "change", edit, key, now: performance.now() });
  const marks = useMarks(words, change, scene, film), dirty = words !== base.words;
  const [questions, toQuestion] = useQuestions(id, words, scene, tab === "Show it", film);
  const next = () => { setTab("Show it"); toQuestion(); };
  useEffect(() => { view?.playhead(film.frame, true); }, [film.frame, view]);
  useLayoutEffect(() => {
    holdDraft(`finding ${id}`, dirty ? { all, base } : null);
    storeDraft(`finding ${id}`, dirty ? { words, base } : null);
  }, [all, base]);
  const restore = (kept) => { setBase(kept.base); step({ kind: "replace", words: kept.words }); };
  useLayoutEffect(() => {
    const warn = (event) => { if (dirty) event.preventDefault(); };
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [dirty]);
  const { body, unsaid } = useMemo(() => {
    try { return { body: request(words) }; } catch (error) { return { body: null, unsaid: error.message }; }
  }, [words]);
  const put = async (options) => {
    const answer = await fetchJson(`findings/${place(id)}`, { method: "PUT", body: { ...request(words), ...options } });
    say(`saved in ${titleOf(options.folder || id, about)}`);
    return { words, settings: settingsOf(answer.settings), revision: answer.revision };
  };
  const saveAs = async (folder, revision) => { await put({ folder, revision }); again(); go("finding", folder); };
  const save = async (options) => {
    try {
      setBase(await put({ revision: base.revision, ...options }));
      return true;
    } catch (error) {
      if (!error.revision) { tell(error); return false; }
      const version = await fetchJson(`findings/${place(id)}/info`).then(versionOf).catch(tell);
      if (!version) return false;
      const lost = equal(request(version.words), { ...request(words), readout: null, coordinates: null })
        && equal(version.settings, settings);
      if (lost) setBase({ ...version, words }); else setTheirs(version);  // lost: only the answer to an earlier save was
      return lost;
    }
  };
  const settings = Object.fromEntries(Object.entries(base.settings).map(([name, value]) => [name, words[name] ?? value]));
  const keep = theirs && {
    mine: () => save({ revision: theirs.revision, ...(equal(settings, theirs.settings) ? {} : settings) }),
    theirs: () => { setBase(theirs); step({ kind: "replace", words: theirs.words }); },
  };
  const doubt = () => {
    const later = scene.doubts.find(({ start }) => start > film.frame) || scene.doubts[0];
    if (later) { setTab("Doubts"); film.seek(later.start); }
  };
  // the timeline knows the digits of states that were read
  const added = words.states.map(({ name }, n) => ({ keys: [String(n + 1)], name, does: `the frame shows ${name}`, act: () => marks.mark(name) }))
    .filter(({ name }, n) => n < 9 && name.trim() && !scene.states.some((state) => state.name === name));
  useKeys([...film.keys, ...added,
    stripKey(setStrip), { keys: ["q"], does: "next question", act: next }, { keys: ["d"], does: "next doubt", act: doubt },
    { keys: ["w"], does: "go to the words", act: () =>
      { setTab("Words"); setTimeout(() => document.querySelector(".words textarea")?.focus()); } },
    { keys: ["Ctrl+z"], does: "undo", act: () => step({ kind: "undo" }), also: true },
    { keys: ["Ctrl+Shift+z", "Ctrl+y"], does: "redo", act: () => step({ kind: "redo" }), also: true },
    { keys: ["Ctrl+s"], does: "save", act: () => save(), also: true }], view);
  const options = {
    editable: true, segments: false, clock: "frames", wheel: "focus",
    aspect: media.video && shapeOf(media.video),
    picture: info.video ? (frame) => frameAddress(info.video, map.to(frame), 120) : undefined,
    on: {
      seek: film.seek, look: film.skim, select: setSelected, change: (drag) => drag.done && marks.edited(drag),
      mark: ({ kind, state, frame }) =>
        (kind === "change" ? change({ changes: toggled(words.changes, frame) })
        : marks.mark(kind === "none" ? null : state, frame)),
    },
  };
  const act = { ...marks, next };
  const drawn = useMemo(() => ({ ...scene, segments: segments ?? null,
    questions: questions?.slice(0, 1) ?? null }), [scene, segments, questions]);
  const notes = scene.notes.filter(({ severity }) => severity !== "meaningless")
    .map(({ severity, text }) => (severity === "doubtful" ? `doubtful: ${text}` : text));
  return html`<main class="desk">
    <div class="halves">
      ${media.video ? html`<${Film} film=${film} video=${media.video} first=${scene.axis.first}
        last=${scene.axis.last} finding=${info.masks ? id : null} strip=${[strip, setStrip]}
        edge=${(by) => view?.press(by < 0 ? "[" : "]")} under=${strip && html`<${FindingStrip} id=${id} video=${info.video} map=${map}
          words=${words} body=${body} unsaid=${unsaid} change=${change} film=${film} close=${() => setStrip(false)}
          focused=${strip === "focused"} />`} />`
        : html`<${NoFilm} problem=${media.problem ||
          (info.video ? "" : "the video of this finding is not in the workspace; copy it there to watch it")} />`}
      <${Side} name="Words, examples and doubts">
        <${Title} id=${id} info=${info} all=${all} dirty=${dirty} step=${step} save=${save} about=${about}
          saveAs=${() => setSaving(true)} />
        <${Tabs} label="next to the video" names=${["Words", "Show it", "Compare", "Doubts"]}
        chosen=${tab} onChoose=${setTab} />
        <div class="panel" role="tabpanel" aria-label=${tab} tabindex="0">
          <${Kept} name=${`finding ${id}`} take=${restore} />
          ${tab === "Words" && html`<${Words} id=${id} words=${words} change=${change} scene=${scene} about=${about}
            problem=${read.problem} busy=${Boolean(read.busy)} request=${() => request(words)} again=${again} />`}
          ${tab === "Show it" && html`<${Show} id=${id} words=${words} film=${film} act=${act} questions=${questions}
            inside=${marks.inside(film.frame)} problem=${read.problem} />`}
          ${tab === "Compare" && body &&
            html`<${Compare} id=${id} info=${info} request=${body} change=${change} scene=${scene} about=${about}
            jobs=${jobs} same=${media.video?.findings || []} />`}
          ${tab === "Doubts" && html`<${Doubts} doubts=${scene.doubts} film=${film} tracker=${info.tracker}
            correct=${info.video && link("track", info.video, id)} />`}
        </div></${Side}>
    </div>
    <${Divider} />
    <section class="strip" aria-label="timeline">${tab !== "Words" && tab !== "Show it" && read.problem &&
      html`<${Problem}>${read.problem}</${Problem}>`}
      ${notes.length > 0 && html`<details class="notes"><summary>${notes[0]}${notes.length > 1
        && ` (and ${notes.length - 1} more)`}</summary>
        <ul>${notes.map((note) => html`<li>${note}</li>`)}</ul></details>`}
      <${Timeline} scene=${drawn} options=${options} hold=${setView} /></section>
    ${saving && html`<${SaveAs} id=${id} about=${about} save=${saveAs} onClose=${() => setSaving(false)} />`}
    ${theirs && html`<${Conflict} what=${titleOf(id, about)} keep=${keep} onClose=${() => setTheirs(null)} />`}
  </main>`;
}

function Title({ id, info, all, dirty, step, save, about, saveAs }) {
  const kinds = [...about.exports, "report"], [pendingKind, setPendingKind] = useState(null);
  const give = (kind) => download(`findings/${place(id)}/export/${kind}`).catch(tell);
  const pick = (event) => {
    const kind = event.target.value;
    event.target.value = "";
    if (kind && dirty) setPendingKind(kind); else if (kind) give(kind);
  };
  const leave = () => setPendingKind(null);
  return html`<header class="title"><h1>${titleOf(id, about)}</h1>
    <span class="soft">${[info.object, info.video, info.encoder].filter(Boolean).join(" · ")}</span>
    <span class="acts">
      <button type="button" disabled=${!all.past.length} title="undo (Ctrl+Z)"
        onClick=${() => step({ kind: "undo" })}>Undo</button>
      <button type="button" disabled=${!all.future.length} title="redo (Ctrl+Shift+Z)"
        onClick=${() => step({ kind: "redo" })}>Redo</button>
      <select aria-label="export" title="the saved finding, as a file for another tool" onChange=${pick}>
        <option value="">Export …</option>${kinds.map((kind) =>
        html`<option value=${kind} disabled=${kind in about.missing}>${kind}${kind in about.missing ?
          ` (needs ${about.missing[kind]})` : ""}</option>`)}</select>
      <button type="button" onClick=${saveAs}>Save as …</button>
      <button type="button" class="main" disabled=${!dirty} title="save (Ctrl+S)"
        onClick=${() => save()}>Save</button></span>
    ${pendingKind && html`<${Dialog} title=${`Export ${pendingKind}`} onClose=${leave}>
      <p>There are edits that are not saved. An export holds what is saved.</p>
      <div class="line wrap"><button type="button" class="main"
        onClick=${async () => { leave(); if (await save()) give(pendingKind); }}>Save and export</button>
        <button type="button" onClick=${() => { leave(); give(pendingKind); }}>Export without the edits</button></div>
      </${Dialog}>`}</header>`;
}

function SaveAs({ id, about, save, onClose }) {
  const stem = (id === "finding.json" ? "finding" : id).replace(/-\d+$/, "");
  return html`<${SaveTo} title="Save as" label="Folder in the workspace" usual=${free(stem, [...about.findings, stem])}
    save=${save} onClose=${onClose} />`;
}
