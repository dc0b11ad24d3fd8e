// The words: states and descriptions to edit, how they are read, and several readings side by side.

import { ask, place } from "./api.js";
import { Problem, html, useEffect, useState } from "./ui.js";
import { Bars } from "./workspace.js";

export function Words({ words, change, scene, about, problem, busy }) {
  const set = (n, some, key) => change({ states: words.states.map((own, at) =>
    (at === n ? { ...own, ...some } : own)) }, key);
  const drop = (n) => change({
    states: words.states.filter((_, at) => at !== n),
    examples: words.examples.filter((own) => own.state !== words.states[n].name),
  });
  const rename = (n, name) => change({
    states: words.states.map((own, at) => (at === n ? { ...own, name } : own)),
    examples: words.examples.map((own) => (own.state === words.states[n].name ? { ...own, state: name } : own)),
  }, `name ${n}`);
  const settings = scene.settings || {}, read = settings.readout?.name;
  const choice = (name, label, values, now) => html`<label>${label}<select value=${words[name] ?? ""}
      onChange=${(event) => change({ [name]: event.target.value || null })}>
    <option value="">as it was${now ? ` (${now})`
      : ""}</option>${values.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>`;
  return html`<div class="words" aria-busy=${busy}>
    <${Problem}>${problem}</${Problem}>
    <label class="line">Object<input value=${words.object} placeholder="cup"
      onInput=${(event) => change({ object: event.target.value }, "object")} /></label>
    ${words.states.map((own, n) => html`<fieldset key=${own.key}><legend class="hidden">state ${own.name}</legend>
      <div class="line"><span class="badge c${n % 7}">${n + 1}</span>
        <input class="name" aria-label=${`name of state ${n + 1}`} value=${own.name}
          onInput=${(event) => rename(n, event.target.value)} />
        <button type="button" class="quiet" aria-label=${`remove ${own.name}`} title="remove"
          disabled=${words.states.length < 3} onClick=${() => drop(n)}>×</button></div>
      <textarea rows=${Math.max(own.text.split("\n").length, 2)}
        aria-label=${`descriptions of ${own.name}, one a line`} value=${own.text} spellcheck="false"
        onInput=${(event) => set(n, { text: event.target.value }, `text ${n}`)}></textarea></fieldset>`)}
    <button type="button" onClick=${() =>
      change({ states: [...words.states,
      { key: Math.random(), name: `state ${words.states.length + 1}`, text: "" }] })}>Add a state</button>
    <p class="soft">One description a line. The intervals follow what you write.</p>
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
