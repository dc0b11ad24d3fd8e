// What was confirmed in a finding answers other videos; their findings, the least sure first.

import { place } from "./api.js";
import { Kept, draftNames } from "./drafts.js";
import { useForm } from "./forms.js";
import { Job } from "./jobs.js";
import { Problem, html, link, noAnswer, titleOf, useEffect, useFetch, useRest, useState } from "./ui.js";
import { Bars, answersOf } from "./workspace.js";

const MIN_STATES = 2, ALL = "all", REST_MS = 300;
// After how many answers they are listed anew: each at first, then a twentieth of them at once, so that long jobs stay quick.
const listedOf = (count) => count - count % Math.ceil((count + 1) / 20);
const isConfirmed = (row) => row.confirmed.length >= MIN_STATES;
const folderOf = (id) => id.split("/").slice(0, -1).join("/");

// What the choice of the form means: {videos}, {store} or, for all videos, nothing.
function targetOf(to, videos) {
  if (to === ALL) return {};
  const [kind, id] = [to.slice(0, to.indexOf(" ")), to.slice(to.indexOf(" ") + 1)];
  if (kind === "store") return { store: id };
  return { videos: kind === "video" ? [id] : videos.filter((video) => folderOf(video) === id) };
}

function Form({ id, about, teaching, fields, job, jobs }) {
  const [problem, setProblem] = useState(""), { confirmed, teachers } = teaching, { values: form, set, begun } = fields;
  const others = teachers.filter((teacher) => teacher.id !== id), chosen = [id, ...others.map(({ id: other }) => other)
    .filter((other) => form.teachers?.includes(other) ?? other.startsWith(`${form.folder.trim()}/`))];
  const turn = (other) => set({ teachers: chosen.includes(other) ? chosen.filter((name) => name !== other)
    : [...chosen, other] });
  const { videos, stores } = about, folders = [...new Set(videos.map(folderOf))].filter(Boolean);
  const busy = ["running", "waiting"].includes(job?.state);
  const send = (event) => {
    event.preventDefault();
    setProblem("");
    jobs.begin({ kind: "apply", teachers: chosen, folder: form.folder.trim(), ...targetOf(form.to, videos) }, () => fields.sent(begun, true))
      .catch((error) => setProblem(error.message));
  };
  if (confirmed.length < MIN_STATES) return html`<p class="note">${confirmed.length ? `Only "${confirmed[0]}" is confirmed here.`
    : "Nothing is confirmed here yet."} Mark frames of two or more states in
    ${" "}<a href=${link("finding", id)}>${titleOf(id, about)}</a> (strip, or Show it) and save; then they can answer other videos.</p>`;
  return html`<form class="grid form" onSubmit=${send}><${Kept} name=${fields.name} take=${fields.take} />
    <p>Confirmed in ${titleOf(id, about)}: ${confirmed.join(", ")}.</p>
    ${others.length > 0 && html`<fieldset><legend>Teachers beside it</legend>${others.map((other) => html`
      <label class="check" key=${other.id}><input type="checkbox" checked=${chosen.includes(other.id)}
        onChange=${() => turn(other.id)} />${other.id}: ${other.confirmed.join(", ")}</label>`)}</fieldset>`}
    <label>Apply to<select value=${form.to} onChange=${(event) => set({ to: event.target.value })}>
      <option value=${ALL}>all other videos of the workspace</option>
      ${folders.map((folder) => html`<option value=${`folder ${folder}`}>videos in ${folder}</option>`)}
      ${videos.map((video) => html`<option value=${`video ${video}`}>${video}</option>`)}
      ${stores.map((store) => html`<option value=${`store ${store}`}>store ${store}: what looks most like its object</option>`)}
    </select></label>
    <label>Folder for the findings<input value=${form.folder} required
      onInput=${(event) => set({ folder: event.target.value })} /></label>
    <${Problem}>${problem}</${Problem}>
    <div><button class="main" disabled=${busy}>Apply</button></div></form>`;
}

// A path that wraps after its slashes.
const breakable = (path) => path.split("/").map((part, n) => html`${n > 0 && html`/<wbr />`}${part}`);

const STAYS = "A person has saved it, so it stays as it is. For a new answer, choose another folder.";

function Answers({ rows, folder, jobRows }) {
  const next = rows.find((row) => !isConfirmed(row));
  return html`<section><h2>Answers <span class="soft">${rows.length}</span></h2>
    <p class="soft">The least sure first: trust is that of the state that is least sure. What you confirm moves to the end and
      can teach, too.</p>
    ${next && html`<p><a class="button" href=${link("finding", next.id)}>Look at the next one</a></p>`}
    <div class="scroll"><table class="wraps"><thead><tr><th scope="col">Finding</th><th scope="col">Trust</th><th scope="col">States</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.id}>
        <th scope="row"><a href=${link("finding", row.id)}>${breakable(row.id.slice(folder.length + 1))}</a></th>
        <td>${isConfirmed(row) ? "confirmed" : row.trust}</td>
        <td>${row.states.join(", ")}${row.problem || noAnswer(row.notes) ? html`<div class="problem">${row.problem || noAnswer(row.notes)}</div>`
          : html`<${Bars} answers=${answersOf(row)} />${row.notes.filter(({ severity }) => severity === "doubtful")
            .map(({ text }) => html`<div class="soft">${text}</div>`)}`}
          ${jobRows[row.id] && html`<div class="soft">${jobRows[row.id].object ? `Object: ${jobRows[row.id].object}` : STAYS}</div>`}</td>
      </tr>`)}</tbody></table></div></section>`;
}

// Videos without an answer, and why.
function Unanswered({ rows, videos }) {
  return html`<section><h2>Without an answer <span class="soft">${rows.length}</span></h2>
    <ul class="marks">${rows.map((row) => html`<li key=${row.name}><span>${videos.includes(row.name)
      ? html`<a href=${link("track", row.name)}>${row.name}</a>` : row.name}:
      ${" "}<span class="problem">${row.problem}</span></span></li>`)}</ul></section>`;
}

export function Apply({ id, about, again, jobs }) {
  const earlier = jobs.all.find((job) => job.kind === "apply" && job.request.teachers.includes(id));
  const usual = earlier?.request.folder ?? `like-${titleOf(id, about).replaceAll("/", "-")}`;
  const fields = useForm(`apply ${id}`, { to: ALL, folder: usual, teachers: null }), folder = fields.values.folder.trim() || usual;
  const job = jobs.all.find((each) => each.kind === "apply" && each.request.folder === folder);
  const { value, problem, again: reload } = useFetch(`teaching/${place(id)}?folder=${encodeURIComponent(folder)}`);
  const rest = useRest(() => { reload(); again(); }, REST_MS);
  const [latest, setLatest] = useState(null), teaching = value ?? latest, rows = job?.rows ?? [];
  useEffect(() => { if (value) setLatest(value); }, [value]);
  useEffect(rest, [listedOf(rows.length), job?.state]);
  const edited = draftNames().includes(`finding ${id}`), missing = rows.filter((row) => row.problem);
  if (!teaching) return html`<main class="narrow"><h1>Apply to other videos</h1><${Problem}>${problem}</${Problem}></main>`;
  return html`<main class="narrow"><header class="title"><h1>Apply to other videos</h1>
      <a href=${link("finding", id)}>${titleOf(id, about)}</a></header>
    ${edited && html`<p class="note">There are edits of ${titleOf(id, about)} that are not saved; what is saved is applied.</p>`}
    <${Problem}>${problem}</${Problem}>
    <${Form} id=${id} about=${about} teaching=${teaching} fields=${fields} job=${job} jobs=${jobs} />
    ${job && job.state !== "done" && html`<${Job} job=${job} jobs=${jobs} small=${true} />`}
    ${teaching.rows.length > 0 && html`<${Answers} rows=${teaching.rows} folder=${folder}
      jobRows=${Object.fromEntries(rows.map((row) => [row.finding, row]))} />`}
    ${missing.length > 0 && html`<${Unanswered} rows=${missing} videos=${about.videos} />`}
  </main>`;
}
