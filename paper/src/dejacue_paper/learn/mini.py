"""Train ``mini``, the small encoder that is embedded in the package, on rendered scenes.

    python -m dejacue_paper.learn.mini --out src/dejacue/models/encoders

Renders crops of training scenes (with seeds above those of tests, demos and measurements), trains
an image and a text tower so that a crop is near the descriptions of its state, and writes both as
ONNX. A GPU takes minutes; a CPU works too, with fewer crops.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import extra, need
from dejacue.models.encoders.base import FORMS
from dejacue.models.encoders.mini import SIZE, TOKENS, WordTokenizer
from dejacue_paper.data.crops import crops
from dejacue_paper.data.rendered import FAMILIES

REMEDY = extra("learn", "dejacue-paper")
WIDTH, EMBEDDING = 128, 64
CHANNELS = (32, 64, 96, 160, 224)
KINDS = [(name, state) for name, family in FAMILIES.items() for state in family.states]


def rendered(task: tuple[int, int]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return crops (n, size, size, 3) of one training seed and the kind of each."""
    seed, count = task
    samples = list(crops(seed, count, size=SIZE))
    kinds = [KINDS.index((crop.family, crop.state or "")) for crop in samples]
    return np.stack([crop.image for crop in samples]), np.array(kinds)


def dataset(count: int, workers: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    each = 500
    tasks = [(seed, each) for seed in range(-(-count // each))]
    with ProcessPoolExecutor(workers) as pool:
        parts = list(pool.map(rendered, tasks))
    images, kinds = (np.concatenate(column) for column in zip(*parts, strict=True))
    return images, kinds


def texts() -> tuple[list[str], NDArray[np.int64]]:
    """Return every description in every form, and the kind of each."""
    rows, kinds = [], []
    for kind, (name, state) in enumerate(KINDS):
        for text in FAMILIES[name].descriptions[state]:
            for form in FORMS.values():
                rows.append(form.format(text))
                kinds.append(kind)
    return rows, np.array(kinds)


def towers(vocabulary: int) -> tuple[Any, Any]:
    torch = need("torch", REMEDY)
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        """Applies a depthwise 5 × 5 and two pointwise convolutions, with a skip connection."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(width, width, 5, padding=2, groups=width),
                nn.BatchNorm2d(width),
                nn.Conv2d(width, 2 * width, 1),
                nn.GELU(),
                nn.Conv2d(2 * width, width, 1),
            )

        def forward(self, x: Any) -> Any:
            return x + self.layers(x)

    class ImageTower(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            parts: list[Any] = []
            before = 3
            for width in CHANNELS:
                parts += [nn.Conv2d(before, width, 3, 2, 1), nn.BatchNorm2d(width), nn.GELU()]
                parts += [Block(width)]
                before = width
            self.layers = nn.Sequential(*parts)
            self.out = nn.Linear(2 * before, WIDTH)

        def forward(self, pixels: Any) -> Any:
            x = self.layers(pixels).flatten(2)
            return self.out(torch.cat([x.mean(dim=2), x.amax(dim=2)], dim=1))

    class TextTower(nn.Module):  # type: ignore[name-defined, misc]
        """Embeds words, convolves over neighbours, and pools by maximum and mean."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(vocabulary, EMBEDDING, padding_idx=0)
            self.near = nn.Conv1d(EMBEDDING, WIDTH, 3, padding=1)
            self.out = nn.Sequential(
                nn.Linear(WIDTH + EMBEDDING, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)
            )

        def forward(self, tokens: Any) -> Any:
            there = (tokens > 0).float()[:, None]
            x = self.words(tokens).transpose(1, 2) * there
            near = (torch.nn.functional.gelu(self.near(x)) - 10 * (1 - there)).amax(dim=2)
            mean = x.sum(dim=2) / there.sum(dim=2).clamp(min=1)
            return self.out(torch.cat([near, mean], dim=1))

    return ImageTower(), TextTower()


def train(
    images: NDArray[np.uint8],
    kinds: NDArray[np.int64],
    *,
    epochs: int,
    batch: int,
    device: str,
    seed: int = 0,
) -> tuple[Any, Any, WordTokenizer]:
    torch = need("torch", REMEDY)
    functional = torch.nn.functional
    torch.manual_seed(seed)
    sentences, owners = texts()
    words = WordTokenizer.of(sentences)
    image, text = towers(len(words))
    image, text = image.to(device), text.to(device)
    temperature = torch.nn.Parameter(torch.tensor(2.5, device=device))
    parameters = [*image.parameters(), *text.parameters(), temperature]
    steps = epochs * (len(images) // batch)
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps + 1)
    pixels = torch.from_numpy(images).to(device)
    labels = torch.from_numpy(kinds).to(device)
    tokens = torch.from_numpy(words(sentences)).to(device)
    owner = torch.from_numpy(owners).to(device)
    rng = torch.Generator(device="cpu").manual_seed(seed)
    start = time.perf_counter()
    for step in range(steps):
        rows = torch.randint(len(pixels), (batch,), generator=rng).to(device)
        chosen = torch.randint(len(tokens), (512,), generator=rng).to(device)
        dropped = tokens[chosen]
        hidden = torch.rand(dropped.shape, device=device) < 0.05  # becomes the unknown word
        dropped = torch.where(hidden & (dropped > 0), torch.ones_like(dropped), dropped)
        a = functional.normalize(image(_augmented(pixels[rows])), dim=1)
        b = functional.normalize(text(dropped), dim=1)
        logits = a @ b.T * temperature.exp()
        same = (labels[rows][:, None] == owner[chosen][None]).float()
        loss = _loss(logits, same) + _loss(logits.T, same.T)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 500 == 0 or step == steps - 1:
            seconds = time.perf_counter() - start
            print(
                f"step {step} of {steps}: loss {float(loss.detach()):.3f}, {seconds:.0f} s",
                flush=True,
            )
    return image.eval(), text.eval(), words


def _loss(logits: Any, same: Any) -> Any:
    """Return the cross-entropy with several right answers, of equal weight; rows without any do not
    count."""
    there = same.sum(dim=1) > 0
    target = same[there] / same[there].sum(dim=1, keepdim=True)
    return -(target * logits[there].log_softmax(dim=1)).sum(dim=1).mean()


def _augmented(pixels: Any) -> Any:
    """Return images (n, 3, size, size) in −1 … 1: mirrored, shifted, brighter or darker."""
    torch = need("torch", REMEDY)
    x = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1
    mirrored = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
    x = torch.where(mirrored, x.flip(3), x)
    gain = 1 + 0.3 * (torch.rand(len(x), 1, 1, 1, device=x.device) - 0.5)
    shift = torch.randint(-4, 5, (2,)).tolist()
    return torch.roll(x * gain, shift, dims=(2, 3))


def export(
    folder: Path, image: Any, text: Any, words: WordTokenizer, notes: dict[str, str]
) -> None:
    """Write both towers as ONNX with weights in half precision, cast when they are loaded."""
    torch = need("torch", REMEDY)
    onnx = need("onnx", REMEDY)
    examples = {
        "image": (image.cpu(), torch.zeros(2, 3, SIZE, SIZE), "pixel_values"),
        "text": (text.cpu(), torch.ones(2, TOKENS, dtype=torch.int64), "input_ids"),
    }
    for name, (tower, example, inputs) in examples.items():
        path = folder / f"mini_{name}.onnx"
        torch.onnx.export(
            tower,
            (example,),
            path,
            dynamo=False,
            opset_version=17,
            input_names=[inputs],
            output_names=["pooler_output"],
            dynamic_axes={inputs: {0: "n"}, "pooler_output": {0: "n"}},
        )
        model = onnx.load(path)
        _halve(onnx, model)
        for key, value in {**notes, "words": json.dumps(words.known)}.items():
            entry = model.metadata_props.add()
            entry.key, entry.value = key, value
        onnx.checker.check_model(model)
        onnx.save(model, path)
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")


def _halve(onnx: Any, model: Any) -> None:
    """Convert large float32 weights to float16, with a Cast in front of whoever reads them."""
    casts = []
    for weight in list(model.graph.initializer):
        values = onnx.numpy_helper.to_array(weight)
        if values.dtype != np.float32 or values.size < 64:
            continue
        half = onnx.numpy_helper.from_array(values.astype(np.float16), f"{weight.name}_half")
        model.graph.initializer.append(half)
        casts.append(
            onnx.helper.make_node("Cast", [half.name], [weight.name], to=onnx.TensorProto.FLOAT)
        )
        model.graph.initializer.remove(weight)
    for cast in reversed(casts):
        model.graph.node.insert(0, cast)


def accuracy(image: Any, text: Any, words: WordTokenizer, count: int, device: str) -> float:
    """Return the share of fresh crops whose nearest state, among those of their family, is
    right."""
    torch = need("torch", REMEDY)
    images, kinds = rendered(((1 << 23) + 7, count))
    sentences, owners = texts()
    with torch.inference_mode():
        rows = text.to(device)(torch.from_numpy(words(sentences)).to(device))
        rows = torch.nn.functional.normalize(rows, dim=1).cpu().numpy()
        centres = np.stack([rows[owners == kind].mean(axis=0) for kind in range(len(KINDS))])
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1
        seen = image.to(device)(pixels.to(device)).cpu().numpy()
    scores = seen @ centres.T
    family = np.array([name for name, _ in KINDS])
    rivals = family[None] != family[kinds][:, None]
    return float((np.where(rivals, -np.inf, scores).argmax(axis=1) == kinds).mean())


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m dejacue_paper.learn.mini")
    parser.add_argument("--out", type=Path, required=True, help="folder for the two ONNX files")
    parser.add_argument("--crops", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--device", default=None)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(argv)
    from dejacue.models.encoders.torch_models import choose_device

    device = choose_device(options.device)
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    images, kinds = dataset(options.crops, options.workers)
    print(f"{len(images)} crops in {time.perf_counter() - start:.0f} s", flush=True)
    image, text, words = train(
        images, kinds, epochs=options.epochs, batch=min(options.batch, len(images)), device=device
    )
    right = accuracy(image, text, words, 2000, device)
    print(f"accuracy among sibling states on new crops: {100 * right:.1f} %")
    count = sum(p.numel() for tower in (image, text) for p in tower.parameters())
    print(f"{count:,} parameters")
    notes = {"crops": str(len(images)), "epochs": str(options.epochs), "accuracy": f"{right:.4f}"}
    export(options.out, image, text, words, notes)


if __name__ == "__main__":
    main()
