// Consensus: what two passes differ in, in a row to decide; agreement, events, references.

import { fetchJson, place } from "./api.js";
import { Conflict, linesOfRuns, mergeRows } from "./conflict.js";
import { Kept } from "./drafts.js";
import { Film, NoFilm, useFilm, useVideo } from "./film.js";
import { NotSaved, unsaved, useForm, useSaving } from "./forms.js";
import { colourOf, inkOn } from "./labels.js";
import { Problem, count, html, say, tell, titleOf, useFetch, useEffect, useKeys, useState } from "./ui.js";

const same = { to: (frame) => frame, from: (frame) => frame };
const fixed = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));

export function Consensus({ target, about }) {
  const base = `annotations/${place(target.id)}`, { value, problem } = useFetch(`${base}/decisions`);
  const [nameA, nameB] = value?.annotators || [], passOf = (name) => name && `${base}/passes/${encodeURIComponent(name)}`;
  const first = useFetch(passOf(nameA) ?? null), second = useFetch(passOf(nameB) ?? null),
    media = useVideo(first.value?.video);
  if (problem || first.problem) return html`<main><h1>${target.id}</h1>
    <${Problem}>${problem || first.problem}</${Problem}></main>`;
  if (!value || !first.value || !second.value) return html`<main><p class="waiting">Comparing …</p></main>`;
  return html`<${Decide} base=${base} target=${target} decisions=${value} passes=${[first.value, second.value]}
    media=${media} about=${about} />`;
}

const Badge = ({ label, n }) => html`<span class="badge" style=${{ "border-color": colourOf(label, n) }}>${n + 1}</span>`;

// One line of runs: the colour and the number of their label.
function Strip({ name, runs, labels, first, last, frame, seek }) {
  const size = last - first + 1, share = (frames) => `${100 * frames / size}%`;
  const at = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    seek(first + Math.floor((event.clientX - box.left) / box.width * size));
  };
  const summary = runs.slice(0, 40).map((run) => `${run.label ?? "open"} ${run.start} – ${run.end}`).join(", ");
  return html`<div class="run"><span class="of">${name}</span>
    <div class="bar" role="img" aria-label=${`${name}: ${summary}`} onClick=${at}>
      ${runs.map((run) => {
        const n = labels.indexOf(run.label), colour = colourOf(run.label, n);
        const place = { left: share(run.start - first), width: share(run.end - run.start + 1) };
        if (n >= 0) Object.assign(place, { background: colour, color: inkOn(colour) });
        return html`<span class=${n < 0 ? "open" : ""} style=${place}
          title=${`${run.label ?? "open"}: ${run.start} – ${run.end}`}>${n < 0 ? "?" : n + 1}</span>`;
      })}
      <i style=${{ left: share(frame - first + .5) }}></i></div></div>`;
}

function Decide({ base, target, about, decisions, passes, media }) {
  const path = `${base}/decisions`, [rows, setRows] = useState(() => unsaved(path, decisions.runs, mergeRows)),
    [at, setAt] = useState(Math.max(decisions.runs.findIndex((row) => row.label === null), 0)),
    [agreed, setAgreed] = useState(decisions.agreed);
  const saving = useSaving({ path, revision: decisions.revision, known: decisions.runs, value: rows, ms: 0,
    parse: ({ runs }) => runs, saved: (answer) => setAgreed(answer.agreed),
    body: (runs) => ({ runs: runs.map(({ start, end, label }) => ({ start, end, label })) }) });
  const { theirs } = saving, settled = () => { saving.settle(theirs.runs); setAgreed(theirs.agreed); return theirs.runs; };
  const keep = {
    mine: () => { settled(); saving.flush(); },
    theirs: () => { setRows(settled()); setAt(0); },
    merge: () => { const before = saving.base; setRows(mergeRows(before, rows, settled())); setAt(0); },
  };
  const [first, last] = passes[0].frames, labels = decisions.labels, row = rows[at],
    open = rows.filter((run) => run.label === null).length;
  const film = useFilm({ first, last, map: same, span: row && [row.start, row.end] });
  const to = (n) => { if (rows[n]) { setAt(n); film.seek(rows[n].start); } };
  useEffect(() => { if (row) film.seek(row.start); }, []);
  const decide = (label) => {
    if (!row) return;
    const next = rows.map((run, n) => (n === at ? { ...run, label } : run)),
      later = next.findIndex((run, n) => n > at && run.label === null);
    setRows(next);
    const then = later < 0 ? next.findIndex((run) => run.label === null) : later;
    if (then >= 0) { setAt(then); film.seek(next[then].start); }
  };
  const split = () => {
    if (!row) return;
    if (film.frame <= row.start || film.frame > row.end) {
      say(`first go to a frame inside ${row.start} – ${row.end}; the second part starts there`, "problem");
      return;
    }
    setRows([...rows.slice(0, at), { ...row, end: film.frame - 1 }, { ...row, start: film.frame },
      ...rows.slice(at + 1)]);
  };
  useKeys([...film.keys, { keys: ["ArrowLeft"], does: "one frame back", act: () => film.step(-1) },
    { keys: ["ArrowRight"], does: "one frame forward", act: () => film.step(1) },
    { keys: ["n", "ArrowDown"], does: "next difference", act: () => to(at + 1) },
    { keys: ["p", "ArrowUp"], does: "previous difference", act: () => to(at - 1) },
    { keys: ["s"], does: "split the difference at this frame", act: split },
    ...labels.slice(0, 9).map((label, n) =>
      ({ keys: [String(n + 1)], does: `it is ${label}`, act: () => decide(label) }))]);
  const together = merged(passes, rows);
  return html`<main class="review"><header class="title"><h1>${titleOf(target.id, about)}</h1>
    <span class="soft">consensus of ${decisions.annotators.join(" and ")}</span></header>
    <div class="halves">
      ${media.video ? html`<${Film} film=${film} video=${media.video} first=${first} last=${last}
        finding=${target.kind === "finding" ? target.id : null} ofFile=${true} />`
        : html`<${NoFilm} problem=${media.problem || ""} />`}
      <aside class="side"><div class="panel" tabindex="0" role="region" aria-label="differences">
        <${NotSaved} saving=${saving} />
        <${Kept} name=${saving.name} take=${({ runs, base: before }) => {
          setRows(mergeRows(before?.runs ?? [], runs, rows));
          setAt(0);
        }} />
        ${theirs && html`<${Conflict} what="The consensus" mine=${linesOfRuns(rows)} theirs=${linesOfRuns(theirs.runs)}
          keep=${keep} onClose=${saving.close} />`}
        ${!rows.length && html`<p class="ready">The passes agree on every frame.</p>`}
        ${row && html`<p>Difference <b>${at + 1}</b> of ${rows.length}: frames <b>${row.start} – ${row.end}</b></p>
          <p class="soft">${decisions.annotators[0]} says <b>${row.first}</b>, ${decisions.annotators[1]} says <b>${row.second}</b></p>
          <div class="answers" role="group" aria-label="decision">${labels.map((label, n) => html`
            <button type="button" aria-pressed=${row.label === label} onClick=${() => decide(label)}>
              <${Badge} label=${label} n=${n} />${label}</button>`)}</div>
          <div class="line wrap"><button type="button" disabled=${at === 0}
            onClick=${() => to(at - 1)}>Previous</button>
            <button type="button" disabled=${at >= rows.length - 1} onClick=${() => to(at + 1)}>Next</button>
            <button type="button" onClick=${split}>Split here <kbd>s</kbd></button></div>
          <p class="soft">${open ? count(open, "difference is open", "differences are open") : "all differences are decided"}</p>
          <ul class="marks">${rows.map((run, n) => html`<li class=${n === at ? "here" : ""}>
            <button type="button" class="quiet text" onClick=${() => to(n)}>
              ${run.start} – ${run.end}: ${run.first} / ${run.second} → <b>${run.label ?? "?"}</b></button></li>`)}</ul>`}
      </div></aside></div>
    <section class="strip" aria-label="both passes">${[[decisions.annotators[0], passes[0].runs],
      [decisions.annotators[1], passes[1].runs], ["consensus", together]].map(([name, runs]) =>
      html`<${Strip} name=${name} runs=${runs} labels=${labels} first=${first} last=${last} frame=${film.frame}
      seek=${film.seek} />`)}
      <p class="legend">${labels.map((label, n) =>
        html`<span><span class="badge"
        style=${{ "border-color": colourOf(label, n) }}>${n + 1}</span> ${label}</span>`)}</p></section>
    <div class="halves even"><${Agreement} base=${base} />
      <${Result} base=${base} agreed=${agreed} key=${String(agreed)}
      written=${target.references} vost=${passes[0].preset === "vost"} /></div>
  </main>`;
}

// The first pass, with what was decided where the second one differs.
function merged([first], rows) {
  let runs = first.runs;
  for (const row of rows) {
    runs = runs.flatMap((run) => (run.end < row.start || run.start > row.end ? [run]
      : [{ ...run, end: row.start - 1 }, { ...run, start: row.end + 1 }].filter((part) => part.start <= part.end)));
    runs = [...runs, row];
  }
  return runs.sort((a, b) => a.start - b.start);
}

function Agreement({ base }) {
  const { value, problem } = useFetch(`${base}/agreement`);
  const line = (name, agreement) => agreement &&
    html`<tr><th scope="row">${name}</th><td class="number">${agreement.frames ?? ""}</td>
    <td class="number">${fixed(agreement.observed)}</td><td class="number">${fixed(agreement.kappa)}</td></tr>`;
  return html`<section><h2>Agreement</h2>
    <${Problem}>${problem}</${Problem}>${value &&
    html`<table><thead><tr><th scope="col">Over</th><th scope="col" class="number">frames</th>
    <th scope="col" class="number">exact rate</th><th scope="col" class="number">Cohen's κ</th></tr></thead>
    <tbody>${line("all frames", value.all_frames)}${line("frames that at least one annotator sees",
      value.observed_frames)}</tbody></table>`}</section>`;
}

function Result({ base, agreed, vost, written }) {
  const form = useForm(`references ${base}`, { minimum: "5", pre: "pre", post: "post" }), { pre, post } = form.values,
    minimum = Math.max(1, Math.floor(Number(form.values.minimum)) || 5);
  const [file, setFile] = useState(null), there = written || file;
  const { value, problem } = useFetch(agreed ? `${base}/events?minimum=${minimum}` : null);
  const write = () => fetchJson(`${base}/references`, { body: { minimum, pre, post } }).then((answer) =>
    { form.sent(); setFile(answer.file); say(`written: ${answer.file}`); }, tell);
  const describe = (event) => (event.transition ?
    `pre ${event.pre.join(" – ")}, transition ${event.transition.join(" – ")}, post ${event.post.join(" – ")}`
    : `${event.first} ${event.before.join(" – ")} → ${event.second} ${event.after.join(" – ")}`);
  if (!agreed) return html`<section><h2>Events and references</h2>
    <p class="soft">They appear once every difference is decided.</p></section>`;
  return html`<section><h2>Events and references</h2><${Problem}>${problem}</${Problem}>
    <${Kept} name=${form.name} take=${form.take} />
    ${value && (value.events.length ?
      html`<ol class="events">${value.events.map((event) => html`<li>${describe(event)}</li>`)}</ol>`
      : html`<p class="soft">No state changes into another.</p>`)}
    <div class="grid"><label>Minimum frames of a stable state<input type="number" min="1" ...${form.field("minimum")} /></label>
      ${vost && ["pre", "post"].map((name) => html`<label>State name for ${name}<input ...${form.field(name)} />
        </label>`)}</div>
    <div class="line wrap"><button type="button" class="main" onClick=${write}>Write the references</button>
      ${["decisions", "consensus", ...(there ? ["references"] : [])].map((what) =>
        html`<a class="button" download href=${`/api/${base}/files/${what}.json`}>${what}.json</a>`)}</div>
    ${file && html`<p class="soft">${file}: <code>dejacue evaluate</code> and the corpus view read it.</p>`}</section>`;
}
