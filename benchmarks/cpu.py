"""Images a second of SigLIP 2 base in ONNX Runtime on a CPU: ``python benchmarks/cpu.py``.

By threads, batch and precision, with random weights, so that none are needed (fp16 and int8 are
made here by onnxruntime's tools; the cosines are of these random weights). A machine may be busy
with other work: beside images a second of the clock stand those that two cores would give if they
were ours alone, 2 × images / CPU seconds.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np
from _common import Parser

from dejacue.models.encoders.base import unit
from dejacue.models.encoders.siglip import run, session


def export(path: Path, layers: int) -> None:
    """Write the image tower of google/siglip2-base-patch16-224, with random weights."""
    import torch
    import transformers

    config = transformers.SiglipVisionConfig(
        hidden_size=768,
        intermediate_size=3072,
        num_attention_heads=12,
        num_hidden_layers=layers,
        image_size=224,
        patch_size=16,
    )

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.tower = transformers.SiglipVisionModel(config).eval()

        def forward(self, pixels):
            return self.tower(pixels).pooler_output

    torch.onnx.export(
        Pooled(),
        (torch.zeros(2, 3, 224, 224),),
        path,
        dynamo=False,
        opset_version=17,
        input_names=["pixel_values"],
        output_names=["pooler_output"],
        dynamic_axes={"pixel_values": {0: "n"}, "pooler_output": {0: "n"}},
    )


def other_precision(path: Path, precision: str) -> Path:
    import onnx
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.transformers.float16 import convert_float_to_float16

    target = path.with_name(f"vision_model_{precision}.onnx")
    if precision == "int8":
        quantize_dynamic(path, target)
    else:
        onnx.save(convert_float_to_float16(onnx.load(path), keep_io_types=True), target)
    return target


def rate(model, pixels: np.ndarray, batch: int) -> tuple[float, float]:
    """Return images a second, and images a second of two cores."""
    batches = [pixels[k : k + batch] for k in range(0, len(pixels), batch)]
    run(model, "pixel_values", batches[0])
    start, worked = time.perf_counter(), time.process_time()
    for inputs in batches:
        run(model, "pixel_values", inputs)
    worked, start = time.process_time() - worked, time.perf_counter() - start
    return len(pixels) / start, 2 * len(pixels) / worked


def main() -> None:
    parser = Parser(__doc__, threads=[1], batch=[1], images=1, layers=1)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 4, 8, 16, 32])
    parser.add_argument("--precision", nargs="*", default=["fp32", "fp16", "int8"])
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    pixels = np.random.default_rng(0).normal(size=(options.images, 3, 224, 224)).astype("f4")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("precision  threads  batch  images/s  two cores alone  cosine with fp32, least")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vision_model.onnx"
        export(path, options.layers)
        exact = unit(run(session(path), "pixel_values", pixels[:8]), "image")
        for precision in options.precision:
            model_path = path if precision == "fp32" else other_precision(path, precision)
            for threads in options.threads:
                model = session(model_path, threads)
                rows = unit(run(model, "pixel_values", pixels[:8]), "image")
                least = float((rows * exact).sum(axis=1).min())
                for batch in options.batch:
                    seen, alone = rate(model, pixels, batch)
                    print(
                        f"{precision:9}  {threads:7}  {batch:5}  {seen:8.2f}  {alone:15.2f}  "
                        f"{least:.6f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
