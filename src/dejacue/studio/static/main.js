// The studio: which view is shown, light or dark, and the sheet of keys.

import { watchConnection } from "./api.js";
import { Apply } from "./apply.js";
import { draftsOf } from "./drafts.js";
import { Finding } from "./finding.js";
import { Jobs, Running, useJobs } from "./jobs.js";
import { Track } from "./track.js";
import { Component, Problem, Sentences, Sheet, html, keepSetting, link, render, settingOf, titleOf, useFetch,
  useEffect, useKeys, useState } from "./ui.js";
import { Workspace } from "./workspace.js";

const VIEWS = { workspace: Workspace, finding: Finding, track: Track, jobs: Jobs, apply: Apply };
const OF_ONE = ["finding", "track", "apply"];  // views of one thing
const THEMES = { auto: "light or dark, as the system", light: "light", dark: "dark" };

// #/finding/out%2Fcup → ["finding", "out/cup"]; of: a finding of the video that is shown
function where() {
  const [, view = "workspace", ...ids] = location.hash.split("/");
  try {
    const known = VIEWS[view] && (ids[0] || !OF_ONE.includes(view));
    return [known ? view : "workspace", ...ids.map(decodeURIComponent)];
  } catch {
    return ["workspace"];
  }
}

function useTheme() {
  const [theme, setTheme] = useState(settingOf("dejacue-theme") || "auto");
  useEffect(() => {
    const root = document.documentElement;
    if (theme === "auto") root.removeAttribute("data-theme"); else root.dataset.theme = theme;
    keepSetting("dejacue-theme", theme);
  }, [theme]);
  const names = Object.keys(THEMES);
  return [theme, () => setTheme(names[(names.indexOf(theme) + 1) % names.length])];
}

// What goes wrong while a view is drawn is a sentence, too.
class Caught extends Component {
  componentDidCatch(error) { this.setState({ error }); }
  componentWillReceiveProps(next) { if (next.of !== this.props.of) this.setState({ error: null }); }
  render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    console.error(error);
    return html`<main><${Problem}>this view cannot be shown (${error.message}); reload the page</${Problem}></main>`;
  }
}

function Connection() {
  const [lost, setLost] = useState(false);
  useEffect(() => watchConnection(setLost), []);
  return html`<div class="connection" role="alert">${lost && "Connection lost, trying again …"}</div>`;
}

function Studio() {
  const [[view, id, of], setView] = useState(where), [theme, turn] = useTheme(), [sheet, setSheet] = useState(false);
  const { value: about, problem, again } = useFetch("workspace"), jobs = useJobs(Boolean(about));
  if (about) draftsOf(about.name);
  useEffect(() => {
    const moved = () => { setView(where()); window.scrollTo(0, 0); };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  useEffect(() => {
    document.title = `${id && about ? titleOf(id, about) : about?.name ?? "studio"} · dejacue studio`;
  }, [view, id, about]);
  useEffect(() => {  // the video that the studio was started with
    if (about?.opened.length === 1 && !location.hash) location.replace(link("track", about.opened[0]));
  }, [about]);
  useKeys([{ keys: ["?"], does: "show this list", act: () => setSheet(true) }]);
  const View = VIEWS[view], tab = (name, text) => html`
    <a href=${link(name)} aria-current=${view === name && !id ? "page" : null}>${text}</a>`;
  return html`
    <header class="top">
      <a class="brand" href=${link("workspace")}>
        <img src="/static/icon.svg" alt="" width="22" height="22" /> dejacue studio</a>
      <nav aria-label="views">${tab("workspace", "Workspace")}${tab("jobs", "Jobs")}</nav>
      <${Running} jobs=${jobs.all} />
      <span class="right">
        <button type="button" class="quiet" title=${`theme: ${THEMES[theme]}`}
          aria-label=${`theme: ${THEMES[theme]}`}
          onClick=${turn}>${{ auto: "◐", light: "○", dark: "●" }[theme]}</button>
        <button type="button" class="quiet" aria-label="keys" title="keys (?)"
          onClick=${() => setSheet(true)}>?</button></span>
    </header>
    ${problem && html`<main><${Problem}>${problem}</${Problem}></main>`}
    ${about && html`<${Caught} of=${location.hash}>
      <${View} key=${JSON.stringify([view, id, of])} id=${id} of=${of} about=${about} again=${again} jobs=${jobs} /></${Caught}>`}
    ${sheet && html`<${Sheet} onClose=${() => setSheet(false)} />`}
    <${Connection} /><${Sentences} />`;
}

const home = document.querySelector("#studio");
home.replaceChildren();
render(html`<${Studio} />`, home);
