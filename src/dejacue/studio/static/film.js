// The player with its buttons: which frame is shown, steps, speed, a window in a loop, the outline.

import { openVideo, place } from "./api.js";
import { Crop, Outline, useOutline } from "./outline.js";
import { Player } from "./player.js";
import { Problem, clamp, html, say, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";

const RATES = [.25, .5, 1, 2, 4, 8], RATE_NAMES = { .25: "¼×", .5: "½×", 1: "1×", 2: "2×", 4: "4×", 8: "8×" };

const WIDE = 1.4;  // a picture of this shape or wider has its strip below it, others beside it, where there is room

// Width by height on the screen: pixels need not be square.
export const shapeOf = (video) => video.width * (video.pixel_aspect ?? 1) / video.height;

export function useVideo(id) {
  const [opened, setOpened] = useState({});
  useEffect(() => {
    let gone = false;
    if (id) {
      openVideo(id).then((video) => !gone && setOpened({ id, video }), (error) => !gone &&
        setOpened({ id, problem: error.message }));
    }
    return () => { gone = true; };
  }, [id]);
  return opened.id === id ? opened : {};
}

// Drives a player from a view. map: {to(frame of the view) → frame of the file, from}; span: what a
// loop plays, in frames of the view.
export function useFilm({ first, last, map, span }) {
  const [state, setState] = useState({ frame: first, how: null, playing: false, rate: 1, loop: false });
  const player = useRef(null), now = useRef();
  now.current = { first, last, map, span, state };
  const set = (edits) => setState((old) => ({ ...old, ...edits }));
  const aim = () => {
    const { loop } = now.current.state, { span, first: a, last: b } = now.current;
    const [from, to] = (loop && span) || [a, b];
    player.current?.setSpan([now.current.map.to(from), now.current.map.to(to)], loop);
  };
  const film = useRef(null);
  film.current ||= {
    seek(frame) {
      const { first: a, last: b, map: maps } = now.current, target = clamp(Math.round(frame), a, b);
      set({ frame: target, how: null });
      player.current?.seek(maps.to(target));
    },
    step(by) { film.current.seek(now.current.state.frame + by); },
    toggle() {
      aim();
      if (player.current?.playing) player.current.pause(); else player.current?.play();
    },
    speed(rate = RATES[(RATES.indexOf(now.current.state.rate) + 1) % RATES.length]) {
      player.current?.setRate(rate);
      set({ rate });
    },
    // Plays on (1) or back (−1), twice as fast each time; 0 pauses.
    shuttle(way) {
      const { playing, way: before } = player.current ?? {}, same = playing && before === way;
      if (!way) { player.current?.pause(); return; }
      film.current.speed(same ? Math.min(2 * now.current.state.rate, RATES.at(-1)) : 1);
      if (same) return;
      player.current?.pause(false);
      aim();
      player.current?.play(way);
    },
    // Shows the frame under a pointer for as long as it is there.
    skim(frame) {
      const { map: maps, state } = now.current;
      player.current?.skim(frame === null || frame === state.frame ? null : maps.to(frame));
    },
    loop() { set({ loop: !now.current.state.loop }); },
    hold(next) {
      player.current = next;
      if (next) next.seek(now.current.map.to(now.current.state.frame));
    },
    handlers: {
      shown: (frame, how) => set({ frame: now.current.map.from(frame), how, source: frame }),
      playing: (playing) => set({ playing }),
      note: (text) => say(text, "note"),
    },
  };
  useEffect(aim, [state.loop, span?.[0], span?.[1]]);
  const keys = [
    { keys: ["Space"], does: "play, pause", act: film.current.toggle },
    { keys: ["j", "k", "l"], does: "play back, pause, play; again: faster, up to 8×",
      act: (event) => film.current.shuttle({ j: -1, k: 0, l: 1 }[event.key.toLowerCase()]) },
    { keys: ["v"], does: "next speed, from ¼× to 8×", act: () => film.current.speed() },
    { keys: ["g"], does: "go to a frame", act: () => document.querySelector(".goto")?.focus() },
    { keys: ["r"], does: "repeat the selected window", act: film.current.loop },
  ];
  return { ...film.current, ...state, keys };
}

function Shown({ film, first, last }) {
  const how = film.how === "verified" ? `frame ${film.frame}` : film.how === "server" ?
    `frame ${film.frame} · decoded by the server` : "…";
  const why = film.how === "verified" ? "checked against the timestamp of the frame on the screen" : "";
  return html`<output class="shown" data-frame=${film.how ? film.frame : ""} data-how=${film.how || ""} title=${why}
    aria-live="off">${how}<span class="soft"> of ${first} – ${last}</span></output>`;
}

// video: of openVideo; finding: whose object is outlined and cropped; ofFile: frames are those of the
// file, not of its history; fresh: changes when the object was followed again; draw: what else lies
// over the picture; onPoint(kind, x, y): a pointer on it, in pixels of the video; edge(by): to the
// edge of a window before (−1) or after (1)
// over: what lies over the picture and can be grasped; under: a row of pictures below the player, or beside it; strip:
// [whether that is open, set]
export function Film({ film, video, first, last, finding, ofFile, fresh, draw, onPoint, edge, over, under, strip }) {
  const stage = useRef(), [marked, setMarked] = useState(true);
  useLayoutEffect(() => {
    const player = new Player(stage.current, video, film.handlers);
    film.hold(player);
    return () => { player.destroy(); film.hold(null); };
  }, [video]);
  const known = Boolean(film.how), plays = known && film.playing;
  const address = finding && `findings/${place(finding)}`;
  const outline = useOutline({ address, ofFile, frame: film.frame, last, stands: known && !plays, plays, fresh });
  const cropped = `/api/${address}/crops/${film.frame}.jpg?width=160${ofFile ? "&file=true" : ""}`;
  const at = (kind) => (event) => {
    const box = stage.current.getBoundingClientRect();
    if (kind === "down") event.currentTarget.setPointerCapture(event.pointerId);
    onPoint(kind, (event.clientX - box.left) / box.width * video.width,
      (event.clientY - box.top) / box.height * video.height, event);
  };
  const pointed = onPoint && { onPointerDown: at("down"), onPointerMove: at("move"), onPointerUp: at("up"),
    onPointerCancel: at("cancel") };
  const button = (text, name, act, more) =>
    html`<button type="button" title=${name} aria-label=${name} onClick=${act} ...${more}>${text}</button>`;
  const shape = shapeOf(video);
  return html`<div class="film ${shape < WIDE ? "narrow" : ""}" style=${{ "--shape": shape }}>
    <div class="screen">
      <div class="stage ${onPoint ? "pointed" : ""}" ref=${stage}>
        <svg viewBox="0 0 ${video.width} ${video.height}" preserveAspectRatio="none" aria-hidden="true" ...${pointed}>
          ${marked && outline && html`<${Outline} polygons=${outline} />`}${draw}</svg>
        ${over}
      </div>
      ${finding && html`<${Crop} address=${cropped} stage=${stage} outline=${outline} video=${video}
        plays=${film.playing} />`}
    </div>
    <div class="controls" role="toolbar" aria-label="player">
      ${button("−10", "ten frames back", () => film.step(-10))}
      ${button("−1", "one frame back", () => film.step(-1))}
      ${button(film.playing ? "❚❚" : "▶", film.playing ? "pause (Space)" : "play (Space)", film.toggle,
        { class: "play" })}
      ${button("+1", "one frame forward", () => film.step(1))}
      ${button("+10", "ten frames forward", () => film.step(10))}
      <select aria-label="speed" title="speed (v)" value=${film.rate}
        onChange=${(event) => { film.speed(Number(event.target.value)); event.target.blur(); }}>${RATES.map((rate) =>
        html`<option value=${rate}>${RATE_NAMES[rate]}</option>`)}</select>
      ${button("Loop", "repeat the selected window (r)", film.loop, { "aria-pressed": film.loop })}
      ${finding && button("Outline", "outline of the object", () => setMarked(!marked), { "aria-pressed": marked })}
      ${strip && button("Strip", "mark states on a strip (t)", () => strip[1](strip[0] ? false : "focused"),
        { "aria-pressed": Boolean(strip[0]) })}
      ${edge && [button("⇤", "previous edge ([)", () => edge(-1)), button("⇥", "next edge (])", () => edge(1))]}
      <input class="goto" type="number" min=${first} max=${last} placeholder="go to" aria-label="go to frame"
        title="go to frame (g)"
        onChange=${(event) => { if (event.target.value !== "") film.seek(Number(event.target.value));
          event.target.value = ""; event.target.blur(); }} />
      <${Shown} film=${film} first=${first} last=${last} />
    </div>
    ${under && html`<div class=${strip ? "marked" : "under"}>${under}</div>`}
  </div>`;
}

export function NoFilm({ problem }) {
  return html`<div class="film empty-film"><${Problem}>${problem}</${Problem}></div>`;
}
