// A player that knows which frame it shows. It seeks by the time stamps of the file, looks at the
// time stamp of what was presented (requestVideoFrameCallback), and tries again where that is not
// the frame that was requested; frames that the browser cannot show come from the server.

import { frameAddress, place } from "./api.js";
import { lower } from "./report/timeline.js";

const SHARES = [.5, .75, .95, .25];  // of a frame's time: where a seek goes
const PATIENCE_MS = 2500, LATE_MS = 120, OPEN_MS = 10000;
const SKIM_PX = 960;  // width of a frame under a pointer
const IMAGES_PER_S = 10;  // of a folder of images, which has no clock

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const wait = (ms) => new Promise((go) => { setTimeout(go, ms); });

export class Player {
  // video: of openVideo; on.shown(frame, how): how is "verified", "server" or null (not known yet);
  // on.playing(whether); on.note(text): something to know of this video
  constructor(stage, video, on) {
    Object.assign(this, { stage, video, on, target: 0, shown: null, presented: null, count: 0 });
    Object.assign(this, { rate: 1, span: null, playing: false, chasing: null, listeners: new Set() });
    this.file = document.createElement("video");
    this.picture = document.createElement("img");
    Object.assign(this.file, { muted: true, playsInline: true, preload: "auto", tabIndex: -1 });
    this.file.disablePictureInPicture = true;
    this.over = document.createElement("img");  // the frame under a pointer
    for (const picture of [this.picture, this.over]) Object.assign(picture, { alt: "", hidden: true });
    this.over.className = "skim";
    this.way = 1;  // −1: plays back
    stage.prepend(this.file, this.picture, this.over);
    this.byServer = !video.playable || !video.times || !this.file.requestVideoFrameCallback;
    if (this.byServer) this.file.hidden = true; else this.open();
  }

  get last() { return this.video.frames - 1; }

  open() {
    const off = { signal: (this.off = new AbortController()).signal };
    this.file.addEventListener("error", () => this.giveUp(), off);
    this.file.addEventListener("seeked", () => this.tell(), off);
    this.file.addEventListener("ended", () => this.reachedEnd(), off);
    this.ready = new Promise((go) => {
      this.file.addEventListener("loadedmetadata", () => go(true), off);
      this.file.addEventListener("error", () => go(false), off);
      setTimeout(() => go(false), OPEN_MS);
    });
    const listen = () => this.file.requestVideoFrameCallback((now, about) => {
      if (this.gone) return;
      listen();
      this.onPresented(about.mediaTime);
    });
    listen();
    this.file.src = `/api/videos/${place(this.video.id)}/file`;
  }

  giveUp() {
    if (this.byServer || this.gone) return;
    this.byServer = true;
    this.pause();
    this.tell();
    this.on.note?.(`this browser cannot play ${this.video.codec || "this video"}; the server decodes the frames`);
    this.shown = null;
    this.seek(this.target);
  }

  // ------------------------------------------------ from time stamps to frames and back

  time(frame, share) {
    const { times, start } = this.video, next = times[frame + 1] ?? 2 * times[frame] - (times[frame - 1] ?? -.04);
    return start + times[frame] + share * (next - times[frame]);
  }

  // The frame whose time stamp this is; null where it is none.
  frameAt(mediaTime) {
    const { times, start } = this.video, t = mediaTime - start, after = lower(times, t);
    const near = [after - 1, after].filter((n) => n >= 0 && n < times.length);
    const best = near.reduce((a, b) => (Math.abs(times[b] - t) < Math.abs(times[a] - t) ? b : a));
    const gaps = [times[best] - times[best - 1], times[best + 1] - times[best]].filter((gap) => gap > 0);
    return Math.abs(times[best] - t) <= .45 * Math.min(...gaps, .1) ? best : null;
  }

  onPresented(mediaTime) {
    this.presented = this.frameAt(mediaTime);
    this.count += 1;
    this.tell();
    if (this.playing) {
      if (this.way > 0) this.play1(this.presented);
    }
    // what an earlier seek shows late is not passed off as the frame that was found
    else if (!this.chasing && this.how === "verified" && this.presented !== this.shown) {
      this.shown = null;
      this.seek(this.target);
    }
  }

  tell() { for (const hear of this.listeners) hear(); }

  // ------------------------------------------------ seek

  // Shows a frame; of many wishes the last one is followed.
  seek(frame) {
    this.target = clamp(Math.round(frame), 0, this.last);
    this.skim(null);
    if (this.playing) this.pause(false);
    if (this.target === this.shown) {
      this.on.shown(this.shown, this.how);
      return Promise.resolve();
    }
    if (!this.chasing) {
      this.chasing = this.chase().finally(() => { this.chasing = null; });
    }
    this.on.shown(this.target, null);
    return this.chasing;
  }

  async chase() {
    while (!this.gone && this.shown !== this.target) {
      const frame = this.target, verified = this.byServer ? null : await this.fromFile(frame);
      if (verified) this.show(frame, "verified");
      else if (frame === this.target) await this.fromServer(frame);
    }
  }

  async fromFile(frame) {
    this.shown = null;
    if (!await this.ready) { this.giveUp(); return false; }
    for (const share of SHARES) {
      if (this.gone || this.byServer || frame !== this.target) return false;
      if (await this.tried(frame, share) === frame) return true;
    }
    return false;
  }

  // The frame that is presented after a seek.
  async tried(frame, share) {
    const before = this.count, settled = () => !this.file.seeking && this.count > before;
    this.file.currentTime = this.time(frame, share);
    await this.until(settled, PATIENCE_MS);
    // an earlier seek may have been presented meanwhile
    await this.until(() => this.presented === frame || this.target !== frame, LATE_MS);
    return settled() ? this.presented : null;
  }

  async until(settled, ms) {
    if (settled() || this.gone) return;
    let hear;
    const settles = new Promise((go) => { hear = () => { if (settled() || this.gone) go(); }; });
    this.listeners.add(hear);
    await Promise.race([settles, wait(ms)]);
    this.listeners.delete(hear);
  }

  async fromServer(frame) {
    const loader = new Image();
    loader.src = frameAddress(this.video.id, frame);
    try {
      await loader.decode();
    } catch {
      if (frame === this.target) {
        this.on.note?.(`frame ${frame} cannot be decoded`);
        this.shown = frame;
      }
      return;
    }
    if (frame !== this.target || this.gone) return;
    this.picture.src = loader.src;
    this.show(frame, "server");
  }

  show(frame, how) {
    if (frame !== this.target) return;
    this.shown = frame;
    this.how = how;
    this.picture.hidden = how !== "server";
    this.on.shown(frame, how);
  }

  // Shows a frame over the one that stands, without a seek; null: no more.
  async skim(frame) {
    this.wish = this.playing ? null : frame;
    this.over.hidden = this.wish === null;
    this.stage.classList.toggle("skims", !this.over.hidden);
    if (this.skims) return;
    this.skims = true;
    while (this.wish !== null && this.wish !== Number(this.over.dataset.frame) && !this.gone) {
      const loader = new Image(), next = this.wish;
      loader.src = frameAddress(this.video.id, next, Math.min(this.video.width, SKIM_PX));
      await loader.decode().catch(() => {});
      this.over.src = loader.src;
      this.over.dataset.frame = next;
    }
    this.skims = false;
  }

  // ------------------------------------------------ play

  // span: [first, last] that is not left; loop: and begun again
  setSpan(span, loop) { Object.assign(this, { span, loop }); }
  setRate(rate) { this.file.playbackRate = this.rate = rate; }

  get bounds() { return this.span || [0, this.last]; }

  // way: 1, or −1 for back
  async play(way = 1) {
    const [from, to] = this.bounds, { shown } = this;
    this.way = way;
    if (shown === null || shown < from || shown > to || shown === (way > 0 ? to : from)) {
      await this.seek(way > 0 ? from : to);
    }
    if (this.chasing) await this.chasing;
    if (this.gone) return;
    this.playing = true;
    this.skim(null);
    this.on.playing(true);
    if (this.byServer || way < 0) { this.playSteps(way); return; }
    if (this.how === "server") this.file.currentTime = this.time(this.shown, .5);
    this.picture.hidden = true;
    this.file.playbackRate = this.rate;
    this.file.play().catch(() => this.pause());
  }

  // settle: look again at what is shown once it stands
  pause(settle = true) {
    if (!this.playing) return;
    this.playing = false;
    this.file.pause();
    this.on.playing(false);
    if (settle) {
      this.shown = null;
      this.seek(this.target);
    }
  }

  play1(frame) {
    if (frame === null) return;
    const [from, to] = this.bounds;
    this.target = this.shown = clamp(frame, from, to);
    this.how = "verified";
    this.on.shown(this.target, frame === this.target ? "verified" : null);
    if (frame >= to) this.reachedEnd();
  }

  async reachedEnd() {
    if (!this.playing) return;
    const [from, to] = this.bounds;
    this.target = to;
    this.pause(false);
    this.shown = null;
    if (this.loop && from < to) {
      await this.seek(from);
      this.play();
    } else this.seek(to);
  }

  // Frame by frame, as fast as they come: what the browser cannot play, and back.
  async playSteps(way) {
    const { times } = this.video, clock = (n) => (times ? times[n] : n / IMAGES_PER_S);
    const end = this.bounds[way > 0 ? 1 : 0], turn = this.turn = {};
    const runs = () => this.playing && turn === this.turn && !this.gone;
    let frame = this.target, due = clock(frame), before = performance.now();
    while (runs() && frame !== end) {
      const now = performance.now();
      due += way * (now - before) / 1000 * this.rate;
      before = now;
      let next = frame + way;
      while (next !== end && way * (clock(next + way) - due) <= 0) next += way;
      await wait(Math.max(way * (clock(next) - due) * 1000 / this.rate, 0));
      if (!runs()) return;
      this.target = frame = next;
      if (!this.byServer && await this.fromFile(frame)) this.show(frame, "verified"); else await this.fromServer(frame);
    }
    if (runs()) { if (way > 0) this.reachedEnd(); else this.pause(); }
  }

  destroy() {
    this.gone = true;
    this.playing = false;
    this.tell();
    this.off?.abort();
    this.file.removeAttribute("src");
    this.file.load();
    this.file.remove();
    this.picture.remove();
    this.over.remove();
  }
}
