// What lies in the folder: findings to open, videos to begin with, a place to drop new ones.

import { frameAddress, place, upload } from "./api.js";
import { draftNames } from "./drafts.js";
import { useDraft } from "./forms.js";
import { Problem, count, html, link, nameOf, noAnswer, say, titleOf, useFetch, useRef, useState } from "./ui.js";

function Drop({ again }) {
  const [over, setOver] = useState(false), [busy, setBusy] = useState(null), [problem, setProblem] = useState("");
  const input = useRef();
  const take = async (files) => {
    setProblem("");
    for (const file of files) {
      setBusy({ name: file.name, share: 0 });
      try {
        const { id } = await upload(file, (share) => setBusy({ name: file.name, share }));
        say(`${id} was added to the workspace`);
      } catch (error) {
        setProblem(error.message);
      }
    }
    setBusy(null);
    again();
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    take([...event.dataTransfer.files]);
  };
  return html`<div class="drop ${over ? "over" : ""}"
    onDragOver=${(event) => { event.preventDefault(); setOver(true); }}
      onDragLeave=${() => setOver(false)} onDrop=${drop}>
    ${busy ? html`<span>${busy.share < 1 ? "Uploading" : "Checking"} ${busy.name}</span>
        <progress max="1" value=${busy.share} aria-label="upload"></progress>
        <span>${Math.round(100 * busy.share)} %</span>` : html`<span>Drop videos here, or</span>`}
    ${!busy && html`<button type="button" onClick=${() => input.current.click()}>choose files</button>`}
    <input type="file" ref=${input} multiple hidden accept="video/*,.mkv,.webm,.mov,image/*" aria-label="videos"
      onChange=${(event) => { take([...event.target.files]); event.target.value = ""; }} />
    <${Problem}>${problem}</${Problem}></div>`;
}

// The answers of a finding, for Bars: the occurrences of each state, in time.
export const answersOf = (row) => row.states.map((state) =>
  ({ state, windows: row.intervals.filter((interval) => interval.state === state) }));

const MOST_WRITTEN = 4;
export function framesOf({ windows }) {
  const written = windows.slice(0, MOST_WRITTEN).map(({ start, end }) => `${start} – ${end}`).join(", ");
  if (windows.length > MOST_WRITTEN) return `${written} and ${windows.length - MOST_WRITTEN} more`;
  return written || "not found";
}

// A row for each answer: {state, windows: [{start, end}]}
export function Bars({ answers, last }) {
  const end = Math.max(last ?? 0, ...answers.flatMap(({ windows }) => windows.map((window) => window.end))) + 1;
  return html`<svg class="bars" viewBox="0 0 100 ${answers.length * 5}" preserveAspectRatio="none" role="img"
      aria-label=${answers.map((answer) => `${answer.state}: ${framesOf(answer)}`).join(", ")}>
    ${answers.map((answer, n) => html`<rect class="back" x="0" y=${5 * n} width="100" height="4" />
      ${answer.windows.map((window) => html`<rect class="bar c${n % 7}" x=${100 * window.start / end}
        width=${100 * (window.end + 1 - window.start) / end} y=${5 * n} height="4" />`)}`)}
  </svg>`;
}

// How far the least sure state of a finding is to be trusted.
export const trustOf = (row) => row.trust && `trust: ${row.trust}`;

const worth = ({ confirmed, confidence }) => (confirmed ? 2 : confidence ?? 0);

function FindingCard({ row, about, begun }) {
  const best = row.intervals.reduce((one, other) => (one && worth(one) >= worth(other) ? one : other), null);
  const more = [trustOf(row), row.doubts > 0 && count(row.doubts, "doubt")].filter(Boolean).join(" · ");
  return html`<li><a class="card" href=${link("finding", row.id)}>
    <span class="picture">${best &&
      html`<img loading="lazy" alt=""
      src=${`/api/findings/${place(row.id)}/crops/${Math.round((best.start + best.end) / 2)}.jpg?width=160`}
      onError=${(event) => { event.target.hidden = true; }} />`}</span>
    <span class="about"><b>${titleOf(row.id, about)}</b>
      ${row.problem || noAnswer(row.notes) ? html`<span class="problem">${row.problem || noAnswer(row.notes)}</span>` : html`
        <span class="soft">${[row.object, row.states.join(" · ")].filter(Boolean).join(": ")}</span>
        <${Bars} answers=${answersOf(row)} />
        ${more && html`<span class="soft">${more}</span>`}`}
      ${begun && html`<span class="begun">unsaved edits</span>`}
    </span></a></li>`;
}

function VideoCard({ id, begun }) {
  return html`<li><a class="card" href=${link("track", id)}>
    <span class="picture"><img loading="lazy" alt="" src=${frameAddress(id, 0, 160)}
      onError=${(event) => { event.target.hidden = true; }} /></span>
    <span class="about"><b>${nameOf(id)}</b><span class="soft">${id}</span>
      <span class="do">Mark an object and find its states</span>
      ${begun && html`<span class="begun">unsaved edits</span>`}</span></a></li>`;
}

const sure = ({ trust, confidence }) => (trust === "confirmed" ? 2 : confidence ?? -1);
const ORDERS = {
  name: (a, b) => a.id.localeCompare(b.id, "en", { numeric: true }),
  object: (a, b) => (a.object || "").localeCompare(b.object || "") || ORDERS.name(a, b),
  trust: (a, b) => sure(a) - sure(b) || ORDERS.name(a, b),  // the least sure first
  doubts: (a, b) => (b.doubts || 0) - (a.doubts || 0) || ORDERS.name(a, b),
};
const MANY = 8;  // cards that need no search

// Those that contain all words of a search.
const matching = (all, search, textOf) => {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter((one) => words.every((word) => textOf(one).toLowerCase().includes(word)));
};

export function Workspace({ about, again }) {
  const [search, setSearch] = useDraft("search", () => "");
  const [order, setOrder] = useDraft("order", () => "name");
  const { value: findings, problem } = useFetch("findings");
  const rows = matching(findings || [], search, (row) => [row.id, row.object, ...row.states].join(" ")).sort(ORDERS[order]);
  const videos = matching(about.videos, search, (id) => id), total = about.videos.length + about.findings.length;
  const shown = (some, all) => html`<span class="soft">${some === all ? all : `${some} of ${all}`}</span>`;
  const [begun] = useState(draftNames), of = (...names) => begun.some((name) => names.includes(name));
  return html`<main>
    <header class="title"><h1>${about.name}</h1>${total > MANY && html`<span class="acts">
      <input type="search" aria-label="search" placeholder="search" value=${search}
        onInput=${(event) => setSearch(event.target.value)} />
      <select aria-label="order of the findings" value=${order} onChange=${(event) => setOrder(event.target.value)}>
        ${Object.keys(ORDERS).map((name) => html`<option value=${name}>by ${name}</option>`)}</select></span>`}</header>
    ${!about.whole && html`<p class="note">This folder contains too many files to list them all. Start the studio in a smaller folder.</p>`}
    ${!total && html`<div class="empty"><h2>Nothing here yet</h2>
      <p>The studio shows the videos and findings in its folder. There are three ways to start:</p>
      <ol><li>Drop a video below, mark an object in it, and name its states.</li>
        <li>Copy videos, or folders of images, into the folder and reload this page.</li>
        <li>Write a finding into the folder: <code>dejacue find kitchen.mp4 --masks masks -v cup.yaml -o ${about.name}/cup</code></li></ol></div>`}
    <${Drop} again=${again} />
    ${about.videos.length > 0 && html`<section><h2>Videos ${shown(videos.length, about.videos.length)}</h2>
      <ul class="cards row">${videos.map((id) => html`<${VideoCard} key=${id} id=${id} begun=${of(`track ${id}?`)} />`)}</ul></section>`}
    ${about.findings.length > 0 &&
      html`<section><h2>Findings ${shown(findings ? rows.length : about.findings.length, about.findings.length)}</h2>
      <${Problem}>${problem}</${Problem}>
      ${findings && !rows.length && html`<p class="soft">No finding matches these words.</p>`}
      <ul class="cards">${rows.map((row) => html`<${FindingCard} key=${row.id} row=${row} about=${about} begun=${of(`finding ${row.id}`)} />`)}</ul></section>`}
  </main>`;
}
