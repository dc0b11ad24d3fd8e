// Jobs: how far they are, stop, go on.

import { ENDED, fetchJson, follow } from "./api.js";
import { Problem, go, html, link, tell, titleOf, useCallback, useEffect, useRef, useState } from "./ui.js";

const WHAT = { find: "Find states", look: "Look for an object", track: "Track an object", weights: "Fetch weights",
  apply: "Apply to other videos" };

// All jobs, kept up to date; begin(request, done) → the job. done(): when it is done, whether or not its view is shown
export function useJobs(on) {
  const [all, setAll] = useState([]), streams = useRef(new Map()), waiting = useRef(new Map());
  // what has ended stays so: an answer that was sent before may come after it
  const latest = (known, job) => (ENDED.includes(known.state) && !ENDED.includes(job.state) ? known : job);
  const put = useCallback((job) => {
    setAll((now) => (now.some((other) => other.id === job.id) ? now.map((other) => (other.id === job.id ? latest(other, job) : other))
      : [job, ...now]));
    if (job.state === "done") { waiting.current.get(job.id)?.(); waiting.current.delete(job.id); }
    if (!ENDED.includes(job.state) && !streams.current.has(job.id)) streams.current.set(job.id, follow(job.id, put));
  }, []);
  useEffect(() => {
    if (on) fetchJson("jobs").then((listed) => [...listed].reverse().forEach(put), tell);
    return () => { for (const stop of streams.current.values()) stop(); streams.current.clear(); };
  }, [on]);
  const sent = (path, options, done) => fetchJson(path, options).then((job) => {
    if (done) waiting.current.set(job.id, done);
    put(job);
    return job;
  });
  return {
    all,
    begin: (body, done) => sent("jobs", { body }, done),
    stop: (id) => sent(`jobs/${id}`, { method: "DELETE" }),
    again: (id) => sent(`jobs/${id}/again`, { method: "POST" }, waiting.current.get(id)).then((job) => {
      setAll((now) => now.filter((other) => other.id !== id));
      return job;
    }),
  };
}

const MEGABYTE = 1e6, amount = ({ stage, done, total }) => (stage === "download"
  ? `${Math.round(done / MEGABYTE)} / ${Math.round(total / MEGABYTE)} MB` : `${done} / ${total}`);
const share = (job) => (job.total ? job.done / job.total : null);

export function Running({ jobs }) {
  const job = jobs.find((each) => each.state === "running"), part = job && share(job);
  if (!job) return null;
  return html`<a class="running"
    href=${link("jobs")}>${WHAT[job.kind]} ${part === null ? "…" : `${Math.floor(100 * part)} %`}</a>`;
}

export function Job({ job, jobs, small, about }) {
  const part = share(job), open = !ENDED.includes(job.state), finding = job.result?.finding;
  const at = `${job.stage || "starting"} ${job.total ? amount(job) : ""}`,
    state = { running: at, interrupted: job.stage ? `interrupted: ${at}` : "interrupted" };
  return html`<div class="job ${job.state}">
    ${!small && html`<b>${WHAT[job.kind]}</b> <span class="soft">${titleOf(job.request.folder || job.request.models?.join(", ") || "", about)}</span>`}
    <span class="state">${state[job.state] ?? job.state}</span>
    ${open && html`<progress max="1" value=${part ?? undefined} aria-label="progress"></progress>`}
    ${job.note && open && !small && html`<span class="soft">${job.note}</span>`}
    <span class="acts">
      ${open && html`<button type="button" onClick=${() => jobs.stop(job.id).catch(tell)}>Stop</button>`}
      ${["failed", "stopped", "interrupted"].includes(job.state) &&
        html`<button type="button" onClick=${() => jobs.again(job.id).catch(tell)}>Continue</button>`}
      ${finding && html`<button type="button" class="main" onClick=${() => go("finding", finding)}>Open</button>`}
      ${job.kind === "apply" && !small && html`<a class="button" href=${link("apply", job.request.teachers[0])}>Answers</a>`}
    </span>
    ${job.state === "failed" && html`<${Problem}>${job.problem}</${Problem}>`}
  </div>`;
}

export function Jobs({ jobs, about }) {
  return html`<main class="narrow"><h1>Jobs</h1>
    ${jobs.all.length ? jobs.all.map((job) => html`<${Job} key=${job.id} job=${job} jobs=${jobs} about=${about} />`)
      : html`<p class="empty">No jobs yet. Open a video in the workspace, mark its object, and start one.</p>`}
  </main>`;
}
