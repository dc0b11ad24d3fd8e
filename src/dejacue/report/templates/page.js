
// In the report. Everything can be read without script; with it, the timeline takes the place of
// the bars and the pictures above them.
const find = (selector) => document.querySelector(selector);
const scene = JSON.parse(find("#scene").textContent), place = find("#timeline");
scene.thumbnails = [...document.querySelectorAll(".strip li")].map((item) => ({
  frame: Number(item.dataset.frame), url: item.querySelector("img").src, crop: item.querySelector("img.crop")?.src ?? null,
  about: item.querySelector("img").alt,
}));
place.hidden = false;
const root = document.documentElement;
root.classList.add("live");
addEventListener("beforeprint", () => {  // before the timeline hears of it, which then draws itself for this width
  place.classList.add("paper");
  root.dataset.theme = "light";
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => {
  place.classList.remove("paper");
  delete root.dataset.theme;
});

// The picture nearest to a frame, large, and what the encoder saw of it.
const large = find(".large"), whole = large && make("img", "", large), below = large && make("div", "", large);
const part = large && Object.assign(make("img", "", below), { alt: "object", title: "what the encoder saw" });
const caption = large && make("figcaption", "soft small", below);
function look(frame) {
  const near = (one) => Math.abs(one.frame - frame);
  const best = scene.thumbnails.reduce((one, two) => (near(two) < near(one) ? two : one), scene.thumbnails[0]);
  if (!best) return;
  [whole.src, whole.alt, part.hidden] = [best.url, best.about, !best.crop];
  if (best.crop) part.src = best.crop;
  caption.textContent = best.frame === frame ? best.about : `nearest picture: ${best.about}`;
}
for (const shot of document.querySelectorAll(".shot")) {
  const { url, about } = scene.thumbnails.find((one) => one.frame === Number(shot.dataset.frame));
  shot.prepend(Object.assign(new Image(), { src: url, alt: about, title: about }));
}

// The video and the timeline show the same instant.
const film = find("video"), knots = scene.times && [scene.times.frames, scene.times.values].map(unpack);
let zero = 0;  // what the player shows first is the start of the stream
function play(frame) {
  if (film && knots) film.currentTime = zero + line(...knots, frame) + .005;
}
const chart = timeline(place, scene, { clock: scene.times ? "seconds" : "frames", wheel: "focus", on: { look, seek: play } });
if (film) {
  const lost = () => { film.hidden = true; find(".film .lost").hidden = false; };
  if (film.error) lost();
  film.addEventListener("error", lost);
  film.requestVideoFrameCallback?.((now, { mediaTime }) => { if (!film.currentTime) zero = mediaTime; });
  film.addEventListener("timeupdate", () => {
    if (knots) chart.playhead(Math.floor(line(knots[1], knots[0], film.currentTime - zero) + .001), true);
  });
}
