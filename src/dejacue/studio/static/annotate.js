// Annotate: two passes that see neither each other nor a score, then consensus.

import { fetchJson, place } from "./api.js";
import { Conflict, linesOfRuns, mergeLabels } from "./conflict.js";
import { Consensus } from "./consensus.js";
import { Kept } from "./drafts.js";
import { Film, NoFilm, useFilm, useVideo } from "./film.js";
import { NotSaved, Offers, unsaved, useForm, useSaving } from "./forms.js";
import { filled, fromRuns, labelScene, moved, nextOpen, toRuns } from "./labels.js";
import { PassStrip, stripKey } from "./strip.js";
import {
  Dialog, Divider, Problem, Side, Timeline, count, go, html, link, say, tell, titleOf, useFetch, useEffect, useKeys,
    useMemo, useState,
} from "./ui.js";

const SAVE_MS = 400;
const same = { to: (frame) => frame, from: (frame) => frame };

export function Annotate({ id, about, again }) {
  const { value: all, problem, again: reload } = useFetch("annotations");
  if (problem) return html`<main><${Problem}>${problem}</${Problem}></main>`;
  if (!all) return html`<main><p class="waiting">Looking …</p></main>`;
  const target = all.find((row) => row.id === id);
  if (!id) return html`<${List} all=${all} about=${about} />`;
  if (!target) return html`<main><${Problem}>there is nothing called "${id}" to annotate in this workspace</${Problem}>
    </main>`;
  if (target.begun) return html`<${Consensus} target=${target} about=${about} />`;
  if (about.annotator) return html`<${Pass} key=${about.annotator} target=${target} annotator=${about.annotator}
    reload=${reload} about=${about} />`;
  return html`<${Start} target=${target} again=${again} reload=${reload} about=${about} />`;
}

const stage = (target) => (target.references ? "references written" : target.agreed ? "agreed" : target.begun ?
  "consensus: decide" : target.passes.length ?
  target.passes.map((pass) => `${pass.annotator} ${Math.floor(100 * pass.labelled / pass.frames)} %`).join(" · ")
  : "not started");

function List({ all, about }) {
  return html`<main class="narrow"><h1>Annotate</h1>
    <p class="soft">Two people label every frame; neither sees the other's labels, nor any score, until both are done. Then you decide the differences, and the result becomes references.</p>
    ${!all.length && html`<p class="empty">There is nothing to annotate yet. Put a video into the studio's folder, or drop one into the <a href=${link("workspace")}>workspace</a>.</p>`}
    ${all.length > 0 && html`<div class="scroll"><table><thead><tr><th scope="col">What</th><th scope="col">Kind</th>
      <th scope="col">${about.annotator ? "Your pass" : "Progress"}</th></tr></thead>
      <tbody>${all.map((target) => html`<tr key=${target.id}><th scope="row">
        <a href=${link("annotate", target.id)}>${titleOf(target.id, about)}</a></th>
        <td>${target.kind === "finding" ? "a tracked object" : "a whole video"}</td><td>${stage(target)}</td>
        </tr>`)}</tbody></table></div>`}
  </main>`;
}

// ---------------------------------------------------------------- before: who labels

const complete = (target) => target.passes.length === 2 && target.passes.every((pass) => pass.labelled === pass.frames);

function Start({ target, again, reload, about }) {
  const finding = useFetch(target.kind === "finding" ? `findings/${place(target.id)}/info` : null);
  const form = useForm(`annotate ${target.id}`,
    { name: "", preset: false, states: (finding.value?.order ?? []).join("\n") });
  const { name, preset, states } = form.values, first = !target.passes.length;
  const arriving = first && target.kind === "finding" && !finding.value && !finding.problem
    && !preset && !linesOf(states).length;
  const [problem, setProblem] = useState(""), [invited, setInvited] = useState(null);
  const begin = async (who) => {
    setProblem("");
    const names = linesOf(states),
      mine = target.passes.some((pass) => pass.annotator.toLowerCase() === who.toLowerCase());
    try {
      await fetchJson("session", { body: { annotator: who } });
      if (!mine) {
        const body = first ? (preset ? { preset: "vost" } : { states: names }) : {};
        try { await fetchJson(`annotations/${place(target.id)}/passes/${encodeURIComponent(who)}`,
          { body }); } catch (error) {
          await fetchJson("session", { body: { annotator: null } });
          throw error;
        }
      }
      form.sent();
      again();
      reload();
    } catch (error) { setProblem(error.message); }
  };
  const invite = () => fetchJson("annotators", { body: { annotator: name.trim() } }).then(setInvited, (error) =>
    setProblem(error.message));
  const consensus = () => fetchJson(`annotations/${place(target.id)}/consensus`, { method: "POST" }).then(reload, tell);
  return html`<main class="narrow"><header class="title"><h1>Annotate ${titleOf(target.id, about)}</h1></header>
    ${target.passes.length > 0 && html`<section><h2>Passes</h2>
      <ul class="marks">${target.passes.map((pass) =>
      html`<li><span><b>${pass.annotator}</b> ${pass.labelled} of ${count(pass.frames, "frame")} labelled</span>
      <span class="acts"><button type="button" onClick=${() => begin(pass.annotator)}>Continue as ${pass.annotator}</button>
      </span></li>`)}</ul>
      ${complete(target) ? html`<p class="ready">Both passes are complete. <button type="button" class="main"
        onClick=${consensus}>Start the consensus</button></p>
        <p class="soft">From then on, the passes are closed and everybody sees them.</p>`
        : html`<p class="soft">Their labels stay hidden until both passes are complete.</p>`}</section>`}
    <section><h2>${first ? "The first pass" : "Label"}</h2><form class="grid form"
      onSubmit=${(event) => { event.preventDefault(); begin(name.trim()); }}>
      <label>Name of the annotator<input ...${form.field("name")} required maxlength="60" placeholder="Anna" /></label>
      ${first && html`<${StatesOfPass} form=${form} />
        <${Kept} name=${form.name} take=${form.take} />
        <${Offers} offers=${form.offers} text=${({ value }) => `The finding has the states ${linesOf(value).join(", ")}.`} />`}
      <div class="line wrap"><button class="main" disabled=${!name.trim() || arriving}>Label as ${name.trim() || "…"}</button>
        <button type="button" disabled=${!name.trim()} onClick=${invite}>Invite with a link</button></div></form>
      <${Problem}>${problem}</${Problem}>
      <p class="soft">While you label, this browser sees only the video and your own pass: the server hides every score. "Stop" at the top ends it.</p></section>
    ${invited && html`<${Dialog} title=${`A link for ${invited.annotator}`} onClose=${() => setInvited(null)}>
      <p>Whoever opens this link labels as ${invited.annotator} and sees nothing else. Open it in another browser or a private window:</p>
      <p><input readonly aria-label="address" value=${new URL(invited.address, location.href).href}
        onFocus=${(event) => event.target.select()} /></p></${Dialog}>`}
  </main>`;
}

const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

function StatesOfPass({ form }) {
  const { preset } = form.values, fixed = preset && { value: "pre\ntransition\npost" };
  return html`<label>States, one per line<textarea rows="4" required disabled=${preset} ...${form.field("states")} ...${fixed}>
      </textarea></label>
    <label class="check"><input type="checkbox" checked=${preset}
      onChange=${(event) => form.set({ preset: event.target.checked })} />the VOST protocol: pre, transition, post</label>`;
}

// ---------------------------------------------------------------- a pass

function Pass({ target, annotator, reload, about }) {
  const path = `annotations/${place(target.id)}/passes/${encodeURIComponent(annotator)}`;
  const { value: pass, problem, status, again } = useFetch(path), media = useVideo(pass?.video);
  if (status === 404) return html`<${NewPass} target=${target} path=${path} again=${again} about=${about} />`;
  if (problem) return html`<main><h1>${target.id}</h1><${Problem}>${problem}</${Problem}></main>`;
  if (!pass || (pass.video && !media.video && !media.problem)) return html`<main>
    <p class="waiting">Opening your pass …</p></main>`;
  return html`<${Labelling} key=${pass.revision} target=${target} path=${path} pass=${pass} media=${media}
    again=${again} reload=${reload} about=${about} />`;
}

function NewPass({ target, path, again, about }) {
  const form = useForm(`pass ${target.id}`, { states: "", preset: false }), { states, preset } = form.values;
  const [first, setFirst] = useState(false), [problem, setProblem] = useState("");
  const begin = (body) => fetchJson(path, { body }).then(() => { form.sent(); again(); }, (error) =>
    (body.states || body.preset || error.status !== 400 ? setProblem(error.message) : setFirst(true)));
  const send = (event) => { event.preventDefault();
    begin(preset ? { preset: "vost" } : { states: linesOf(states) }); };
  return html`<main class="narrow"><h1>Annotate ${titleOf(target.id, about)}</h1>
    ${!first ? html`<p>You have no pass here yet.</p>
      <button type="button" class="main" onClick=${() => begin({})}>Start my pass</button>`
      : html`<p>You are the first annotator: name the states to distinguish.</p>
        <form class="grid form" onSubmit=${send}>
        <${StatesOfPass} form=${form} /><${Kept} name=${form.name} take=${form.take} />
        <button class="main">Start my pass</button></form>`}
    <${Problem}>${problem}</${Problem}></main>`;
}

// The labels, with steps back and on.
function useLabels(known, begun) {
  const [all, setAll] = useState({ past: begun === known ? [] : [known], now: begun, future: [] });
  return {
    values: all.now, canUndo: all.past.length > 0, canRedo: all.future.length > 0,
    set: (values) => setAll((old) => ({ past: [...old.past.slice(-100), old.now], now: values, future: [] })),
    undo: () => setAll((old) => (old.past.length ?
      { past: old.past.slice(0, -1), now: old.past.at(-1), future: [old.now, ...old.future] } : old)),
    redo: () => setAll((old) => (old.future.length ?
      { past: [...old.past, old.now], now: old.future[0], future: old.future.slice(1) } : old)),
  };
}

function Labelling({ target, path, pass, media, again, reload, about }) {
  const { frames: [first, last], labels } = pass, labelsOf = (runs) => fromRuns({ ...pass, runs }),
    [known] = useState(() => labelsOf(pass.runs)), [begun] = useState(() => unsaved(path, known, mergeLabels)),
    all = useLabels(known, begun), { values } = all;
  const [anchor, setAnchor] = useState(null), [view, setView] = useState(null),
    [selected, setSelected] = useState(null), { ready } = target;
  const film = useFilm({ first, last, map: same, span: selected && [selected.start, selected.end] });
  const saving = useSaving({ path, revision: pass.revision, known, value: values, ms: SAVE_MS, parse: fromRuns,
      body: (labelled) => ({ runs: toRuns(labelled, first, labels) }) }),
    scene = useMemo(() => labelScene(target.id, values, [first, last], labels), [values]);
  useEffect(() => { view?.playhead(film.frame, true); }, [film.frame, view]);
  const open = useMemo(() => values.reduce((n, value) => n + (value === -1), 0), [values]);
  useEffect(() => {  // the other annotator may be done by now
    if (open || ready) return undefined;
    reload();
    addEventListener("focus", reload);
    return () => removeEventListener("focus", reload);
  }, [open === 0, ready]);
  const put = (label) => {
    const from = anchor ?? film.frame, [start, end] = [Math.min(from, film.frame), Math.max(from, film.frame)];
    all.set(filled(values, first, start, end, label));
    setAnchor(null);
    if (film.frame === end) film.step(1);
  };
  const [strip, setStrip] = useState(false);
  // of the strip: labels a span in a copy; a copy alone is taken
  const putSpan = (copy, start, end, label) => (start === undefined ? all.set(copy) : filled(copy, first, start, end, label));
  const edited = ({ state, start, end, kind, row, index, done }) => {
    if (!done) return;
    const before = kind === "create" ? null : kind === "delete" ? { start, end } : scene.rows[row].windows[index];
    all.set(moved(values, first, labels.indexOf(state), before, kind === "delete" ? null : { start, end }));
  };
  const next = () => { const at = nextOpen(values, first, film.frame);
    if (at === null) say("every frame has a label", "note"); else film.seek(at); };
  const mark = () => setAnchor(anchor === null ? film.frame : null);
  const consensus = () => saving.flush().then(() =>
    fetchJson(`annotations/${place(target.id)}/consensus`, { method: "POST" })).then(reload, tell);
  useKeys([...film.keys, stripKey(setStrip), { keys: ["b"], does: "start a span here; the next label fills it", act: mark },
    { keys: ["u"], does: "next frame without a label", act: next },
    { keys: ["Backspace"], does: "remove the label of the frame (if no span is selected)", act: () => put(-1) },
    { keys: ["Ctrl+z"], does: "undo", act: all.undo },
      { keys: ["Ctrl+Shift+z", "Ctrl+y"], does: "redo", act: all.redo }], view);
  const on = { seek: film.seek, look: film.skim, select: setSelected, change: edited, mark: ({ kind, state }) => kind !== "change" &&
    put(kind === "none" ? Math.max(labels.indexOf("none"), labels.indexOf("transition")) : labels.indexOf(state)) };
  const settled = () => { const theirs = fromRuns(saving.theirs); saving.settle(theirs); return theirs; };
  const keep = {
    mine: () => { settled(); saving.flush(); },
    theirs: () => all.set(settled()),
    merge: () => { const { base } = saving; all.set(mergeLabels(base, values, settled())); },
  };
  const now = labels[values[film.frame - first]];
  const title = html`<header class="title"><h1>${titleOf(target.id, about)}</h1>
    <span class="soft">your pass · ${pass.history}</span>
      <span class="acts"><span class="saving" data-state=${saving.text}>${saving.text}</span>
        <button type="button" disabled=${!all.canUndo} onClick=${all.undo}>Undo</button>
        <button type="button" disabled=${!all.canRedo} onClick=${all.redo}>Redo</button>
        <button type="button" onClick=${consensus} disabled=${open > 0 || !ready}
          title="once both passes are complete">Start the consensus</button></span></header>`;
  return html`<main class="desk">
    <div class="halves">
      ${media.video ? html`<${Film} film=${film} video=${media.video} first=${first} last=${last}
        finding=${target.kind === "finding" ? target.id : null} ofFile=${true} strip=${[strip, setStrip]}
        under=${strip && html`<${PassStrip} video=${media.video.id} values=${values} first=${first} labels=${labels} put=${putSpan}
          film=${film} close=${() => setStrip(false)} focused=${strip === "focused"} />`}
        edge=${(by) => view?.press(by < 0 ? "[" : "]")} />`
        : html`<${NoFilm} problem=${media.problem || "the video is not in the workspace"} />`}
      <${Side} name="Labels">${title}<div class="panel" tabindex="0" role="region" aria-label="labels">
        <${NotSaved} saving=${saving} again=${again} />
        <${Kept} name=${saving.name} take=${({ runs, base }) =>
          all.set(mergeLabels(labelsOf(base?.runs ?? []), labelsOf(runs), values))} />
        ${saving.theirs && html`<${Conflict} what="Your pass" mine=${linesOfRuns(toRuns(values, first, labels))}
          theirs=${linesOfRuns(saving.theirs.runs)} keep=${keep} onClose=${saving.close} />`}
        <p>Frame <b>${film.frame}</b> ${now ? html`is <b>${now}</b>` : "has no label yet"}.${anchor !== null &&
          html` The next label fills frames <b>${Math.min(anchor, film.frame)} – ${Math.max(anchor, film.frame)}</b>.`}</p>
        <div class="answers" role="group"
          aria-label="label of this frame">${labels.map((label, n) =>
          html`<button type="button" aria-pressed=${now === label} onClick=${() => put(n)}>
          <span class="badge" style=${{ "border-color": scene.states[n].colour }}>${n + 1}</span>${label}</button>`)}
          <button type="button" onClick=${() => put(-1)}>no label</button></div>
        <div class="line wrap"><button type="button" aria-pressed=${anchor !== null}
          onClick=${mark}>Span from here <kbd>b</kbd></button>
          <button type="button" onClick=${next}>Next unlabelled frame <kbd>u</kbd></button></div>
        <p><progress max=${values.length} value=${values.length - open} aria-label="labelled">
          </progress> ${values.length - open} of ${count(values.length, "frame")} labelled</p>
        ${open === 0 && html`<p class="ready">${ready ? "Both passes are complete. The consensus can start."
          : "Your pass is complete. Once the other pass is complete too, the consensus can start."}</p>`}
        <p class="soft">Keys <kbd>1</kbd> … <kbd>${labels.length}</kbd> label the frame and move to the next. On the timeline, drag along a row to label a span, and drag edges to move them.</p>
      </div></${Side}></div>
    <${Divider} />
    <section class="strip" aria-label="timeline">
      <${Timeline} scene=${scene} options=${{ editable: true, labels: true, wheel: "focus", on }} hold=${setView} />
      </section>
  </main>`;
}
