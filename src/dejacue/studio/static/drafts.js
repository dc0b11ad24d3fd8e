// What was begun and not saved: in memory while the page is open, and in this browser and on the server for the next
// time, by page (a tab, since it was loaded) and name.

import { fetchJson } from "./api.js";
import { html, useEffect, useState } from "./ui.js";

const PREFIX = "dejacue-draft ", SEND_MS = 300, PAGE = `${Date.now()}-${Math.random()}`;
const drafts = new Map(), kept = new Set(), timers = new Map(), sent = new Map();
// A page holds its lock as long as it is open; other pages are gone.
navigator.locks?.request(PREFIX + PAGE, () => new Promise(() => {})).catch(() => {});

const keyOf = (page, name) => PREFIX + JSON.stringify([location.host, page, name]);
const put = (body) => fetchJson("drafts", { method: "PUT", body }).catch(() => {});

// One after the other: requests that wait for a studio that is gone would overtake each other when it is back.
function send(key, body) {
  const turn = (sent.get(key)?.turn ?? Promise.resolve()).then(() => sent.get(key).body === body && put(body));
  sent.set(key, { turn, body });
}

function store(page, name, text) {
  const key = keyOf(page, name), body = { page, name, text };
  let wait = 0;
  try {
    localStorage.removeItem(key);  // where there is no room for it, the one before is not taken for it
    if (text !== null) {
      localStorage.setItem(key, JSON.stringify({ ...body, saved_s: Date.now() / 1000 }));
      wait = SEND_MS;
    }
  } catch { /* full, or forbidden: the server has it, at once */ }
  clearTimeout(timers.get(key));
  timers.set(key, setTimeout(send, wait, key, body));
}

export const draftOf = (name) => drafts.get(name);
export const holdDraft = (name, state) => (state === null ? drafts.delete(name) : drafts.set(name, state));

// Keeps what is not saved under a name; null: nothing. Called in layout effects: others wait for a frame, and the page
// may be gone before.
export function storeDraft(name, value) {
  if (value === null && !kept.has(name)) return;
  if (value === null) kept.delete(name); else kept.add(name);
  store(PAGE, name, value === null ? null : JSON.stringify(value));
}

// What this browser keeps under a key, in a list; nothing where it is no draft of this studio.
function draftAt(key) {
  try {
    const [host, page, name] = JSON.parse(key.slice(PREFIX.length)), { text, saved_s } = JSON.parse(localStorage.getItem(key));
    return host === location.host ? [{ page, name, text, saved_s }] : [];
  } catch { return []; }
}

function storedHere() {
  try { return Object.keys(localStorage).filter((key) => key.startsWith(PREFIX)).flatMap(draftAt); } catch { return []; }
}

// All drafts, the latest first: [{page, name, text, saved_s}]. Of two of the same page, what this browser keeps is the later.
async function stored() {
  const all = [...storedHere(), ...await fetchJson("drafts").catch(() => [])];
  return all.filter((draft, n) => n === all.findIndex(({ page, name }) => page === draft.page && name === draft.name))
    .sort((a, b) => b.saved_s - a.saved_s);
}

// Those of pages that are not open any more.
async function left() {
  const open = (await navigator.locks?.query().catch(() => null))?.held.map((lock) => lock.name) ?? [];
  return (await stored()).filter(({ page }) => page !== PAGE && !open.includes(PREFIX + page));
}

// The names of all drafts, also of other pages.
export function useDraftNames() {
  const [names, setNames] = useState(() => [...kept]);
  useEffect(() => { stored().then((all) => setNames([...kept, ...all.map(({ name }) => name)])); }, []);
  return names;
}

// Offers what a page that is gone has left of this name. take(value): may return what it replaces, which is offered then
export function Kept({ name, take }) {
  const [entries, setEntries] = useState([]);
  useEffect(() => {
    let shown = true;
    left().then((all) => shown && setEntries(all.filter((draft) => draft.name === name)));
    return () => { shown = false; };
  }, [name]);
  const [entry, ...others] = entries;
  if (!entry) return null;
  const answer = (use) => {
    const before = use && take(JSON.parse(entry.text)), text = before ? JSON.stringify(before) : null;
    store(entry.page, name, text);
    setEntries(before ? [{ ...entry, text, saved_s: Date.now() / 1000 }, ...others] : others);
  };
  return html`<p class="note offer" role="status">
    <span>Edits of ${new Date(1000 * entry.saved_s).toLocaleString()} were not saved. They are kept.</span>
    <span class="acts"><button type="button" onClick=${() => answer(true)}>Use them</button>
      <button type="button" onClick=${() => answer(false)}>Discard them</button></span></p>`;
}
