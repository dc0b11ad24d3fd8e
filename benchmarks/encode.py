"""Frames to features on an accelerator: ``python benchmarks/encode.py [--device cuda]``.

A randomly initialised SigLIP base-patch16-224 (the published architecture, a small vocabulary), so
that no weights are needed. Compared in one run: the bare image tower on pixels that are on the
device already; our path from decoded 1280 × 720 frames and masks (crop and resize in compiled
code, copy, encode); and a plain transformers loop (processor on the CPU, batches of 32, fp32).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from _common import Parser, timed

from dejacue.finding._encode import build_histories
from dejacue.models.encoders.siglip import TorchSiglip
from dejacue.video.crops import crop, picture
from dejacue.video.video import Frame


def random_model(folder: Path, layers: int) -> None:
    """Write SigLIP base-patch16-224 with random weights and a tokenizer of two words."""
    import tokenizers
    import transformers

    shared = {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "num_hidden_layers": layers,
    }
    config = transformers.SiglipConfig(
        text_config={**shared, "vocab_size": 100, "num_hidden_layers": 1},
        vision_config={**shared, "image_size": 224, "patch_size": 16},
    )
    transformers.SiglipModel(config).save_pretrained(folder)
    words = tokenizers.models.WordLevel({"<pad>": 0, "<unk>": 1}, "<unk>")
    tokenizers.Tokenizer(words).save(str(folder / "tokenizer.json"))


class Frames:
    """Decoded frames that are in memory, over and over."""

    path = name = key = "frames"
    problems, step = (), 1

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        self.images = [rng.integers(0, 256, (720, 1280, 3), dtype=np.uint8) for _ in range(16)]
        self.length = count

    def lazy_frames(self):
        for k in range(self.length):
            image = self.images[k % len(self.images)]
            image[360, 640] = k % 256, k // 256 % 256, k // 65536  # every frame is another one
            yield Frame(k, k, k / 30, None, image)


class Ellipses:
    """Masks of objects of about 300 pixels, a little different every time."""

    path = key = "ellipses"
    problems, presence = (), {}

    def __init__(self) -> None:
        y, x = np.mgrid[:720, :1280]
        self.masks = []
        for k in range(16):
            a, b = 110 + 4 * k, 150 - 2 * k
            self.masks.append(((y - 360) / a) ** 2 + ((x - 600 - 5 * k) / b) ** 2 < 1)

    def unions(self, frame, groups):
        return [self.masks[frame.index % len(self.masks)]]


def main() -> None:
    parser = Parser(__doc__, device="cpu", frames=2, batch=1, layers=1, croppers=1)
    parser.add_argument("--device", default=None)
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--layers", type=int, default=12, help="fewer for a quick try on a CPU")
    parser.add_argument("--croppers", type=int, default=8)
    options = parser.parse_args()

    import torch
    import transformers

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        random_model(folder, options.layers)
        ours = TorchSiglip(folder=folder, device=options.device, batch=options.batch)
        model = transformers.SiglipModel.from_pretrained(folder).eval().to(ours.device)

    def seconds(run) -> float:
        """Return the time of a run and of what it left to do on the device."""
        wait = torch.cuda.synchronize if ours.device.startswith("cuda") else (lambda: None)
        wait()
        return timed(lambda: (run(), wait()))

    n, batch = options.frames, options.batch

    pixels = torch.randn(batch, 3, 224, 224, device=ours.device, dtype=ours._dtype)

    def bare(times: int) -> None:
        with torch.inference_mode():
            for _ in range(times):
                ours._model.get_image_features(pixel_values=pixels)

    bare(3)
    tower = batch * (n // batch) / seconds(lambda: bare(n // batch))
    masks = Ellipses()
    few = [crop(f.image, masks.unions(f, [None])[0]) for f in Frames(batch).lazy_frames()]
    crops = [picture(f.image, masks.unions(f, [None])[0], 224) for f in Frames(batch).lazy_frames()]
    ours.encode_images(crops)
    many = [crops[k % batch] for k in range(min(n, 40 * batch))]
    encode = len(many) / seconds(lambda: ours.encode_images(many))
    one = {"object": None}
    build_histories(Frames(4 * batch), masks, ours, one, croppers=options.croppers)
    whole = n / seconds(
        lambda: build_histories(Frames(n), masks, ours, one, croppers=options.croppers)
    )
    cropping = Frames(min(n, 2000))
    only = min(n, 2000) / seconds(
        lambda: [picture(f.image, masks.unions(f, [None])[0], 224) for f in cropping.lazy_frames()]
    )
    processor = transformers.SiglipImageProcessor(size={"height": 224, "width": 224})

    def plain(count: int) -> None:
        with torch.inference_mode():
            for first in range(0, count, 32):
                inputs = processor(few[first % batch :][:32], return_tensors="pt")
                model.get_image_features(pixel_values=inputs["pixel_values"].to(ours.device))

    count = min(n, 1024)
    plain(min(count, 64))
    loop = count / seconds(lambda: plain(count))
    print(f"device {ours.device}, {ours.details['precision']}, batch {batch}, {n} frames")
    print(f"bare image tower          {tower:8.0f} images/s")
    print(f"pictures in memory → rows {encode:8.0f} images/s  {encode / tower:.2f} of the tower")
    print(f"frames and masks → rows   {whole:8.0f} images/s  {whole / tower:.2f} of the tower")
    print(f"crop, resize, one thread  {only:8.0f} images/s")
    print(
        f"plain transformers loop   {loop:8.0f} images/s  ours is {whole / loop:.1f} times as fast"
    )


if __name__ == "__main__":
    main()
