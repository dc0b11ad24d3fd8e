// The object over the video and beside it: its outline and the crop that the encoder saw, of the
// frame that stands, and of those that play as far as their outlines have come.

import { fetchJson } from "./api.js";
import { clamp, html, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";

const REST_MS = 60, MAX_CACHED_FRAMES = 1000;
const AHEAD = 20, CHUNK = 40;  // frames: how far outlines are there before they are played, and at once
const PADDING = .2, GREY = "#7f7f7f", CROP = 160;  // as video/crops.py crops

// Asks for polygons and keeps them: of the frame that rests, or of those that will be played next.
// fresh: changes when the object was followed again
export function useOutline({ address, ofFile, frame, last, stands, plays, fresh }) {
  const cache = useRef(new Map()), busy = useRef(null), late = useRef(2), now = useRef(frame), [, redraw] = useState(0);
  const put = (rows) => {
    if (cache.current.size > MAX_CACHED_FRAMES) cache.current.clear();
    for (const row of rows) cache.current.set(row.frame, row.outline);
    redraw((n) => n + 1);
  };
  useEffect(() => () => { cache.current.clear(); busy.current?.abort(); busy.current = null; }, [address, fresh]);
  useEffect(() => {
    if (!address || !stands || cache.current.has(frame)) return undefined;
    const stop = new AbortController(), path = `${address}/outline/${frame}${ofFile ? "?file=true" : ""}`;
    const timer = setTimeout(() => fetchJson(path, { signal: stop.signal }).then((rows) => put([rows]), () => {}), REST_MS);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [address, fresh, frame, stands]);
  useEffect(() => () => { busy.current?.abort(); busy.current = null; }, [plays]);
  useEffect(() => {
    now.current = frame;
    if (!address || !plays || busy.current) return;
    let start = frame;
    while (start <= frame + AHEAD && cache.current.has(start)) start += 1;
    if (start > Math.min(frame + AHEAD, last)) return;
    if (start <= frame + late.current) start = frame + late.current;  // played before the answer is there
    const stop = busy.current = new AbortController();
    const path = `${address}/outlines?start=${Math.min(start, last)}&count=${CHUNK}${ofFile ? "&file=true" : ""}`;
    fetchJson(path, { signal: stop.signal }).then((rows) => {
      late.current = clamp(now.current - frame + 1, 2, CHUNK);
      busy.current = null;
      put(rows);
    }, () => {});  // and nothing is requested again: what failed would fail with every frame
  });
  return address && (stands || plays) ? cache.current.get(frame) ?? null : null;
}

export const Outline = ({ polygons, name }) => polygons.map((points) => html`
  <polygon class=${name || "outline"} points=${points.map((point) => point.join(",")).join(" ")} />`);

// What is on the screen, cut out along the outline: while it plays no request is fast enough.
function cut(canvas, stage, polygons, { width, height }) {
  const xs = polygons.flat().map((point) => point[0]), ys = polygons.flat().map((point) => point[1]);
  let [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const pad = PADDING * Math.max(right - left, bottom - top);
  [left, top] = [Math.max(left - pad, 0), Math.max(top - pad, 0)];
  [right, bottom] = [Math.min(right + pad, width), Math.min(bottom + pad, height)];
  const scale = CROP / Math.max(right - left, bottom - top), pen = canvas.getContext("2d");
  [canvas.width, canvas.height] = [(right - left) * scale, (bottom - top) * scale].map(Math.ceil);
  pen.fillStyle = GREY;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.setTransform(scale, 0, 0, scale, -left * scale, -top * scale);
  const path = new Path2D();
  for (const [first, ...rest] of polygons) {
    path.moveTo(...first);
    for (const point of rest) path.lineTo(...point);
    path.closePath();
  }
  pen.clip(path, "evenodd");
  const picture = stage.querySelector("img");
  pen.drawImage(picture.hidden ? stage.querySelector("video") : picture, 0, 0, width, height);
}

// address: of the crop of this frame; outline: null where it is not known, [] where nothing is seen
export function Crop({ address, stage, outline, video, plays }) {
  const [shown, setShown] = useState(null), canvas = useRef();
  const there = Boolean(outline?.length), source = there && !plays ? address : shown;
  useLayoutEffect(() => { if (plays && there) cut(canvas.current, stage.current, outline, video); });
  const nothing = outline && !there;
  return html`<figure class="crop">
    <canvas ref=${canvas} role="img" aria-label="the object while the video plays" hidden=${!plays || nothing}></canvas>
    <img src=${source} alt="the object as the encoder saw it" hidden=${!source || plays || nothing}
      onLoad=${() => setShown(source)} />
    <figcaption>${nothing ? "not seen here" : "what the encoder saw"}</figcaption></figure>`;
}
