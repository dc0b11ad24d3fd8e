import { html } from "./ui.js";
export function Track() { return html`<main></main>`; }
