// Requests to the studio. What goes wrong is an Error whose message is the sentence to show. While the studio does
// not answer, requests that may be sent twice wait until it does.

import { unpack } from "./report/timeline.js";

export const place = (id) => id.split("/").map(encodeURIComponent).join("/");
export const frameAddress = (video, frame, width) =>
  `/api/videos/${place(video)}/frames/${frame}.jpg${width ? `?width=${width}` : ""}`;

async function problemOf(answer) {
  try {
    const { detail, revision } = await answer.json();
    return Object.assign(new Error(detail || answer.statusText), { revision });
  } catch {
    return new Error(`the studio answered with status ${answer.status}`);
  }
}

// ---------------------------------------------------------------- the connection

const BEAT_MS = 2000, FIRST_WAIT_MS = 250, MAX_WAIT_MS = 8000, SILENCE_MS = 30_000, MAX_TRIES = 5;
const watchers = new Set();
let lost = null, beating = false;  // lost: until the studio answers again, a promise that it does

// hear(whether the connection is lost)
export const watchConnection = (hear) => { watchers.add(hear); return () => watchers.delete(hear); };
const announce = (state) => { for (const hear of watchers) hear(state); };
const answers = () => fetch("/", { signal: AbortSignal.timeout(SILENCE_MS) }).then(() => true, () => false);
const rest = (ms) => new Promise((go) => setTimeout(go, ms));

function reconnect() {
  lost ??= (async () => {
    if (!await answers()) {
      announce(true);
      for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, MAX_WAIT_MS)) {
        await rest(wait);
        if (await answers()) break;
      }
      announce(false);
    }
    lost = null;
  })();
  return lost;
}

setInterval(async () => {
  if (lost || beating || document.hidden) return;
  beating = true;
  if (!await answers()) reconnect();
  beating = false;
}, BEAT_MS);

const safe = ({ method }, path) => method !== "POST" || /\/(read|compare|preview|strip|mark)$/.test(path);

async function send(path, options) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await fetch(`/api/${path}`, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      const back = reconnect();
      if (!safe(options, path) || tries > MAX_TRIES) throw new Error("the connection to the studio was lost; try again");
      await back;
      options.signal?.throwIfAborted();
    }
  }
}

export async function fetchJson(path, options) { return (await fetchOk(path, options)).json(); }

// Gives the answer to the person as a file, under the name that the studio gives it.
export async function download(path) {
  const answer = await fetchOk(path),
    named = /filename\*=UTF-8''([^;]+)/.exec(answer.headers.get("content-disposition"));
  const href = URL.createObjectURL(await answer.blob());
  Object.assign(document.createElement("a"), { href, download: named ? decodeURIComponent(named[1]) : "" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);  // by then it is taken
}

async function fetchOk(path, { method, body, signal } = {}) {
  const options = { method: method || (body === undefined ? "GET" : "POST"), signal, headers: {} };
  if (body instanceof Blob) options.body = body;
  else if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await send(path, options);
  if (answer.ok) return answer;
  throw Object.assign(await problemOf(answer), { status: answer.status });
}

// Sends a file; progress(share) hears how much of it has arrived. fetch cannot tell.
export function upload(file, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.upload.onprogress = ({ loaded, total }) => progress(total ? loaded / total : 0);
    request.onload = () => {
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* not ours */ }
      if (request.status < 300) resolve(answer);
      else reject(new Error(answer.detail || `the studio answered with status ${request.status}`));
    };
    request.onerror = () => reject(new Error(`${file.name} did not arrive; is the studio still running?`));
    request.open("POST", `/api/uploads?name=${encodeURIComponent(file.name)}`);
    request.send(file);
  });
}

// All that a player needs to know of a video.
export async function openVideo(id) {
  const about = await fetchJson(`videos/${place(id)}/info`);
  const { start, times } = await fetchJson(`videos/${place(id)}/times`);
  return { ...about, start, times: times && unpack(times) };
}

export const ENDED = ["done", "failed", "stopped", "interrupted"];

// Hears of a job until it has ended, also after the connection was lost; what it returns stops listening.
export function follow(job, heard) {
  let source;
  const stop = () => { source.close(); source = null; };
  const hear = (now) => { if (ENDED.includes(now.state)) stop(); heard(now); };
  const open = () => {
    let known = { rows: [] };  // the first message is the whole job, others are what has changed
    source = new EventSource(`/api/jobs/${job}/events`);
    source.onmessage = ({ data }) => {
      const changes = JSON.parse(data);
      known = { ...known, ...changes, rows: changes.rows.length ? [...known.rows, ...changes.rows] : known.rows };
      hear(known);
    };
    source.onerror = async () => {
      source.close();
      const now = await fetchJson(`jobs/${job}`).catch(() => null);
      if (!source || !now) return;
      hear(now);
      if (source) open();
    };
  };
  open();
  return () => { if (source) stop(); };
}
