// Requests to the studio. What goes wrong is an Error whose message is the sentence to show.

import { unpack } from "./report/timeline.js";

export const place = (id) => id.split("/").map(encodeURIComponent).join("/");
export const frameAddress = (video, frame, width) =>
  `/api/videos/${place(video)}/frames/${frame}.jpg${width ? `?width=${width}` : ""}`;

async function problemOf(answer) {
  try {
    return (await answer.json()).detail || answer.statusText;
  } catch {
    return `the studio answered with status ${answer.status}`;
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
  let answer;
  try {
    answer = await fetch(`/api/${path}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the studio does not respond; is it still running?");
  }
  if (answer.ok) return answer;
  throw Object.assign(new Error(await problemOf(answer)), { status: answer.status });
}

// All that a player needs to know of a video.
export async function openVideo(id) {
  const about = await fetchJson(`videos/${place(id)}/info`);
  const { start, times } = await fetchJson(`videos/${place(id)}/times`);
  return { ...about, start, times: times && unpack(times) };
}

// Hears of a job until it has ended; what it returns stops listening.
export function follow(job, heard) {
  const source = new EventSource(`/api/jobs/${job}/events`);
  source.onmessage = ({ data }) => {
    const now = JSON.parse(data);
    if (["done", "failed", "stopped"].includes(now.state)) source.close();
    heard(now);
  };
  return () => source.close();
}
