// Show it: name the frame on the screen, mark a change, answer the question that tells most.

import { Problem, html, link } from "./ui.js";

const span = (mark) => (mark.source ? mark.source : mark.start === mark.end ? `frame ${mark.start}`
  : `frames ${mark.start} – ${mark.end}`);

const expected = (question) => question.expects.filter(([, share]) => share > .02).slice(0, 4)
  .map(([state, share]) => `${state ?? "none"} ${Math.round(100 * share)} %`).join(", ");

// questions: frames worth an answer, best first; null until they are known. inside: whether the object
// is seen in the frame on the screen
export function Show({ id, words, film, act, questions, inside, problem }) {
  const { states } = words, empty = !words.examples.length && !words.changes.length;
  const current = questions?.find((question) => question.frame === film.frame), first = questions?.[0];
  return html`<div class="show"><${Problem}>${problem}</${Problem}>
    <p>${!film.how ? "Frame …" : inside ? html`Frame <b>${film.frame}</b> shows`
      : html`Frame <b>${film.frame}</b> does not show the object.`}</p>
    <div class="answers" role="group" aria-label="what this frame shows">
      ${states.map((state, n) => html`<button type="button" disabled=${!inside} onClick=${() => act.mark(state.name)}>
        <span class="badge c${n % 7}">${n + 1}</span>${state.name}</button>`)}
      <button type="button" disabled=${!inside} onClick=${() => act.mark(null)}><kbd>x</kbd>none of them</button>
      <button type="button" onClick=${act.change}><kbd>c</kbd>a change here</button>
    </div>
    ${current && html`<p class="note">A frame worth an answer. Expected: ${expected(current)}.</p>`}
    ${!current && first && html`<p class="note">Frame <b>${first.frame}</b> is worth an answer. Expected:
      ${" "}${expected(first)}.</p>`}
    <div class="line wrap"><button type="button" class="main" onClick=${act.next}>${current ? "Next question"
      : "Go to that frame"}</button>
      <span class="soft"><kbd>q</kbd> goes to the frame whose answer would tell most about the rest</span></div>
    <h2>Your examples</h2>
    ${empty && html`<p class="soft">None yet. One example per state helps more than any change of words. You can also drag the edges of a window: frames inside show its state, frames just outside do not.</p>`}
    ${!empty && html`<p><a class="button" href=${link("apply", id)}>Apply to other videos</a></p>`}
    <ul class="marks">${words.examples.map((mark, n) =>
      html`<li><button type="button" class="quiet text" onClick=${() => mark.start !== null && film.seek(mark.start)}>
        ${mark.state ?? "none of them"}: ${span(mark)}</button>
      <button type="button" class="quiet" aria-label=${`remove ${mark.state ?? "none"} at ${span(mark)}`}
        onClick=${() => act.remove(n)}>×</button></li>`)}
      ${words.changes.map((frame) =>
        html`<li><button type="button" class="quiet text"
        onClick=${() => film.seek(frame)}>change: frame ${frame}</button>
        <button type="button" class="quiet" aria-label=${`remove the change at ${frame}`}
          onClick=${() => act.unchange(frame)}>×</button></li>`)}</ul>
  </div>`;
}

export const FIXED = "fixed region";
export const STILL = [FIXED, "boxes drawn by a person", "the whole picture"];  // nothing was followed

// tracker: which followed the object; nothing where its masks were given
export function Doubts({ doubts, film, correct, tracker }) {
  const none = STILL.includes(tracker) ? `No tracker followed the object (${tracker}), so there are no doubts to list.`
    : tracker ? `The tracker ${tracker} was confident in every frame in which it saw the object.`
    : "The masks of this object were given, not made by a tracker, so there are no doubts to list.";
  if (!doubts.length) return html`<div><p class="soft">${none}</p>
    ${correct && html`<p><a class="button" href=${correct}>Track it again</a></p>`}</div>`;
  return html`<div><p class="soft"><kbd>d</kbd> steps through them.</p><ul class="marks">${doubts.map((doubt) => html`
    <li class=${film.frame >= doubt.start && film.frame <= doubt.end ? "here" : ""}>
      <button type="button" class="quiet text" onClick=${() => film.seek(doubt.start)}>
      ${doubt.start} – ${doubt.end}: ${doubt.text}</button></li>`)}</ul>
    ${correct && html`<p><a class="button" href=${correct}>Correct with another click</a></p>`}</div>`;
}
