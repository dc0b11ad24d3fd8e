// All findings in a table: filter, sort, open, measure against references.

import { useDraft } from "./forms.js";
import { Job } from "./jobs.js";
import { Problem, count, html, link, noAnswer, tell, titleOf, useFetch, useEffect, useKeys, useRef, useRest,
  useState } from "./ui.js";
import { Bars, answersOf } from "./workspace.js";

const COLUMNS = [
  ["id", "Finding", (row) => row.id], ["object", "Object", (row) => row.object || ""],
    ["states", "States", (row) => row.states.length],
  ["score", "Score", (row) => best(row) ?? -Infinity], ["doubts", "Doubts", (row) => row.doubts],
    ["tiou", "tIoU", (row) => row.tiou ?? -1], ["readout", "Readout", (row) => row.readout || ""],
];
const NUMBERS = ["score", "doubts", "tiou"];
const METRICS = { r1_03: "R@1 .3", r1_05: "R@1 .5", top1_tiou: "Top-1 tIoU" };
// The mean score of its answers.
function best(row) {
  const scores = row.intervals.map((interval) => interval.score);
  return scores.length ? scores.reduce((sum, score) => sum + score, 0) / scores.length : null;
}
const percent = (value) => (100 * value).toFixed(1);

function Measured({ result }) {
  const resampled = Object.values(result.methods).some((scores) => scores.r1_03.low !== null);
  return html`<div class="scroll"><table>
    <caption class="soft">${count(result.counts.histories ?? 0, "history", "histories")} with references;
      ${" "}${resampled ? "95 % intervals, components resampled"
        : "they are one component, so there is nothing to resample for an interval"}</caption>
    <thead><tr><th scope="col">Method</th>${Object.values(METRICS).map((name) =>
      html`<th scope="col" class="number">${name} %</th>`)}</tr></thead>
    <tbody>${Object.entries(result.methods).map(([name, scores]) =>
      html`<tr><th scope="row">${name}</th>${Object.keys(METRICS).map((metric) => {
      const { mean, low, high } = scores[metric];
      return html`<td class="number">${percent(mean)}
        ${low !== null && html` <span class="soft">${percent(low)} – ${percent(high)}</span>`}</td>`;
    })}</tr>`)}</tbody></table>
    ${result.left_out.length > 0 && html`<details><summary>Left out</summary>
      ${result.left_out.map((text) => html`<p class="soft">${text}</p>`)}</details>`}</div>`;
}

export function Corpus({ jobs, about }) {
  const [filter, setFilter] = useDraft("corpus", () => ""), [query, setQuery] = useState(filter),
    [[key, down], setOrder] = useState(["id", false]);
  const { value, problem, again } = useFetch(`corpus?limit=2000&filter=${encodeURIComponent(query)}`),
    rest = useRest(setQuery, 200), field = useRef(), latest = useRef(null);
  if (value) latest.current = value;
  const table = latest.current, job = jobs.all.find((each) => each.kind === "evaluate"),
    of = COLUMNS.find(([name]) => name === key)[2];
  const order = (a, b) => (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0) * (down ? -1 : 1);
  useEffect(() => { if (job?.state === "done") again(); }, [job?.state]);
  useKeys([{ keys: ["/"], does: "filter", act: () => field.current.focus() }]);
  const measure = () => jobs.begin({ kind: "evaluate" }).catch(tell);
  return html`<main><header class="title"><h1>Corpus</h1>
    <span class="soft">${table ? count(table.count, "finding") : ""}</span>
      <span class="acts"><input ref=${field} type="search" aria-label="filter" placeholder="filter: cup full …"
        value=${filter}
        onInput=${(event) => { setFilter(event.target.value); rest(event.target.value); }} />
      <button type="button" onClick=${measure}
        disabled=${["running", "waiting"].includes(job?.state)}>Measure against references</button></span></header>
    <${Problem}>${problem}</${Problem}>
    ${job && html`<section>${job.state === "done" ? html`<${Measured} result=${job.result} />`
      : html`<${Job} job=${job} jobs=${jobs} about=${about} />`}</section>`}
    ${table && !table.rows.length &&
      html`<p class="empty">${query ? "No finding matches these words in its name, object or states."
      : "There are no findings in this folder yet. Open a video in the workspace, mark its object, and start."}</p>`}
    ${table?.rows.length > 0 && html`<div class="scroll"><table><thead><tr>${COLUMNS.map(([name, text]) => html`
        <th scope="col" class=${NUMBERS.includes(name) ? "number" : ""}
          aria-sort=${key === name ? (down ? "descending" : "ascending") : "none"}>
          <button type="button" onClick=${() => setOrder([name, key === name && !down])}>${text}${key === name ?
            (down ? " ↓" : " ↑") : ""}</button></th>`)}</tr></thead>
      <tbody>${[...table.rows].sort(order).map((row) => html`<tr key=${row.id}>
        <th scope="row"><a href=${link("finding", row.id)}>${titleOf(row.id, about)}</a>${row.problem &&
          html`<div class="problem">${row.problem}</div>`}</th>
        <td>${row.object}</td><td>${row.states.join(", ")}${noAnswer(row.notes)
          ? html`<div class="problem">${noAnswer(row.notes)}</div>` : html`<${Bars} answers=${answersOf(row)} />`}</td>
        <td class="number">${best(row)?.toFixed(2) ?? ""}</td>
          <td class="number">${row.doubts || ""}</td>
        <td class="number"
          title=${row.references ? `references: ${row.references}` : null}>
          ${row.tiou === null ? "" : row.tiou.toFixed(2)}</td><td>${row.readout}</td></tr>`)}</tbody>
          </table></div>`}
  </main>`;
}
