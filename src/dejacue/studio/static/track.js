// Pick and track: show the object with a box or with clicks, name its states, start the job, step
// through the doubts, correct with another click.

import { fetchJson, frameAddress, place } from "./api.js";
import { Conflict } from "./conflict.js";
import { Kept } from "./drafts.js";
import { Film, NoFilm, useFilm, useVideo } from "./film.js";
import { initialWords, mapping } from "./finding.js";
import { Offers, useForm, useLate } from "./forms.js";
import { Handles, SMALL } from "./handles.js";
import { Job } from "./jobs.js";
import { Found, FoundBoxes, FindField, Missing, promptsOf, whereOf } from "./lookup.js";
import { withMark } from "./marks.js";
import { Outline } from "./outline.js";
import { Doubts, FIXED, STILL } from "./show.js";
import { Divider, Problem, Side, Tabs, Timeline, clamp, free, html, link, nameOf, titleOf, useFetch, useEffect, useKeys,
  useMemo, useRef, useState } from "./ui.js";
import { States, WordLists, pairsOf, sampling } from "./words.js";

const PREVIEW_MS = 80;  // after the last move of a box
const PICTURES = 16;  // in the strip below the player
const TIMELINE_PX = 168;  // five rows: it has fewer than a finding, and the player more below it
const MODES = { Box: "draw a box around the object", "Click +": "click on the object",
  "Click −": "click on something that is not the object" };
const WORDS = [["empty", "an empty cup"], ["full", "a cup filled to the brim"]];  // in grey, until some are written
const WHOLE = "the whole picture";  // as a finding calls it
const same = { to: (frame) => frame, from: (frame) => frame };

// of: a finding of the video, which is corrected
export function Track({ id: video, of: finding = null, about, jobs, again }) {
  const media = useVideo(video), info = useFetch(finding && `findings/${place(finding)}/info`);
  const problem = media.problem || info.problem;
  if (problem) return html`<main><h1>${video}</h1><${NoFilm} problem=${problem} /></main>`;
  if (!media.video || (finding && !info.value)) return html`<main>
    <p class="waiting">Opening ${video} …</p></main>`;
  return html`<${Pick} video=${media.video} info=${info.value} about=${about} jobs=${jobs} refresh=${again} />`;
}

// boxes that a person has drawn: nothing is followed
const trackerOf = (info) => {
  const name = info?.tracker || "";
  return STILL.includes(name) ? FIXED : name;
};

const initialForm = (info, video, about) => ({
  object: info?.object || "",
  folder: info?.id || free(`findings/${nameOf(video.id).replace(/\.[^.]+$/, "")}`, about.findings),
  tracker: trackerOf(info), encoder: "", stride: info?.options.stride || "",
  exhaustive: info?.exhaustive ?? false,
  states: info ? pairsOf(info).map(([name, texts]) => ({ name, text: texts.join("\n") }))
    : WORDS.map(() => ({ name: "", text: "" })),
  prompts: info?.prompts || [], find: "", found: null, taken: null, whole: info?.tracker === WHOLE,
});

const statesOf = (form) => form.states.filter((state) => state.name.trim()).map((state) =>
  [state.name.trim(), state.text.split("\n").map((line) => line.trim()).filter(Boolean)]);

const isFixed = (form, about) => (form.tracker || about.tracker) === FIXED;

// Frames that show a state, in frames of the history that is made.
const framesShown = (form) => form.states.flatMap(({ name, frames = [] }) => frames.map((frame) => Math.floor(frame / (Number(form.stride) || 1)))
  .map((frame) => ({ state: name.trim(), start: frame, end: frame })));

// The job. Words, examples and settings of a finding that is corrected stay, as far as its frames do; frames that were
// shown since are added. revision: of the finding that is replaced
function request(video, info, form, fixed, revision) {
  const { options = {}, settings = {} } = info || {}, stride = Number(form.stride) || null;
  const unchanged = info && form.folder.trim() === info.id && stride === (Number(options.stride) || null)
    ? { examples: framesShown(form).reduce((all, { state, start }) => withMark(all, state, start), info.examples), changes: info.changes }
    : { examples: framesShown(form) };
  return {
    kind: "find", video: video.id, folder: form.folder.trim(), ...whereOf(form, fixed), states: statesOf(form),
    object: form.object.trim() || null, exhaustive: form.exhaustive && statesOf(form).length > 1, tracker: (form.tracker !== FIXED && form.tracker) || null, encoder: form.encoder.trim() || null, ...sampling(info), stride,
    readout: settings.readout?.name ?? null, coordinates: settings.coordinates ?? null,
    revision, ...unchanged,
  };
}

// Requests the outline that the tracker sees, whenever the prompts in this frame change. One
// whose weights are not there is not tried again; where the box stays, there is nothing to see.
function usePreview(video, prompts, frame, tracker) {
  const [preview, setPreview] = useState({}), here = prompts.filter((prompt) => prompt.frame === frame);
  const lacking = useRef({}), key = JSON.stringify([here, tracker]);
  useEffect(() => {
    const box = here.findLast((prompt) => prompt.box)?.box || null,
      points = here.filter((prompt) => prompt.point).map((prompt) => prompt.point);
    if (tracker === FIXED || (!box && !points.some((point) => point[2]))) { setPreview({}); return undefined; }
    if (lacking.current[tracker]) { setPreview({ lacks: true, problem: lacking.current[tracker] }); return undefined; }
    const stop = new AbortController(), body = { frame, box, points, tracker: tracker || null };
    setPreview((old) => ({ ...old, busy: true }));
    const timer = setTimeout(() => fetchJson(`videos/${place(video.id)}/preview`, { body, signal: stop.signal })
      .then((answer) => setPreview({ frame, ...answer }), (error) => {
        if (error.name === "AbortError") return;
        if (error.status === 503) lacking.current[tracker] = error.message;
        setPreview({ problem: error.message, lacks: error.status === 503 });
      }), PREVIEW_MS);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [key, frame]);
  return preview;
}

// A box by dragging, or a point by clicking; told in pixels of the video.
function useDrawing(mode, video, add) {
  const [drag, setDrag] = useState(null), from = useRef(null);
  const inside = (x, y) => [clamp(x, 0, video.width), clamp(y, 0, video.height)].map((value) =>
    Math.round(10 * value) / 10);
  const onPoint = (kind, x, y) => {
    const at = inside(x, y);
    if (kind === "down") from.current = at;
    if (!from.current || kind === "cancel") { from.current = null; setDrag(null); return; }
    const [x0, y0] = from.current,
      box = [Math.min(x0, at[0]), Math.min(y0, at[1]), Math.max(x0, at[0]), Math.max(y0, at[1])];
    if (kind === "move" && mode === "Box") setDrag(box);
    if (kind !== "up") return;
    from.current = null;
    setDrag(null);
    const large = box[2] - box[0] > SMALL && box[3] - box[1] > SMALL;
    if (mode !== "Box") add({ point: [...at, mode === "Click +"] });
    else if (large) add({ box });
  };
  return [drag, onPoint];
}

const Box = ({ box }) => html`<rect class="box" x=${box[0]} y=${box[1]} width=${box[2] - box[0]}
  height=${box[3] - box[1]} />`;

// The box between those that were drawn before and after this frame, as a fixed region takes it.
function between(prompts, frame) {
  const boxes = prompts.filter((prompt) => prompt.box).sort((a, b) => a.frame - b.frame);
  const after = boxes.find((prompt) => prompt.frame >= frame) ?? boxes.at(-1), before = boxes.findLast((prompt) => prompt.frame <= frame) ?? boxes[0];
  if (!after || after.frame === frame || before.frame === frame) return null;
  const share = after.frame === before.frame ? 0 : (frame - before.frame) / (after.frame - before.frame);
  return before.box.map((value, n) => value + share * (after.box[n] - value));
}

function Drawn({ prompts, drag, outline, size }) {
  return html`${outline && html`<${Outline} polygons=${outline} name="outline preview" />`}
    ${prompts.filter((prompt) => prompt.box).map((prompt) => html`<${Box} box=${prompt.box} />`)}
    ${prompts.filter((prompt) => prompt.point).map(({ point: [x, y, inside] }) =>
      html`<circle class="point ${inside ? "in" : "out"}" cx=${x} cy=${y} r=${size} />`)}
    ${drag && html`<${Box} box=${drag} />`}`;
}

// Pictures of the whole video, which run along with the tracker; those with a doubt are marked.
function Filmstrip({ video, job, doubts, film }) {
  const ready = useRef(false), count = Math.min(PICTURES, video.frames), edge = (n) => Math.floor(n * video.frames / count);
  const follows = job?.state === "running" && job.total && job.stage === "follow", reached = follows ? job.done / job.total : 1;
  ready.current ||= Boolean(film.how);  // the player comes first
  return html`<div class="filmstrip" role="group" aria-label="pictures of the video">${Array.from({ length: count }, (_, n) => {
    const frame = Math.floor((edge(n) + edge(n + 1) - 1) / 2), doubt = doubts.find(({ start, end }) =>
      start < edge(n + 1) && end >= edge(n));
    const kind = n / count > reached ? "ahead" : follows && (n + 1) / count >= reached ? "now" : "";
    const name = `frame ${frame}${doubt ? `, doubtful: ${doubt.text}` : ""}`;
    return html`<button type="button" class="${kind} ${doubt ? "doubtful" : ""}" aria-label=${name} title=${name}
      onClick=${() => film.seek(doubt ? doubt.start : frame)}>${ready.current
        && html`<img loading="lazy" fetchpriority="low" alt="" src=${frameAddress(video.id, frame, 120)} />`}</button>`;
  })}</div>`;
}

const NOTHING = { states: [], rows: [] };

// Jumps to doubts and prompts, and the answer: a timeline of the file.
function marksScene(video, doubts, prompts, answer) {
  const last = video.frames - 1,
    windows = [...new Set(prompts.map((prompt) => prompt.frame))].sort((a, b) => a - b).map((frame) =>
    ({ start: frame, end: frame }));
  return {
    schema: "dejacue.scene/1", id: video.id, object: null, axis: { first: 0, last }, observed: [[0, last]], doubts,
    states: [...answer.states, { name: "shown", colour: "#56B4E9", descriptions: ["frames in which you marked the object"] }],
    rows: [...answer.rows, { state: "shown", windows }],
  };
}

// Doubts and answer of a finding, in frames of the file; job: the one that made it anew
function useAnswer(id, job) {
  const { value: scene } = useFetch(id && `findings/${place(id)}/scene?most=1000&of=${job ?? ""}`);
  return useMemo(() => {
    const map = scene && mapping(scene), inFile = (span) => ({ ...span, start: map.to(span.start), end: map.to(span.end) });
    return { doubts: (scene?.doubts || []).map(inFile), states: scene?.states || [],
      rows: (scene?.rows || []).map(({ state, windows }) => ({ state, windows: windows.map(inFile) })) };
  }, [scene]);
}

// Of a job that follows the object now, in frames of the file.
const doubtsSoFar = (job, video) => job.doubts.map(({ start, end, text }) => ({ text,
  start: Math.floor(start * video.frames), end: Math.ceil(end * video.frames) - 1 }));

function Pick({ video, info, about, jobs, refresh }) {
  const [initial] = useState(() => initialForm(info, video, about)), fields = useForm(`track ${video.id}?${info?.id ?? ""}`, initial),
    { values: form, set } = fields, prompts = promptsOf(form), setPrompts = (marks) => set({ prompts: marks });
  const [mode, setMode] = useState("Box"), [problem, setProblem] = useState(""),
    [view, setView] = useState(null), [chosen, setChosen] = useState(null), [theirs, setTheirs] = useState(null);
  const film = useFilm({ first: 0, last: video.frames - 1, map: same, span: null });
  const add = (prompt) => set({ found: null, taken: null, whole: false,
    prompts: [...form.prompts.filter((other) => !(prompt.box && other.box && other.frame === film.frame)),
      { frame: film.frame, object: 1, box: null, point: null, ...prompt }] });
  const change = (n, prompt) => setPrompts(prompt ? prompts.with(n, prompt) : prompts.toSpliced(n, 1));
  // without a pointer: in the middle, to be moved from there
  const placeMark = () => {
    const { width, height } = video;
    add(mode === "Box" ? { box: [width / 4, height / 4, 3 * width / 4, 3 * height / 4] } : { point: [width / 2, height / 2, mode === "Click +"] });
    setTimeout(() => document.querySelector(mode === "Box" ? ".handle:not(.spot)" : ".spot:last-of-type")?.focus());
  };
  const [drag, onPoint] = useDrawing(mode, video, add),
    preview = usePreview(video, prompts, film.frame, isFixed(form, about) ? FIXED : form.tracker);
  // the latest: what is stopped goes on as another job
  const latest = (kind) => jobs.all.find((each) => each.kind === kind && each.request.video === video.id
    && each.request.folder === form.folder.trim());
  const job = latest("find"), look = latest("look"), located = form.whole || form.taken !== null || prompts.length > 0;
  const done = job?.state === "done", busy = ["running", "waiting"].includes(job?.state);
  const finding = done ? job.result.finding : info?.masks ? info.id : null, known = useAnswer(finding, done ? job.id : null);
  const doubts = useMemo(() => (busy ? doubtsSoFar(job, video) : known.doubts), [busy, known, job?.doubts.length, job?.doubts.at(-1)?.end]);
  const answer = busy ? NOTHING : known;
  useEffect(() => { view?.playhead(film.frame, true); }, [film.frame, view]);
  useEffect(() => { if (done) refresh(); }, [done]);
  const doubt = () => { const later = doubts.find(({ start }) => start > film.frame) || doubts[0];
    if (later) film.seek(later.start); };
  const kept = info?.examples ?? [];  // of the finding that is corrected
  const isShown = ({ name, frames }) => frames?.length > 0 || kept.some(({ state }) => state === name.trim());
  const named = form.states.filter((state) => state.name.trim() && (state.text.trim() || isShown(state)));
  const lacks = !located ? `Mark the object first: ${MODES[mode]}, or find it by its name.`
    : named.length < 2 && !named.some(isShown) ? "Name at least two states, and describe them or show a frame of each." : "";
  const replaces = !finding && about.findings.includes(form.folder.trim());
  // null: to be replaced, as the page says
  const revision = (of) => (of?.id === form.folder.trim() ? of.revision : replaces ? null : "new");
  const { value: tracked } = useFetch(done ? `findings/${place(job.result.finding)}/info?of=${job.id}` : null);
  const start = async (of = chosen ?? tracked ?? info) => {
    if (lacks || busy) return;
    setProblem("");
    const { begun } = fields;
    try {
      await jobs.begin(request(video, of, form, isFixed(form, about), revision(of)), () => fields.sent(begun));
      setChosen(null);
    } catch (error) {
      const saved = error.revision && await fetchJson(`findings/${place(form.folder.trim())}/info`).catch(() => null);
      if (saved) setTheirs(saved); else setProblem(error.message);
    }
  };
  const keep = theirs && {
    mine: () => { setChosen(theirs); start(theirs); },
    theirs: () => { setChosen(theirs); set(withFrames(initialWords(theirs), form.states)); },
  };
  useKeys([...film.keys, { keys: ["b"], does: "draw a box", act: () => setMode("Box") },
    { keys: ["i"], does: "click on the object", act: () => setMode("Click +") },
    { keys: ["o"], does: "click on something that is not the object", act: () => setMode("Click −") },
      { keys: ["d"], does: "next doubt", act: doubt },
    { keys: ["m"], does: "place the box or the click in the middle; arrows move it, Tab goes to its corners", act: placeMark },
    { keys: ["Backspace"], does: "remove the last box or click", act: () => prompts.length && setPrompts(prompts.slice(0, -1)) },
    { keys: ["Ctrl+Enter"], does: "start", act: () => start(), also: true }], view);
  const here = prompts.filter((prompt) => prompt.frame === film.frame),
    drawn = useMemo(() => marksScene(video, doubts, prompts, answer), [video, doubts, prompts, answer]);
  const seen = preview.frame === film.frame ? preview.outline : null;
  const title = html`<header class="title">
    <h1>${info ? `Correct ${titleOf(info.id, about)}` : nameOf(video.id)}</h1>
    <span class="soft">${video.id} · ${video.width} × ${video.height} · ${video.frames} frames · ${video.codec}
      ${!info && video.findings.length > 0 && html` · findings: ${video.findings.map((other, n) =>
        html`${n > 0 && ", "}<a href=${link("finding", other)}>${titleOf(other, about)}</a>`)}`}</span>
      <span class="acts">${info && html`<a class="button" href=${link("finding", info.id)}>Back to the finding</a>`}</span></header>`;
  return html`<main class="desk">
    <div class="halves">
      <div class="column"><${Film} film=${film} video=${video} first=${0} last=${video.frames - 1} finding=${finding} ofFile=${true}
        fresh=${done ? job.id : null} onPoint=${film.how && !film.playing ? onPoint : undefined}
          draw=${html`<${Drawn} prompts=${here} drag=${drag ?? (isFixed(form, about) ? between(prompts, film.frame) : null)} outline=${seen} size=${video.width / 90} />`}
          over=${film.how && !film.playing && html`<${Handles} video=${video} change=${change}
            marks=${prompts.map((prompt, n) => [n, prompt]).filter(([, prompt]) => prompt.frame === film.frame)} />
            <${FoundBoxes} form=${form} frame=${film.frame} video=${video} take=${(taken) => set({ taken })} />`}
          under=${html`<${Filmstrip} video=${video} job=${job} doubts=${doubts} film=${film} />`} />
        <div class="line wrap how"><${Tabs} label="how to mark the object" names=${Object.keys(MODES)} chosen=${mode}
          onChoose=${setMode} /><button type="button" title="place it in the middle, and move it with the arrow keys (m)"
          onClick=${placeMark}>In the middle</button>
          <button type="button" title="the object is all that is seen" aria-pressed=${form.whole}
            onClick=${() => set({ whole: !form.whole })}>Whole picture</button>
          <${FindField} form=${form} set=${set} jobs=${jobs} video=${video} look=${look} sampled=${{ ...sampling(info), stride: Number(form.stride) || null }} />
          <span class="soft">${preview.busy ? "the tracker is looking … · "
            : seen ? `${preview.tracker} sees this · ` : ""}${MODES[mode]}</span></div></div>
      <${Side} name="What to find">${title}<div class="panel" tabindex="0" role="region" aria-label="what to find">
        <${Missing} form=${form} set=${set} jobs=${jobs} needs=${{ detector: Boolean(form.find.trim()), tracker: !form.whole && (Boolean(form.found || form.find.trim()) || !isFixed(form, about)) }} />
        <${Problem}>${preview.problem}</${Problem}>
        ${preview.lacks && html`<p><button type="button" onClick=${() => set({ tracker: FIXED })}>
          Continue with a fixed region</button>
          <span class="soft"> It needs no weights: the box stays, or moves evenly between those that you draw.</span></p>`}
        <${Form} fields=${fields} about=${about} setPrompts=${setPrompts} film=${film} jobs=${jobs} look=${look} fixed=${Boolean(info)} />
        ${finding && html`<h2>Doubts</h2><${Doubts} doubts=${doubts} film=${film} tracker=${(done ? job.result : info).tracker} />
          ${doubts.length > 0 && html`<p class="soft">
            If the outline is wrong, draw or click again there, then track again.</p>`}`}
        </div>
        <div class="foot"><${Problem}>${problem}</${Problem}>
          ${job && html`<${Job} job=${job} jobs=${jobs} small=${true} />`}
          <div class="line wrap"><button type="button" class="main" onClick=${() => start()}
            disabled=${Boolean(lacks) || busy}>${finding ? "Track again" : "Track and find"}</button>
            ${lacks && html`<span class="soft">${lacks}</span>`}
            ${replaces && html`<span class="soft">The finding in ${form.folder.trim()} will be replaced.</span>`}
            </div>
      </div></${Side}></div>
    <${Divider} usual=${TIMELINE_PX} />
    <section class="strip" aria-label="timeline">
      <${Timeline} scene=${drawn} options=${{ wheel: "focus", on: { seek: film.seek, look: film.skim } }} hold=${setView} /></section>
    ${theirs && html`<${Conflict} what=${titleOf(theirs.id, about)} keep=${keep} onClose=${() => setTheirs(null)} />`}
  </main>`;
}

// The words of a list, with the frames that were shown before; a state that has some stays.
function withFrames({ object, states, exhaustive }, before) {
  const named = (all, name) => all.find((state) => state.name.trim() === name.trim());
  return { object, exhaustive, states: [...states.map((state) => ({ ...state, frames: named(before, state.name)?.frames })),
    ...before.filter(({ name, frames }) => frames?.length && !named(states, name))] };
}

const OFFERED = { object: "name", states: "words", prompts: "boxes and clicks" };

// fixed: the finding that is corrected has its own examples
function Form({ fields, about, setPrompts, film, jobs, look, fixed }) {
  const { values: form, set, field } = fields, prompts = promptsOf(form), late = useLate();
  const edit = (edits) => { late.touch(); set(edits); };
  const offers = fields.offers.filter((offer) => offer.field in OFFERED);
  const state = (n, edits) => edit({ states: form.states.map((old, at) => (at === n ? { ...old, ...edits } : old)) });
  const on = {
    name: (n, name) => state(n, { name }), text: (n, text) => state(n, { text }),
    drop: (n) => edit({ states: form.states.filter((_, at) => at !== n) }),
    add: () => edit({ states: [...form.states, { name: "", text: "" }] }),
    exhaustive: (exhaustive) => edit({ exhaustive }),
    show: !fixed && ((n) => state(n, { frames: [...new Set([...(form.states[n].frames ?? []), film.frame])] })),
  };
  const describe = (prompt) => (prompt.box ? `box ${prompt.box.map(Math.round).join(", ")}`
    : `${prompt.point[2] ? "on" : "not on"} the object: ${prompt.point.slice(0, 2).map(Math.round).join(", ")}`);
  const trackers = [...new Set([...about.trackers, form.tracker].filter(Boolean))];
  return html`
    <${Kept} name=${fields.name} take=${fields.take} />
    <h2>Where it is</h2>
    <ul class="marks">${prompts.map((prompt, n) =>
      html`<li><button type="button" class="quiet text"
      onClick=${() => film.seek(prompt.frame)}>frame ${prompt.frame}: ${describe(prompt)}</button>
      <button type="button" class="quiet" aria-label=${`remove ${describe(prompt)}`}
        onClick=${() => setPrompts(prompts.filter((_, at) => at !== n))}>×</button></li>`)}</ul>
    <${Found} form=${form} set=${set} film=${film} jobs=${jobs} look=${look} />
    ${form.whole && html`<p>The whole picture, in every frame.</p>`}
    ${!prompts.length && !form.found && !form.whole && html`<p class="soft">Go to a frame that shows the object well and draw a
      box around it, or find it by its name.</p>`}
    <h2>What to look for</h2>
    <${Offers} offers=${offers} text=${(offer) => `The finding has other ${OFFERED[offer.field]} now.`} />
    <${WordLists} about=${about} take=${(list) => set((now) =>
      withFrames({ ...list, exhaustive: list.exhaustive || now.exhaustive }, now.states))} late=${late} />
    <div onFocusCapture=${late.touch}>
      <label class="line">Object<input value=${form.object} placeholder="cup"
        onInput=${(event) => edit({ object: event.target.value })} /></label>
      <${States} states=${form.states} exhaustive=${form.exhaustive} on=${on} examples=${WORDS} reader=${{ encoder: form.encoder.trim() || null }} />
    </div>
    <div class="grid">
      <label>Folder of the finding<input ...${field("folder")} /></label>
      <label>Tracker<select value=${form.tracker} onChange=${(event) => set({ tracker: event.target.value })}>
        <option value="">default (${about.tracker})</option>${trackers.map((name) =>
        html`<option value=${name}>${name === FIXED ? `${FIXED}: stays, or moves evenly between your boxes` : name}</option>`)}</select></label>
      <label>Encoder<input list="encoders" ...${field("encoder")} placeholder=${about.encoder} />
        <datalist id="encoders">${about.encoders.map((name) => html`<option value=${name} />`)}</datalist></label>
      <label>Use every nth frame<input type="number" min="1" ...${field("stride")} placeholder="automatic" /></label>
    </div>`;
}
