// The words: states and descriptions to edit, how they are read, and several readings side by side.

import { fetchJson, place } from "./api.js";
import { Offers, SaveTo, useDraft, useLate } from "./forms.js";
import { Job } from "./jobs.js";
import { Problem, free, html, link, noAnswer, say, tell, useEffect, useRef, useState } from "./ui.js";
import { Bars, framesOf } from "./workspace.js";

const CHECK_MS = 200;  // after the last key

// The words in these texts that an encoder does not know, while they are written: {words, encoder, silent}; silent: it knows none.
// reader: {finding} or {encoder}
function useUnknown(texts, reader) {
  const [found, setFound] = useState({ words: new Set() }), key = JSON.stringify([texts, reader]);
  const lacking = useRef({}), name = JSON.stringify(reader);
  useEffect(() => {
    if (lacking.current[name]) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => fetchJson("words", { body: { texts, ...reader }, signal: stop.signal }).then(
      ({ encoder, has_text, unknown }) => setFound({ encoder, silent: !has_text && name, words: new Set(unknown.map((word) => word.toLowerCase())) }),
      (error) => { lacking.current[name] = error.name !== "AbortError"; }), CHECK_MS);  // what lacks says so when it is used
    return () => { clearTimeout(timer); stop.abort(); };
  }, [key]);
  return { ...found, silent: found.silent === name };
}

// Descriptions, with a line under each word that the encoder does not know.
function Descriptions({ unknown, text, ...more }) {
  const lines = useRef(), parts = text.split(/([\p{L}\p{N}]+)/u), strange = (part) => unknown.words.has(part.toLowerCase());
  const words = [...new Set(parts.filter(strange))];
  return html`<div class="descriptions"><textarea value=${text} spellcheck="false" ...${more}
      onScroll=${(event) => { lines.current.scrollTop = event.target.scrollTop; }}></textarea>
    <div ref=${lines} aria-hidden="true">${parts.map((part) => (strange(part) ? html`<mark>${part}</mark>` : part))}</div></div>
    ${words.length > 0 && html`<p class="unknown" role="status">${unknown.encoder} does not know ${words.join(", ")}</p>`}`;
}

// What a person says of a video where nothing else but these states is to be seen.
const EXHAUSTIVE = "Every frame shows one of these";
export const NO_NONE = `a frame of none of the states contradicts "${EXHAUSTIVE}": take back one of the two`;

// The states with their descriptions, one a line. on: name(n, name), text(n, text), drop(n), add(), exhaustive(whether), and
// where frames can be shown instead, show(n)
export function States({ states, exhaustive, on, examples = [], reader }) {
  const unknown = useUnknown(states.map((state) => state.text), reader);
  return html`${unknown.silent && html`<p class="soft" role="status">${unknown.encoder} knows no words: show a frame of each state.</p>`}
    ${states.map((state, n) => html`<fieldset key=${state.key ?? n}>
      <legend class="hidden">state ${state.name || n + 1}</legend>
      <div class="line"><span class="badge c${n % 7}">${n + 1}</span>
        <input class="name" aria-label=${`name of state ${n + 1}`} value=${state.name} placeholder=${examples[n]?.[0]}
          onInput=${(event) => on.name(n, event.target.value)} />
        <button type="button" class="quiet" aria-label=${`remove ${state.name || `state ${n + 1}`}`} title="remove"
          disabled=${states.length < 2} onClick=${() => on.drop(n)}>×</button></div>
      ${!unknown.silent && html`<${Descriptions} unknown=${unknown} text=${state.text} rows=${Math.max(state.text.split("\n").length, 2)}
        placeholder=${examples[n]?.[1]} aria-label=${`descriptions of ${state.name || `state ${n + 1}`}, one per line`}
        onInput=${(event) => on.text(n, event.target.value)} />`}
      ${on.show && html`<div class="line wrap"><button type="button" class="quiet" disabled=${!state.name.trim()} onClick=${() => on.show(n)}>
        This frame shows ${state.name.trim() || "it"}</button>${state.frames?.length > 0 && html`<span class="soft">frame${" "}
        ${state.frames.join(", ")}</span>`}</div>`}</fieldset>`)}
    <div class="line wrap"><button type="button" onClick=${on.add}>Add a state</button>
      <label class="check" title="else a frame may show none of them, if you have shown examples"><input type="checkbox"
        checked=${exhaustive && states.length > 1} disabled=${states.length < 2} onChange=${(event) => on.exhaustive(event.target.checked)} />${EXHAUSTIVE}</label></div>`;
}

// The states of an answer as pairs, in their order: objects begin with names that are numbers.
export const pairsOf = ({ states, order }) => order.map((name) => [name, states[name]]);

const listOf = (answer) => ({ object: answer.object || "", exhaustive: answer.exhaustive,
  states: pairsOf(answer).map(([name, texts]) => ({ key: Math.random(), name, text: texts.join("\n") })) });

// The words of a list in the workspace: take({object, exhaustive, states: [{name, text}]}); late: of useLate
export function WordLists({ about, take, late }) {
  if (!about.vocabularies.length) return null;
  const choose = (event) => {
    const id = event.target.value;
    event.target.value = "";
    if (id) late.arrive(fetchJson(`vocabularies/${place(id)}`), `The list ${id}`, (list) => take(listOf(list))).catch(tell);
  };
  return html`<label class="line">Words from<select value="" onChange=${choose}>
    <option value="">a word list …</option>${about.vocabularies.map((id) =>
    html`<option value=${id}>${id}</option>`)}</select></label><${Offers} offers=${late.offers} />`;
}

function SaveList({ request, onClose, again }) {
  const save = async (name, revision) => {
    const { states, object, exhaustive } = request();
    await fetchJson(`vocabularies/${place(name)}`, { method: "PUT", body: { states, object, exhaustive, revision } });
    say(`written: ${name}`);
    again();
  };
  return html`<${SaveTo} title="Save these words" label="File in the workspace (.yaml)" usual="words.yaml" save=${save}
    onClose=${onClose}><p class="soft">Use it for other videos: <code>dejacue find … --vocabulary FILE</code></p></${SaveTo}>`;
}

// The name that examples of a state have: the one from before, as long as two states have one name.
const shownAs = (state) => state.before ?? state.name.trim();

// Examples follow the names of their states, but not while two states have one name: whose they were would be lost.
export function withStates(examples, states) {
  if (new Set(states.map(({ name }) => name.trim())).size < states.length) return { examples, states };
  const names = new Map(states.map((state) => [shownAs(state), state.name]));
  return {
    examples: examples.map((example) => ({ ...example, state: names.get(example.state?.trim()) ?? example.state })),
    states: states.map(({ before, ...state }) => state),
  };
}

// request: () → the request of these words
export function Words({ id, words, change, scene, about, problem, busy, request, again }) {
  const [listing, setListing] = useState(false), late = useLate(), { states, examples } = words;
  const edit = (...edits) => { late.touch(); change(...edits); };
  const on = {
    name: (n, name) => edit(withStates(examples, states.map((state, at) =>
      (at === n ? { ...state, name, before: shownAs(state) } : state))), `name ${n}`),
    text: (n, text) => edit({ states: states.map((state, at) => (at === n ? { ...state, text } : state)) }, `text ${n}`),
    drop: (n) => edit(withStates(examples.filter((example) => example.state?.trim() !== shownAs(states[n])),
      states.filter((_, at) => at !== n))),
    add: () => edit({ states: [...states,
      { key: Math.random(), name: free(`state ${states.length + 1}`, states.flatMap((state) => [state.name, shownAs(state)])), text: "" }] }),
    exhaustive: (exhaustive) => edit({ exhaustive }),
  };
  const latest = useRef();
  latest.current = words;
  // what was shown of a state that the list does not have is not kept
  const take = (list) => {
    const has = ({ state }) => state === null || list.states.some(({ name }) => name === state.trim());
    const lost = new Set(latest.current.examples.filter((example) => !has(example)).map(({ state }) => state));
    change((now) => ({ ...list, exhaustive: list.exhaustive || now.exhaustive, examples: now.examples.filter(has) }));
    if (lost.size) say(`the list does not have ${[...lost].join(", ")}: examples of it are removed; Undo brings them back`, "note");
  };
  // another readout begins with its defaults
  const settings = scene.settings || {}, read = settings.readout?.name, unsaid = words.readout ? "default" : "unchanged";
  const choice = (name, label, values, now, none) => html`<label>${label}<select value=${words[name] ?? ""}
      onChange=${(event) => change({ [name]: event.target.value || null })}>
    <option value="">${none}${now ? ` (${now})`
      : ""}</option>${values.map((value) => html`<option value=${value}>${value}</option>`)}</select></label>`;
  return html`<div class="words" aria-busy=${busy}>
    <${Problem}>${problem}</${Problem}>
    <div onFocusCapture=${late.touch}>
      <label class="line">Object<input value=${words.object} placeholder="cup"
        onInput=${(event) => edit({ object: event.target.value }, "object")} /></label>
      <${States} states=${states} exhaustive=${words.exhaustive} on=${on} reader=${{ finding: id }} />
    </div>
    <p class="soft">One description per line. The intervals follow as you type.</p>
    <div class="line wrap"><${WordLists} about=${about} take=${take} late=${late} />
      <button type="button" onClick=${() => setListing(true)}>Save these words …</button></div>
    ${listing && html`<${SaveList} request=${request} again=${again} onClose=${() => setListing(false)} />`}
    <details><summary>Readout settings</summary><div class="grid">
      ${choice("readout", "Readout", about.readouts, words.readout ? null : read, "unchanged")}
      ${choice("coordinates", "Coordinates", about.coordinates, words.readout ? null : settings.coordinates, unsaid)}
    </div></details>
  </div>`;
}

const SAMPLED = ["start", "end", "stride", "fps", "rate"];

// How the frames of a finding were taken from its video.
export const sampling = (info) => Object.fromEntries(SAMPLED.filter((name) => info?.options[name] !== undefined)
  .map((name) => [name, Number(info.options[name])]));

// One reading as bars; acts: what can be done with it
function Reading({ name, reading, acts }) {
  const problem = reading.problem || (reading.scene && noAnswer(reading.scene.notes));
  return html`<div class="reading"><div class="line"><b>${name}</b><span class="acts">${acts}</span></div>
    ${problem ? html`<${Problem}>${problem}</${Problem}>`
      : reading.scene ? html`<${Bars} answers=${reading.scene.rows} last=${reading.scene.axis.last} />
      <p class="soft">${reading.scene.rows.map((row) => `${row.state} ${framesOf(row)}`).join(" · ")}</p>`
      : html`<p class="soft">reading …</p>`}</div>`;
}

// What several requests give, each {scene} or {problem}; requested again when one of them changes.
function useReadings(bodies, path) {
  const [readings, setReadings] = useState([]), key = JSON.stringify(bodies);
  useEffect(() => {
    const stop = new AbortController();
    Promise.all(bodies.map((body, n) => fetchJson(path(n), { body, signal: stop.signal })
      .then((answer) => (answer.schema ? { scene: answer } : answer), (error) => ({ problem: error.message }))))
      .then((answer) => !stop.signal.aborted && setReadings(answer));
    return () => stop.abort();
  }, [key]);
  return readings;
}

// The same words with other encoders: other findings of this video, or one that is made now.
function Encoders({ id, info, request, about, jobs, same }) {
  const [others, setOthers] = useDraft(`compared ${id}`, () => []), [encoder, setEncoder] = useDraft(`encoder ${id}`, () => "");
  const { states, object, exhaustive } = request, body = { states, object, most: 1000 };
  const readings = useReadings(others.map(() => body), (n) => `findings/${place(others[n])}/read`);
  const base = id === "finding.json" ? "finding" : id, made = jobs.all.filter(({ state }) => state === "done");
  const folder = free(`${base}-${encoder.trim().replace(/[^\w.-]+/g, "-")}`,
    [...about.findings, ...made.map((each) => each.request.folder)]);
  const [newFolder, setNewFolder] = useState(null), job = jobs.all.find((each) => each.request.folder === newFolder);
  useEffect(() => {
    if (job?.state === "done") setOthers((now) => [...new Set([...now, newFolder])]);
  }, [job?.state]);
  const begin = (event) => {
    event.preventDefault();
    setNewFolder(folder);
    jobs.begin({ kind: "find", video: info.video, masks: info.masks, objects: info.objects, folder, states, object, exhaustive,
      encoder: encoder.trim(), ...sampling(info), revision: "new" }).catch(tell);
  };
  const left = same.filter((finding) => finding !== id && !others.includes(finding));
  return html`${others.map((other, n) => html`<${Reading} name=${other} reading=${readings[n] || {}} acts=${html`
      <a class="button" href=${link("finding", other)}>Open</a>
      <button type="button" class="quiet" aria-label=${`remove ${other}`}
      onClick=${() => setOthers(others.filter((finding) => finding !== other))}>×</button>`} />`)}
    ${job && job.state !== "done" && html`<${Job} job=${job} jobs=${jobs} small=${true} />`}
    ${left.length > 0 && html`<label class="line">With another finding of this video<select value=""
      onChange=${(event) => { if (event.target.value) setOthers([...others, event.target.value]);
        event.target.value = ""; }}>
      <option value="">choose …</option>${left.map((finding) => html`<option value=${finding}>${finding}</option>`)}</select>
      </label>`}
    ${info.video && info.masks && html`<form class="line" onSubmit=${begin}><label class="line">With another encoder
      <input list="encoders" value=${encoder} placeholder="siglip2-large" required
        onInput=${(event) => setEncoder(event.target.value)} /></label>
      <datalist id="encoders">${about.encoders.map((name) => html`<option value=${name} />`)}</datalist>
      <button disabled=${!encoder.trim() || ["running", "waiting"].includes(job?.state)}>Encode</button></form>`}`;
}

// The same words in other readouts and coordinates, and with other encoders.
export function Compare({ id, info, request, change, scene, about, jobs, same }) {
  const [chosen, setChosen] = useDraft(`readings ${id}`, () => [["timeline", null], ["contrast", null]]),
    [next, setNext] = useDraft(`reading ${id}`, () => ["contrast", "trajectory"]);
  const { states, object, examples, changes, exhaustive } = request;
  const readings = chosen.map(([readout, coordinates]) => ({ readout, coordinates }));
  const [compared = []] = useReadings([{ states, object, examples, changes, exhaustive, readings, most: 1000 }],
    () => `findings/${place(id)}/compare`);
  const results = compared.problem ? readings.map(() => compared) : compared;
  return html`<div class="compare">
    <${Reading} name="now" reading=${{ scene }} />
    ${chosen.map(([readout, coordinates], n) => html`<${Reading} reading=${results[n] || {}}
      name=${[readout, coordinates].filter(Boolean).join(", ")} acts=${html`
      <button type="button" onClick=${() => change({ readout, coordinates })}>Use</button>
      <button type="button" class="quiet" aria-label=${`remove ${readout}`}
        onClick=${() => setChosen(chosen.filter((_, at) => at !== n))}>×</button>`} />`)}
    <div class="line wrap"><select aria-label="readout" value=${next[0]}
      onChange=${(event) => setNext([event.target.value, next[1]])}>${about.readouts.map((name) =>
      html`<option value=${name}>${name}</option>`)}</select>
      <select aria-label="coordinates" value=${next[1]}
        onChange=${(event) => setNext([next[0], event.target.value])}>${about.coordinates.map((name) =>
        html`<option value=${name}>${name}</option>`)}</select>
      <button type="button" disabled=${chosen.length >= 12}
        onClick=${() => setChosen([...chosen, next])}>Compare</button></div>
    <${Encoders} id=${id} info=${info} request=${request} about=${about} jobs=${jobs} same=${same} />
  </div>`;
}
