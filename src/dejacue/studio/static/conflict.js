// A save met a newer version: keep mine, or load theirs.

import { Dialog, html } from "./ui.js";

// keep: {mine(), theirs()}
export function Conflict({ what, keep, onClose }) {
  const then = (act) => () => { onClose(); act(); };
  return html`<${Dialog} title="A newer version" onClose=${onClose}>
    <p>${what} was saved elsewhere since you opened it, perhaps in another tab.</p>
    <div class="line wrap"><button type="button" class="main" onClick=${then(keep.mine)}>Keep mine</button>
      <button type="button" onClick=${then(keep.theirs)}>Load theirs</button></div></${Dialog}>`;
}
