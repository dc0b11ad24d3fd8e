import { html } from "./ui.js";
export function Corpus() { return html`<main></main>`; }
