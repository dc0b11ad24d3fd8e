// Forms keep what a person has begun. A field that was edited, or that the cursor is in, keeps its value
// when data arrive late and when its view is mounted anew; what arrives for it is offered, not applied.

import { html, useCallback, useRef, useState } from "./ui.js";

const drafts = new Map();  // by the name of a form: what was begun and not sent yet
const saves = new Set();  // functions that save now what would be saved soon

const equal = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// A state that is still there when its view is mounted again, until forget() is called.
export function useDraft(name, begin) {
  const [state, setState] = useState(() => (drafts.has(name) ? drafts.get(name) : begin()));
  const set = useCallback((next) => setState((now) => {
    const made = typeof next === "function" ? next(now) : next;
    drafts.set(name, made);
    return made;
  }), [name]);
  const forget = useCallback(() => drafts.delete(name), [name]);
  return [state, set, forget];
}

export const draftOf = (name) => drafts.get(name);
export const keepDraft = (name, state) => (state === null ? drafts.delete(name) : drafts.set(name, state));

// Saves everything that waits to be saved; register: for the time that a view is shown.
export const saveAll = () => Promise.all([...saves].map((save) => save()));
export const registerSave = (save) => { saves.add(save); return () => saves.delete(save); };

// The fields of a form. arriving: their values as far as they are known, which may change later;
// values: what to show; set(some): an edit; field(name): properties of an input;
// hold(name): the cursor is in it; offers: what arrived for fields that were begun before.
export function useForm(name, arriving) {
  const [begun, setBegun, forget] = useDraft(name, () => ({})), latest = useRef(arriving);
  latest.current = arriving;
  const pinned = (now, field) => now[field] ?? { value: latest.current[field], base: latest.current[field] };
  const hold = (field) => setBegun((now) => (field in now ? now : { ...now, [field]: pinned(now, field) }));
  const set = (some) => setBegun((now) => ({ ...now, ...Object.fromEntries(Object.entries(some).map(
    ([field, value]) => [field, { ...pinned(now, field), value }])) }));
  const values = { ...arriving, ...Object.fromEntries(Object.entries(begun).map(([field, own]) => [field, own.value])) };
  const field = (one) => ({ value: values[one], onFocus: () => hold(one),
    onInput: (event) => set({ [one]: event.target.value }) });
  // a field is settled when its offer was answered: what arrived is the base from then on
  const settle = (one, value) => setBegun((now) => ({ ...now, [one]: { value, base: latest.current[one] } }));
  const offers = Object.keys(begun).filter((one) => !equal(begun[one].base, arriving[one])
    && !equal(begun[one].value, arriving[one])).map((one) => ({ field: one, value: arriving[one],
    take: () => settle(one, latest.current[one]), leave: () => settle(one, begun[one].value) }));
  return { values, set, hold, field, offers, sent: forget };
}

// Answers to something a person chose, which may come after other edits. touch(): an edit, or the cursor
// in one of the fields; arrive(answer, name, apply): applies the answer unless the fields were touched
// since it was asked for, and offers it then.
export function useLate() {
  const touched = useRef(0), asked = useRef(0), [offer, setOffer] = useState(null);
  const arrive = (answer, name, apply) => {
    const before = touched.current, turn = asked.current += 1;
    const close = () => setOffer(null);
    close();
    return answer.then((made) => {
      if (turn !== asked.current) return;  // another was chosen meanwhile
      if (touched.current === before) apply(made);
      else setOffer({ text: `${name} arrived while you were writing.`, leave: close,
        take: () => { close(); apply(made); } });
    });
  };
  return { offers: offer ? [offer] : [], arrive, touch: () => { touched.current += 1; } };
}

// What arrived late, with a way to take it. text(offer): what it is
export function Offers({ offers, text }) {
  return offers.map((own) => html`<p class="note offer" role="status"><span>${own.text ?? text(own)}</span>
    <span class="acts"><button type="button" onClick=${own.take}>Use it</button>
      <button type="button" onClick=${own.leave}>Keep mine</button></span></p>`);
}
