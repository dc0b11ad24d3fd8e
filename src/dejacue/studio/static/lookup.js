// Where the object is, without drawing: found by its name, or the whole picture; and the weights that are missing for it.

import { Job } from "./jobs.js";
import { FIXED } from "./show.js";
import { Problem, equal, html, tell, useEffect, useFetch } from "./ui.js";

const NO_PROMPTS = [], NAMES = /\s*,\s*/;
export const namesOf = (text) => text.split(NAMES).map((name) => name.trim()).filter(Boolean);

// Where the object is, in one way of those that the form keeps: boxes and clicks count while no other is chosen.
export const promptsOf = ({ whole, taken, prompts }) => (whole || taken !== null ? NO_PROMPTS : prompts);
export const whereOf = (form, fixed) => (form.whole ? { whole: true } : form.taken !== null
  ? { name: form.found.names, objects: [form.taken] } : { prompts: form.prompts, fixed });
const instancesOf = ({ whole, found }) => (whole ? [] : found?.instances ?? []);

const isOpen = (job) => ["running", "waiting"].includes(job?.state);

// The instances that were found by name, of which one is taken with a click. form.taken: its number
export function Found({ form, set, film, jobs, look }) {
  const several = [...new Map(instancesOf(form).map((one) => [one.object, one])).values()];
  const take = ({ object, frame }) => { set({ taken: object }); film.seek(frame); };
  return html`${look && look.state !== "done" && html`<${Job} job=${look} jobs=${jobs} small=${true} />`}
    ${several.length > 0 && html`<div class="found" role="radiogroup" aria-label="what was found">${several.map((one) => html`
      <button type="button" role="radio" aria-checked=${one.object === form.taken} onClick=${() => take(one)}>${one.text}</button>`)}
      <button type="button" class="quiet" onClick=${() => set({ found: null, taken: null })}>Forget them</button></div>`}`;
}

// The field "Find" beside the box tool. look: the latest job that looks for it; form.looked: what was heard of already;
// form.asked: what was marked when it began. What was marked since stays.
export function FindField({ form, set, jobs, video, look, sampled }) {
  const names = namesOf(form.find);
  useEffect(() => {
    const { instances } = look?.result ?? {};
    if (!instances || form.looked === look.id) return;
    const found = { names: look.request.name, instances }, { prompts, whole } = form.asked ?? { prompts: [], whole: false };
    set({ looked: look.id, found, ...(equal([prompts, whole], [form.prompts, form.whole])
      ? { taken: instances[0].object, whole: false } : { taken: null }) });
  }, [look?.id, look?.state]);
  const send = (event) => {
    event.preventDefault();
    set({ asked: { prompts: form.prompts, whole: form.whole } });
    jobs.begin({ kind: "look", video: video.id, folder: form.folder.trim(), name: names, encoder: form.encoder.trim() || null, ...sampled })
      .catch(tell);
  };
  return html`<form class="line find" onSubmit=${send}><input type="search" aria-label="find the object by its name" value=${form.find}
      placeholder=${form.object || "name of the object"} onInput=${(event) => set({ find: event.target.value })} />
    <button disabled=${!names.length || isOpen(look)}>Find</button></form>`;
}

// Instances in the frame on the screen; a click takes one. They do not cover boxes that count.
export const FoundBoxes = ({ form, frame, video, take }) => (promptsOf(form).length ? [] : instancesOf(form))
  .filter((one) => one.frame === frame)
  .map(({ object, box: [x0, y0, x1, y1], text }) => html`<button type="button" class="instance" title=${text}
    aria-pressed=${object === form.taken} aria-label=${`take ${text}`} onClick=${() => take(object)}
    style=${{ left: `${100 * x0 / video.width}%`, top: `${100 * y0 / video.height}%`,
      width: `${100 * (x1 - x0) / video.width}%`, height: `${100 * (y1 - y0) / video.height}%` }}>${object}</button>`);

// Weights that a job with this form would lack, with a button that fetches them.
export function Missing({ form, set, jobs, needs }) {
  const query = new URLSearchParams({ ...(form.encoder.trim() && { encoder: form.encoder.trim() }),
    ...(needs.tracker && form.tracker && form.tracker !== FIXED && { tracker: form.tracker }), by_name: needs.detector, tracked: needs.tracker });
  const job = jobs.all.find((each) => each.kind === "weights"), { value: models = [], problem } =
    useFetch(`jobs/missing?${query}&of=${job ? job.id + job.state : ""}`);
  if (problem || (!models.length && !isOpen(job))) return html`<${Problem}>${problem}</${Problem}>`;
  const fetchThem = () => jobs.begin({ kind: "weights", models: models.map(({ name }) => name) }).catch(tell);
  return html`<div class="note missing" role="group" aria-label="missing weights">
    ${models.length > 0 && html`<p>Not on this machine: ${models.map(({ name, kind, size, licence }) =>
      `${name} (${kind}, ${size}, ${licence})`).join("; ")}.</p>`}
    ${job && job.state !== "done" && html`<${Job} job=${job} jobs=${jobs} small=${true} />`}
    ${!isOpen(job) && job?.state !== "stopped" && html`<button type="button" onClick=${fetchThem}>Fetch ${models.length > 1 ? "them" : "it"}</button>`}
    ${models.some(({ kind }) => kind === "encoder") && html`${" "}<button type="button" onClick=${() => set({ encoder: "lite" })}>Continue with
      lite</button><span class="soft"> It knows no words: show a frame of each state.</span>`}
  </div>`;
}
