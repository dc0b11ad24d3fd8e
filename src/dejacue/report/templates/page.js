
"use strict";
// Everything can be read without this script; it adds a cursor with read-outs, and a zoom.
(function () {
  const page = document.documentElement, main = document.querySelector("main");
  const first = Number(main.dataset.first), span = Number(main.dataset.span);
  const knots = JSON.parse(main.dataset.times), wide = Number(main.dataset.wide);
  const drawings = [...document.querySelectorAll(".track > svg.timed")];
  const tracks = drawings.map((svg) => svg.parentElement);
  const readings = [...document.querySelectorAll(".reading")];
  const gaps = [...document.querySelector("#gaps").getAttribute("d").matchAll(/M(\d+) 0h(\d+)/g)]
    .map((m) => [Number(m[1]), Number(m[1]) + Number(m[2])]);
  let a = 0, b = 1;

  function time(frame) {
    if (!knots.length) return null;
    let k = 1;
    while (k < knots.length - 1 && knots[k][0] < frame) k += 1;
    const [f0, t0] = knots[k - 1], [f1, t1] = knots[Math.min(k, knots.length - 1)];
    return f1 > f0 ? t0 + (t1 - t0) * (frame - f0) / (f1 - f0) : t0;
  }
  function frameAt(seconds) {  // bisection: times grow with frames
    let low = first, high = first + span;
    for (let n = 0; n < 60; n += 1) {
      const middle = (low + high) / 2;
      if (time(middle) < seconds) low = middle; else high = middle;
    }
    return low;
  }
  function clock(seconds, digits) {
    const sign = seconds < 0 ? "−" : "", s = Math.abs(seconds);
    const scale = Math.pow(10, digits), whole = Math.round(s * scale) / scale;
    if (whole < 60) return sign + whole.toFixed(digits) + " s";
    const rest = (whole % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
    const minutes = Math.floor(whole / 60);
    if (minutes < 60) return sign + minutes + ":" + rest;
    return sign + Math.floor(minutes / 60) + ":" + String(minutes % 60).padStart(2, "0") + ":" + rest;
  }

  // Read-outs
  const curves = [...document.querySelectorAll(".row.curve")].map((row) => {
    const svg = row.querySelector("svg.timed"), mean = row.querySelector(".mean");
    return { value: row.querySelector(".value"), high: Number(svg.dataset.high),
      low: Number(svg.dataset.low), path: mean || row.querySelector(".line"), points: null,
      word: mean ? " mean here " : " here " };
  });
  function valueAt(curve, x) {
    if (curve.points === null) {
      curve.points = [...curve.path.getAttribute("d").matchAll(/(\d+) (\d+)/g)]
        .map((m) => [Number(m[1]), Number(m[2])]);
    }
    const points = curve.points;
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < x) low = middle + 1; else high = middle;
    }
    if (low > 0 && x - points[low - 1][0] < points[low][0] - x) low -= 1;
    return curve.high + (curve.low - curve.high) * points[low][1] / 1000;
  }
  function read(share) {
    const frame = Math.round(first + share * span), x = (frame - first) / span * wide;
    const hidden = gaps.some((gap) => gap[0] < x && x < gap[1]);
    const t = time(frame);
    page.style.setProperty("--cursor", x / wide);
    const words = "frame " + frame + (t === null ? "" : " · " + clock(t, 2)) +
      (hidden ? " · not observed" : "");
    readings.forEach((reading) => { reading.textContent = words; });
    curves.forEach((curve) => {
      curve.value.textContent = hidden ? ""
        : curve.word + valueAt(curve, x).toFixed(2).replace("-", "−");
    });
  }
  function forget() {
    page.style.setProperty("--cursor", -9);
    readings.forEach((reading) => { reading.textContent = ""; });
    curves.forEach((curve) => { curve.value.textContent = ""; });
  }

  // Zoom: every drawing shows the shares a … b
  const FRAMES = [1, 2, 5], SECONDS = [.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300,
    600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
  function step(range, most, time) {
    if (time) return SECONDS.find((s) => range / s <= most) || 86400;
    const power = Math.pow(10, Math.floor(Math.log10(Math.max(range / most, 1))));
    return Math.max(1, [...FRAMES, 10].map((n) => n * power).find((s) => range / s <= most));
  }
  function ticks(track, unit) {
    const timed = unit === "time", f0 = first + a * span, f1 = first + b * span;
    const low = timed ? time(f0) : f0, high = timed ? time(f1) : f1;
    const every = step(high - low, 9, timed);
    const digits = every >= 1 ? 0 : every >= .1 ? 1 : 2, made = [];
    for (let n = Math.ceil(low / every); n * every <= high; n += 1) {
      const frame = timed ? frameAt(n * every) : n * every, share = (frame - first) / span;
      const at = (share - a) / (b - a), tick = document.createElement("span");
      tick.className = "tick" + (n % 2 ? " minor" : "") + (at < .03 ? " first" : at > .97 ? " last" : "");
      tick.style.setProperty("--x", share);
      tick.textContent = timed ? clock(n * every, digits) : String(n * every);
      made.push(tick);
    }
    track.querySelectorAll(".tick").forEach((tick) => tick.remove());
    track.append(...made);
    return made.map((tick) => Number(tick.style.getPropertyValue("--x")));
  }
  function show(from, to) {
    const least = Math.min(1, 8 / span), size = Math.min(1, Math.max(to - from, least));
    a = Math.min(Math.max((from + to - size) / 2, 0), 1 - size);
    b = a + size;
    page.style.setProperty("--a", a);
    page.style.setProperty("--b", b);
    drawings.forEach((svg) => {
      const box = svg.getAttribute("viewBox").split(" ");
      svg.setAttribute("viewBox", [a * wide, 0, (b - a) * wide, box[3]].join(" "));
    });
    let lines = [];
    document.querySelectorAll(".axis").forEach((axis) => {
      const shares = ticks(axis.querySelector(".track"), axis.dataset.unit);
      if (axis.dataset.unit === "frame") lines = shares;
    });
    document.querySelector("#grid")
      .setAttribute("d", lines.map((x) => "M" + Math.round(x * wide) + " 0V1000").join("") || "M0 0");
    document.querySelectorAll(".connectors line").forEach((line) => {
      const x = (Number(line.dataset.x) - a) / (b - a);
      line.setAttribute("x2", x * wide);
      line.style.display = x < 0 || x > 1 ? "none" : "";
    });
    buttons.forEach((button) => {
      const does = button.dataset.do;
      button.disabled = does === "in" ? size <= least : does === "left" ? a <= 0
        : does === "right" ? b >= 1 : size >= 1;
    });
  }
  const buttons = [...document.querySelectorAll(".zoom button")], actions = {
    in: (size) => show(a + size / 4, b - size / 4), out: (size) => show(a - size / 2, b + size / 2),
    left: (size) => show(a - size / 2, b - size / 2),
    right: (size) => show(a + size / 2, b + size / 2), all: () => show(0, 1),
  };
  buttons.forEach((button) => {
    button.addEventListener("click", () => actions[button.dataset.do](b - a));
    button.disabled = button.dataset.do !== "in";
  });

  // The pointer: moving reads, dragging with a mouse zooms, a double click shows all
  let pressed = null, picked = null;
  const shareAt = (track, event) => {
    const box = track.getBoundingClientRect();
    return a + (b - a) * Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  };
  tracks.forEach((track) => {
    const cursor = document.createElement("div");
    cursor.className = "cursor";
    track.append(cursor);
    track.addEventListener("pointermove", (event) => {
      const share = shareAt(track, event);
      read(share);
      if (pressed !== null && picked !== null) {
        const size = b - a, low = Math.min(pressed, share), high = Math.max(pressed, share);
        picked.style.left = (low - a) / size * 100 + "%";
        picked.style.width = (high - low) / size * 100 + "%";
      }
    });
    track.addEventListener("pointerdown", (event) => {
      read(shareAt(track, event));
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      pressed = shareAt(track, event);
      picked = document.createElement("div");
      picked.className = "picked";
      track.append(picked);
      track.setPointerCapture(event.pointerId);
    });
    track.addEventListener("pointerup", (event) => {
      const from = pressed, to = shareAt(track, event);
      if (picked !== null) picked.remove();
      pressed = picked = null;
      if (from !== null && Math.abs(to - from) > .01 * (b - a)) show(Math.min(from, to), Math.max(from, to));
    });
    track.addEventListener("pointercancel", () => {
      if (picked !== null) picked.remove();
      pressed = picked = null;
    });
    track.addEventListener("pointerleave", forget);
    track.addEventListener("dblclick", () => show(0, 1));
  });
  page.classList.add("live");
  document.querySelectorAll(".zoom").forEach((zoom) => { zoom.hidden = false; });
  addEventListener("beforeprint", () => {
    show(0, 1);
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
  });
}());
