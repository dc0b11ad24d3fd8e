// Forms keep what a person has begun. A field that was edited, or that the cursor is in, keeps its value
// when data arrive late and when its view is mounted anew; what arrives for it is offered, not applied.

import { draftOf, holdDraft, storeDraft } from "./drafts.js";
import { Dialog, Problem, equal, html, useCallback, useLayoutEffect, useRef, useState } from "./ui.js";

// A state that is still there when its view is mounted again, until forget() is called.
export function useDraft(name, begin) {
  const [state, setState] = useState(() => draftOf(name) ?? begin());
  const set = useCallback((next) => setState((now) => {
    const changed = typeof next === "function" ? next(now) : next;
    holdDraft(name, changed);
    return changed;
  }), [name]);
  const forget = useCallback(() => holdDraft(name, null), [name]);
  return [state, set, forget];
}

const valuesOf = (begun) => Object.fromEntries(Object.entries(begun).map(([field, { value }]) => [field, value]));
const editsOf = (begun) => valuesOf(Object.fromEntries(Object.entries(begun).filter(([, { value, base }]) => !equal(value, base))));

// The fields of a form. arriving: their values as far as they are known, which may change later;
// values: what to show; set(edits): an edit, or a function of all values that gives it; field(name): properties of an
// input; offers: what arrived for fields that were begun before; sent(begun, stays): what
// was begun is no draft any more, unless it was edited since; stays: in the form, when its view is mounted again;
// take(begun): in its place, which is returned.
export function useForm(name, arriving) {
  const [begun, setBegun, forget] = useDraft(name, () => ({})), latest = useRef(arriving);
  latest.current = arriving;
  const edited = Object.keys(editsOf(begun)).length > 0;
  useLayoutEffect(() => {
    storeDraft(name, edited && !equal(editsOf(begun), draftOf(`sent ${name}`)) ? begun : null);
  }, [begun]);
  const pinned = (now, field) => now[field] ?? { value: latest.current[field], base: latest.current[field] };
  const set = (edits) => setBegun((now) => ({ ...now, ...Object.fromEntries(Object.entries(
    typeof edits === "function" ? edits({ ...latest.current, ...valuesOf(now) }) : edits).map(
    ([field, value]) => [field, { ...pinned(now, field), value }])) }));
  const values = { ...arriving, ...valuesOf(begun) };
  const field = (key) => ({ value: values[key], onInput: (event) => set({ [key]: event.target.value }) });
  // a field is settled when its offer was answered: what arrived is the base from then on
  const settle = (key, value) => setBegun((now) => ({ ...now, [key]: { value, base: latest.current[key] } }));
  const offers = Object.keys(begun).filter((key) => !equal(begun[key].base, arriving[key])
    && !equal(begun[key].value, arriving[key])).map((key) => ({ field: key, value: arriving[key],
    take: () => settle(key, latest.current[key]), leave: () => settle(key, begun[key].value) }));
  const sent = (of = begun, stays = false) => {
    const edits = editsOf(of);
    if (!equal(editsOf(draftOf(name) ?? {}), edits)) return;
    holdDraft(`sent ${name}`, edits);
    storeDraft(name, null);
    if (!stays) forget();
  };
  const take = (instead) => { setBegun(instead); return edited ? begun : null; };
  return { values, set, field, offers, sent, name, begun, take };
}

// Answers to something a person chose, which may come after other edits. touch(): an edit, or the cursor
// in one of the fields; arrive(answer, name, apply): applies the answer unless the fields were touched
// since it was requested, and offers it then.
export function useLate() {
  const touched = useRef(0), turns = useRef(0), [offer, setOffer] = useState(null);
  const arrive = (answer, name, apply) => {
    const before = touched.current, turn = turns.current += 1;
    const close = () => setOffer(null);
    close();
    return answer.then((value) => {
      if (turn !== turns.current) return;  // another was chosen meanwhile
      if (touched.current === before) apply(value);
      else setOffer({ text: `${name} arrived while you were writing.`, leave: close,
        take: () => { close(); apply(value); } });
    });
  };
  return { offers: offer ? [offer] : [], arrive, touch: () => { touched.current += 1; } };
}

// What arrived late, with a way to take it. text(offer): what it is
export function Offers({ offers, text }) {
  return offers.map((offer) => html`<p class="note offer" role="status"><span>${offer.text ?? text(offer)}</span>
    <span class="acts"><button type="button" onClick=${offer.take}>Use it</button>
      <button type="button" onClick=${offer.leave}>Keep mine</button></span></p>`);
}

// Asks where to save: save(name, revision) fails with the revision of what is there, which is replaced only if the
// person says so.
export function SaveTo({ title, label, usual, save, onClose, children }) {
  const [name, setName] = useState(usual), [problem, setProblem] = useState(""), [there, setThere] = useState(null);
  const send = async (event) => {
    event.preventDefault();
    try {
      await save(name.trim(), there ?? "new");
      onClose();
    } catch (error) {
      setProblem(error.revision ? "" : error.message);
      setThere(error.revision ?? null);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${send}>
    <label>${label}<input value=${name} required
      onInput=${(event) => { setName(event.target.value); setThere(null); setProblem(""); }} /></label>
    <${Problem}>${problem}</${Problem}>
    ${there && html`<p class="problem" role="alert">${name.trim()} is there already. Replace it?</p>`}
    ${children}
    <button class="main">${there ? "Replace it" : "Save"}</button></form></${Dialog}>`;
}
