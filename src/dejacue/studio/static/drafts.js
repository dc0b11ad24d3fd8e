// What was begun and not saved: in memory while the page is open, and in this browser for the next time, by folder,
// page (a tab, since it was loaded) and name.

import { html, say, useEffect, useState } from "./ui.js";

const PREFIX = "dejacue-draft ", PAGE = `${Date.now()}-${Math.random()}`;
const drafts = new Map(), kept = new Set(), unstored = new Set();  // unstored: keys of those that this browser refused
let folder = "";
// A page holds its lock as long as it is open; other pages are gone.
navigator.locks?.request(PREFIX + PAGE, () => new Promise(() => {})).catch(() => {});
addEventListener("beforeunload", (event) => { if (unstored.size) event.preventDefault(); });

const keyOf = (page, name) => PREFIX + JSON.stringify([folder, page, name]);

function store(page, name, value) {
  const key = keyOf(page, name);
  try {
    localStorage.removeItem(key);  // where there is no room for it, the one before is not taken for it
    if (value !== null) localStorage.setItem(key, JSON.stringify({ value, saved_s: Date.now() / 1000 }));
    unstored.delete(key);
  } catch {
    if (value === null) { unstored.delete(key); return; }
    if (!unstored.size) say("this browser cannot keep what is not saved; save before you close this page", "problem");
    unstored.add(key);
  }
}

// The folder that is served: one address may serve others at other times.
export const draftsOf = (name) => { folder = name; };

export const draftOf = (name) => drafts.get(name);
export const holdDraft = (name, state) => (state === null ? drafts.delete(name) : drafts.set(name, state));

// Keeps what is not saved under a name; null: nothing. Called in layout effects: others wait for a frame, and the page
// may be gone before.
export function storeDraft(name, value) {
  if (value === null && !kept.has(name)) return;
  if (value === null) kept.delete(name); else kept.add(name);
  store(PAGE, name, value);
}

// What this browser keeps under a key, in a list; nothing where it is no draft of this folder.
function draftAt(key) {
  try {
    const [of, page, name] = JSON.parse(key.slice(PREFIX.length)), { value, saved_s } = JSON.parse(localStorage.getItem(key));
    return of === folder ? [{ page, name, value, saved_s }] : [];
  } catch { return []; }
}

// All drafts, the latest first: [{page, name, value, saved_s}].
function stored() {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(PREFIX)).flatMap(draftAt)
      .sort((a, b) => b.saved_s - a.saved_s);
  } catch { return []; }
}

// Those of pages that are not open any more.
async function left() {
  const open = (await navigator.locks?.query().catch(() => null))?.held.map((lock) => lock.name) ?? [];
  return stored().filter(({ page }) => page !== PAGE && !open.includes(PREFIX + page));
}

// The names of all drafts, also of other pages.
export const draftNames = () => [...kept, ...stored().map(({ name }) => name)];

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
    const before = use && take(entry.value) || null;
    store(entry.page, name, before);
    setEntries(before ? [{ ...entry, value: before, saved_s: Date.now() / 1000 }, ...others] : others);
  };
  return html`<p class="note offer" role="status">
    <span>Edits of ${new Date(1000 * entry.saved_s).toLocaleString()} were not saved. They are kept.</span>
    <span class="acts"><button type="button" onClick=${() => answer(true)}>Use them</button>
      <button type="button" onClick=${() => answer(false)}>Discard them</button></span></p>`;
}
