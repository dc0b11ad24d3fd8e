"""What a notebook does with the module: render a model, and hear what changes in it."""

from __future__ import annotations

from dejacue.report.scene import timeline_module

MODEL = """
window.model = {
  values: { options: { editable: true, clock: "frames" }, frame: 0, selection: null, windows: [] },
  heard: {}, saved: 0,
  get(name) { return this.values[name]; },
  set(name, value) { this.values[name] = value; },
  save_changes() { this.saved += 1; },
  on(name, act) { this.heard[name] = act; },
  off(name) { delete this.heard[name]; },
};
window.begin = (scene) => {
  model.values.scene = scene;
  window.end = widget.render({ model, el: document.querySelector("#here") });
};
"""


def test_a_model_is_drawn_edited_and_followed(chromium, rich) -> None:
    page = chromium.new_context(viewport={"width": 1280, "height": 800}).new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_content('<!doctype html><title>notebook</title><div id="here"></div>')
    module = timeline_module().replace("export default", "const widget =", 1)
    page.add_script_tag(content=module + MODEL, type="module")
    page.wait_for_function("typeof window.begin === 'function'")
    page.evaluate("(scene) => begin(scene)", rich)
    page.locator(".tl-plot").focus()
    page.keyboard.press("n")
    assert page.evaluate("model.values.selection.state") == "empty"
    assert page.evaluate("model.values.frame") == 20
    for key in ("ArrowRight", "s"):
        page.keyboard.press(key)
    assert page.evaluate("model.values.windows[0]") == {
        "state": "empty",
        "description": None,
        "windows": [[21, 60]],
    }
    assert page.evaluate("model.saved") >= 3
    page.evaluate("model.values.frame = 99; model.heard['change:frame']()")
    page.wait_for_function("document.querySelector('.tl-plot').ariaValueNow === '99'")
    page.evaluate("end()")
    assert page.locator("#here > *").count() == 0
    assert page.evaluate("model.heard") == {}
    assert errors == []
    page.context.close()
