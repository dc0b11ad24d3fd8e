
// In the report. Everything can be read without script; with it, the timeline takes the place of
// the still drawings.
const scene = JSON.parse(document.querySelector("#scene").textContent), place = document.querySelector("#timeline");
scene.thumbnails = [...document.querySelectorAll(".strip li")].map((item) => ({
  frame: Number(item.dataset.frame), url: item.querySelector("img").src, crop: item.querySelector("img.crop")?.src ?? null,
}));
place.hidden = false;
document.documentElement.classList.add("live");
timeline(place, scene, { clock: scene.times ? "seconds" : "frames", wheel: "focus" });
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
});
