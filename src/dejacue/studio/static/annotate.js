import { html } from "./ui.js";
export function Annotate() { return html`<main></main>`; }
