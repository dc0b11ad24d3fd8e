"""Frame truth: whatever number the page shows, the pixels on the screen show it, too."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest
from helpers.studio_page import served

COUNT, BITS, SIDE = 240, 8, 16
FEW, MANY = 15, 75  # seeks; many of each of four videos
KINDS = {
    "constant-h264.mp4": ("libx264", False),
    "variable-h264.mp4": ("libx264", True),
    "constant-vp9.webm": ("libvpx-vp9", False),
    "variable-vp9.webm": ("libvpx-vp9", True),
}

# The number that is painted in what is on the screen, after a seek to each of several frames
SEEK = """async ([frames, bits, side]) => {
  const canvas = document.createElement("canvas");
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const field = document.querySelector(".goto"), seeks = [];
  const shown = () => document.querySelector(".shown").dataset;
  const turn = () => new Promise((go) => setTimeout(go, 4));
  [canvas.width, canvas.height] = [bits * side, 4 * side];
  for (const frame of frames) {
    field.value = frame;
    field.dispatchEvent(new Event("change"));
    await turn();
    const end = performance.now() + 300_000;
    while (shown().frame !== String(frame) && performance.now() < end) await turn();
    const picture = document.querySelector(".stage > img");
    const seen = picture.hidden ? document.querySelector(".stage video") : picture;
    pen.drawImage(seen, 0, 0, canvas.width, canvas.height);
    let number = 0;
    for (let bit = 0; bit < bits; bit += 1) {
      const [red] = pen.getImageData((bit + .5) * side, 2 * side, 1, 1).data;
      number += (red > 127) << bit;
    }
    seeks.push([Number(shown().frame), shown().how, number]);
  }
  return seeks;
}"""
# Plays until three frames were seen or the end is reached, and pauses there
PLAY = """async () => {
  const playing = () => document.querySelector(".play[aria-label^=pause]"), seen = new Set();
  document.querySelector(".play").click();
  for (let began = false, end = performance.now() + 300_000; performance.now() < end;) {
    await new Promise((go) => setTimeout(go, 4));
    began ||= Boolean(playing());
    if (began) seen.add(document.querySelector(".shown").dataset.frame);
    if (began && (seen.size > 3 || !playing())) break;
  }
  playing()?.click();
}"""
FAST = {
    "libx264": {"preset": "ultrafast"},
    "libvpx-vp9": {"cpu-used": "8", "deadline": "realtime"},
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=error"},
}


def painted(number: int) -> np.ndarray:
    """Return the bits of a number, least first, in black and white."""
    image = np.zeros((4 * SIDE, BITS * SIDE, 3), np.uint8)
    for bit in range(BITS):
        image[:, bit * SIDE : (bit + 1) * SIDE] = 255 * (number >> bit & 1)
    return image


def write(path, codec: str, variable: bool, count: int = COUNT) -> None:
    draw = np.random.default_rng(5)
    gaps = draw.integers(12, 90, count) if variable else np.full(count, 1001 / 30)
    times_ms = np.concatenate([[0], np.cumsum(gaps)])[:count]
    base = Fraction(1, 90_000) if path.suffix == ".mp4" else Fraction(1, 1000)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=30)
        stream.width, stream.height, stream.pix_fmt = BITS * SIDE, 4 * SIDE, "yuv420p"
        stream.time_base = stream.codec_context.time_base = base
        stream.codec_context.gop_size = 40
        stream.options = FAST[codec]
        if codec == "libx264":
            stream.codec_context.max_b_frames = 2
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(painted(number), format="rgb24")
            frame.pts, frame.time_base = round(times_ms[number] / 1000 / base), base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Serve videos whose frames show their numbers; yield the address."""
    root = tmp_path_factory.mktemp("films")
    for name, (codec, variable) in KINDS.items():
        write(root / name, codec, variable)
    with served(root) as address:
        yield root, address


@pytest.mark.parametrize(
    ("name", "seeks"),
    [
        ("variable-h264.mp4", FEW),
        ("constant-vp9.webm", FEW),
        *(pytest.param(name, MANY, marks=pytest.mark.long) for name in KINDS),
    ],
)
def test_the_number_on_the_page_is_the_number_in_the_pixels(films, desk, name, seeks) -> None:
    user = desk(films[1])
    user.open(f"#/track/{name}")
    user.shows(0)
    draw = np.random.default_rng(len(name))
    frames = [0, COUNT - 1, *draw.integers(0, COUNT, seeks - 2).tolist()]
    seeks = user.page.evaluate(SEEK, [frames, BITS, SIDE])
    assert [seek[0] for seek in seeks] == frames
    assert [seek[2] for seek in seeks] == frames
    assert {seek[1] for seek in seeks} <= {"verified", "server"}
    assert "verified" in {seek[1] for seek in seeks}  # how many: benchmarks/studio_page.py


@pytest.mark.long
@pytest.mark.parametrize("name", ["variable-h264.mp4", "variable-vp9.webm"])
def test_of_many_wishes_the_last_one_is_shown_and_a_pause_is_true(films, desk, name) -> None:
    user = desk(films[1])
    user.open(f"#/track/{name}")
    user.shows(0)
    scrub = """async (frames) => {
      const field = document.querySelector(".goto");
      for (const frame of frames) {
        field.value = frame;
        field.dispatchEvent(new Event("change"));
        await new Promise((go) => setTimeout(go, 7));
      }
    }"""
    draw = np.random.default_rng(1)
    for _ in range(5):
        frames = draw.integers(0, COUNT, 25).tolist()
        user.page.evaluate(scrub, frames)
        assert user.page.evaluate(SEEK, [frames[-1:], BITS, SIDE])[0][2] == frames[-1]
        user.page.evaluate(PLAY)
        user.until("() => document.querySelector('.shown').dataset.how")
        frame = int(user.page.locator(".shown").get_attribute("data-frame"))
        assert user.page.evaluate(SEEK, [[frame], BITS, SIDE])[0][::2] == [frame, frame]


@pytest.mark.long
def test_hevc_is_decoded_by_the_server_and_the_numbers_are_true(tmp_path, desk) -> None:
    """Chromium has no HEVC here: each number that is shown is that of the pixels nevertheless."""
    write(tmp_path / "hevc.mp4", "libx265", True, 60)
    with served(tmp_path) as address:
        user = desk(address)
        user.open("#/track/hevc.mp4")
        assert user.shows(0) == "server"
        assert "decoded by the server" in user.page.locator(".shown").inner_text()
        frames = np.random.default_rng(4).permutation(60)[:20].tolist()
        seeks = user.page.evaluate(SEEK, [frames, BITS, SIDE])
        assert seeks == [[frame, "server", frame] for frame in frames]
        user.page.context.close()
