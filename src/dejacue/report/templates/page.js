
// In the report. Everything can be read without script; with it, the timeline takes the place of
// the bars and the pictures above them.
const scene = JSON.parse(document.querySelector("#scene").textContent), place = document.querySelector("#timeline");
scene.thumbnails = [...document.querySelectorAll(".strip li")].map((item) => ({
  frame: Number(item.dataset.frame), url: item.querySelector("img").src, crop: item.querySelector("img.crop")?.src ?? null,
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
timeline(place, scene, { clock: scene.times ? "seconds" : "frames", wheel: "focus" });
