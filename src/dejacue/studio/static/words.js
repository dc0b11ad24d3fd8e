// The words: states and descriptions to edit, how they are read, and several readings side by side.

import { ask, place } from "./api.js";
import { Dialog, Problem, html, say, tell, useEffect, useState } from "./ui.js";
import { Bars } from "./workspace.js";

// The states with their descriptions, one a line. on: name(n, name), text(n, text), drop(n), add()
export function States({ states, on, examples = [] }) {
  return html`${states.map((own, n) => html`<fieldset key=${own.key ?? n}>
      <legend class="hidden">state ${own.name || n + 1}</legend>
      <div class="line"><span class="badge c${n % 7}">${n + 1}</span>
        <input class="name" aria-label=${`name of state ${n + 1}`} value=${own.name} placeholder=${examples[n]?.[0]}
          onInput=${(event) => on.name(n, event.target.value)} />
        <button type="button" class="quiet" aria-label=${`remove ${own.name || `state ${n + 1}`}`} title="remove"
          disabled=${states.length < 3} onClick=${() => on.drop(n)}>×</button></div>
      <textarea rows=${Math.max(own.text.split("\n").length, 2)} placeholder=${examples[n]?.[1]}
        aria-label=${`descriptions of ${own.name || `state ${n + 1}`}, one a line`} value=${own.text}
        spellcheck="false" onInput=${(event) => on.text(n, event.target.value)}></textarea></fieldset>`)}
    <button type="button" onClick=${on.add}>Add a state</button>`;
}

// The words of a list in the workspace: take({object, states: [{name, text}]})
export function WordLists({ about, take }) {
  if (!about.vocabularies.length) return null;
  const choose = (event) => {
    const id = event.target.value;
    event.target.value = "";
    const taken = ({ object, states }) => take({ object: object || "", states: Object.entries(states).map(
      ([name, texts]) => ({ key: Math.random(), name, text: texts.join("\n") })) });
    if (id) ask(`vocabularies/${place(id)}`).then(taken, tell);
  };
  return html`<label class="line">Words of<select value="" onChange=${choose}>
    <option value="">a word list …</option>${about.vocabularies.map((id) =>
    html`<option value=${id}>${id}</option>`)}</select></label>`;
}

function SaveList({ asked, onClose, again }) {
  const [name, setName] = useState("words.yaml"), [problem, setProblem] = useState("");
  const send = async (event) => {
    event.preventDefault();
    try {
      const { states, object } = asked();
      await ask(`vocabularies/${place(name.trim())}`, { method: "PUT", body: { states, object } });
      say(`written: ${name.trim()}`);
      again();
      onClose();
    } catch (error) { setProblem(error.message); }
  };
  return html`<${Dialog} title="Keep these words" onClose=${onClose}><form onSubmit=${send}>
    <label>File in the workspace (.yaml)<input value=${name} required
      onInput=${(event) => setName(event.target.value)} /></label><${Problem}>${problem}</${Problem}>
    <p class="soft">Other videos can be asked with it: <code>dejacue locate … --vocabulary ${name}</code></p>
    <button class="main">Save</button></form></${Dialog}>`;
}

// asked: () → the request of these words
export function Words({ words, change, scene, about, problem, busy, asked, again }) {
  const [listing, setListing] = useState(false), { states, examples } = words;
  const on = {
    name: (n, name) => change({
      states: states.map((own, at) => (at === n ? { ...own, name } : own)),
      examples: examples.map((own) => (own.state === states[n].name ? { ...own, state: name } : own)),
    }, `name ${n}`),
    text: (n, text) => change({ states: states.map((own, at) => (at === n ? { ...own, text } : own)) }, `text ${n}`),
    drop: (n) => change({
      states: states.filter((_, at) => at !== n),
      examples: examples.filter((own) => own.state !== states[n].name),
    }),
    add: () => change({ states: [...states, { key: Math.random(), name: `state ${states.length + 1}`, text: "" }] }),
  };
  // what was shown of a state that the list does not have is not kept
  const take = (list) => change({ ...list, examples: examples.filter((own) =>
    own.state === null || list.states.some((one) => one.name === own.state)) });
  const settings = scene.settings || {}, read = settings.readout?.name;
  const choice = (name, label, values, now) => html`<label>${label}<select value=${words[name] ?? ""}
      onChange=${(event) => change({ [name]: event.target.value || null })}>
    <option value="">as it was${now ? ` (${now})`
      : ""}</option>${values.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>`;
  return html`<div class="words" aria-busy=${busy}>
    <${Problem}>${problem}</${Problem}>
    <label class="line">Object<input value=${words.object} placeholder="cup"
      onInput=${(event) => change({ object: event.target.value }, "object")} /></label>
    <${States} states=${states} on=${on} />
    <p class="soft">One description a line. The intervals follow what you write.</p>
    <div class="line wrap"><${WordLists} about=${about} take=${take} />
      <button type="button" onClick=${() => setListing(true)}>Keep these words …</button></div>
    ${listing && html`<${SaveList} asked=${asked} again=${again} onClose=${() => setListing(false)} />`}
    <details><summary>How it is read</summary><div class="grid">
      ${choice("readout", "Readout", about.readouts, read)}
      ${choice("coordinates", "Coordinates", about.coordinates, settings.coordinates)}
      <label>Windows a state<input type="number" min="1" max="100" value=${words.top ?? ""}
        placeholder=${settings.top ?? "1"}
        onInput=${(event) => change({ top: event.target.value ? Number(event.target.value) : null }, "top")} />
          </label>
      <label>Absent when as likely by chance<input type="number" min="0" max="1" step="0.01"
        value=${words.absent_at ?? ""} placeholder="never"
        onInput=${(event) => change({ absent_at: event.target.value ? Number(event.target.value) : null },
          "absent")} /></label>
    </div></details>
  </div>`;
}

const moments = (scene) => scene.rows.map((row) =>
  ({ state: row.state, absent: true, start: 0, end: 0, ...row.windows[0] }));

// The same words in other readouts and coordinates, and in other findings of the same video.
export function Compare({ id, asked, words, change, scene, about }) {
  const [chosen, setChosen] = useState([["contrast", null], ["joint", null]]), [found, setFound] = useState([]);
  const [problem, setProblem] = useState(""), [next, setNext] = useState(["contrast", "trajectory"]),
    [others, setOthers] = useState([]);
  useEffect(() => {
    const stop = new AbortController(), { states, object, examples, changes } = asked;
    const readings = chosen.map(([readout, coordinates]) => ({ readout, coordinates }));
    ask(`findings/${place(id)}/compare`,
      { body: { states, object, examples, changes, readings, most: 1000 }, signal: stop.signal })
      .then((made) => { setFound(made); setProblem(""); }, (error) => error.name !== "AbortError" &&
        setProblem(error.message));
    return () => stop.abort();
  }, [chosen, asked]);
  const add = (other) => other && ask(`findings/${place(other)}/scene?most=1000`)
    .then((made) => setOthers([...others, { id: other, scene: made }]), (error) => setProblem(error.message));
  const strip = (name, own, acts) =>
    html`<div class="reading"><div class="line"><b>${name}</b><span class="acts">${acts}</span></div>
    ${own.problem ? html`<${Problem}>${own.problem}</${Problem}>`
      : html`<${Bars} moments=${moments(own.scene)} last=${own.scene.axis.last} />
      <p class="soft">${moments(own.scene).map((one) =>
        `${one.state} ${one.absent ? "absent" : `${one.start} – ${one.end}`}`).join(" · ")}</p>`}</div>`;
  return html`<div class="compare"><${Problem}>${problem}</${Problem}>
    ${strip("now", { scene })}
    ${found.map((own, n) => strip([own.reading.readout, own.reading.coordinates].filter(Boolean).join(", "), own,
      html`
      <button type="button" onClick=${() =>
        change({ readout: own.reading.readout, coordinates: own.reading.coordinates })}>Use</button>
      <button type="button" class="quiet" aria-label="remove"
        onClick=${() => setChosen(chosen.filter((_, at) => at !== n))}>×</button>`))}
    ${others.map((own) => strip(own.id, own,
      html`<button type="button" class="quiet" aria-label="remove"
      onClick=${() => setOthers(others.filter((one) => one !== own))}>×</button>`))}
    <div class="line wrap"><select aria-label="readout" value=${next[0]}
      onChange=${(event) => setNext([event.target.value, next[1]])}>${about.readouts.map((one) =>
      html`<option value=${one}>${one}</option>`)}</select>
      <select aria-label="coordinates" value=${next[1]}
        onChange=${(event) => setNext([next[0], event.target.value])}>${about.coordinates.map((one) =>
        html`<option value=${one}>${one}</option>`)}</select>
      <button type="button" disabled=${chosen.length >= 12}
        onClick=${() => setChosen([...chosen, next])}>Compare</button></div>
    ${about.findings.length > 1 &&
      html`<label class="line">With another finding<select value=""
      onChange=${(event) => { add(event.target.value); event.target.value = ""; }}>
      <option value="">choose …</option>${about.findings.filter((one) => one !== id).map((one) =>
        html`<option value=${one}>${one}</option>`)}</select></label>`}
  </div>`;
}
