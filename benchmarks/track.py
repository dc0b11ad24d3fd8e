"""Frames to masks with SAM 2: ``python benchmarks/track.py [--device cuda] [--size tiny]``.

Randomly initialised models of the published architectures (hiera tiny and base-plus, at 1024² as
published; at 256² on a CPU, to try it out), so that no weights are needed. Compared in one run
over the same 1280 × 720 frames in memory and the same boxes:

    ours           ``Sam2Session.step``, one frame after another; remembers what is read again
    transformers   ``init_video_session`` with the whole video (its processor, on the device) and
                   ``propagate_in_video_iterator``, as documented; remembers everything

Both times include the copy to the device, resizing and normalising, the model, the masks at the
frame's size and their copy to the host; decoding is in neither. Without torchvision transformers
has no processor; its frames are then prepared by ours, inside its time all the same.

Then what finding the object by its name adds: ``find_objects`` with LLMDet (random weights of the
published size, fp32 as in use) over the same frames, cut into shots of --shot frames, against
following one object through them. Each shot is looked at three times, as where something is found.

Beside numpy, torch and transformers nothing has to be installed: ``PYTHONPATH=src python3
benchmarks/track.py --device cuda`` runs in a checkout.

With ``--tracker NAME`` (such as nano:FOLDER) instead: how well a tracker with weights follows the
objects of footage in VOST's layout, from the box around the masks in the second frame (the first is
tinted), beside that box left where it was. Of the later frames with a mask, the table has the share
in which the middle of the box lies in the box around the masks, the mean overlap (IoU) of the two,
and the share in which the object counts as seen.
"""

from __future__ import annotations

import argparse
import copy
import gc
import tempfile
import time
from pathlib import Path

import numpy as np
from _common import FOOTAGE, Parser, replace_missing_packages, sequences

replace_missing_packages()
from dejacue.models.detectors import find_objects
from dejacue.models.detectors.zero_shot import GroundingDino
from dejacue.models.trackers.base import Prompt
from dejacue.models.trackers.sam2 import (
    Sam2Tracker,
    dtype_of,
    frame_input,
    output_masks,
    point_input,
)
from dejacue.video.video import Frame, Video

HEIGHT, WIDTH = 720, 1280
DETECTOR_EDGES = (800, 1333)  # shortest and longest, of pictures as LLMDet sees them
MODEL_SIDE = 1024  # of SAM 2 as published; with a smaller one LLMDet's pictures are smaller, too
BERT_WORDS = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", 1012: "."}
SMALL_DETECTOR = {
    "d_model": 32,
    "num_queries": 30,
    "encoder_layers": 1,
    "encoder_ffn_dim": 32,
    "encoder_attention_heads": 4,
    "decoder_layers": 2,
    "decoder_ffn_dim": 32,
    "decoder_attention_heads": 4,
}
BACKBONES = {  # what differs from transformers' defaults, which are those of tiny
    "tiny": {},
    "base-plus": {
        "hidden_size": 112,
        "num_attention_heads": 2,
        "blocks_per_stage": [2, 3, 16, 3],
        "embed_dim_per_stage": [112, 224, 448, 896],
        "num_attention_heads_per_stage": [2, 4, 8, 16],
        "window_positional_embedding_background_size": [14, 14],
        "global_attention_blocks": [12, 16, 20],
    },
}


def random_model(size: str, side: int, device: str, dtype):
    import torch
    import transformers

    torch.manual_seed(0)
    levels = [[side // 4] * 2, [side // 8] * 2, [side // 16] * 2]
    backbone = transformers.Sam2HieraDetConfig(image_size=[side, side], **BACKBONES[size])
    vision = transformers.Sam2VisionConfig(
        backbone_config=backbone,
        backbone_feature_sizes=levels,
        backbone_channel_list=backbone.embed_dim_per_stage[::-1],
    )
    config = transformers.Sam2VideoConfig(
        vision_config=vision,
        prompt_encoder_config={"image_size": side},
        image_size=side,
        memory_attention_rope_feat_sizes=levels[-1],
    )
    model = transformers.Sam2VideoModel(config).eval()
    with torch.no_grad():  # an object that is seen, so that its masks are worth comparing
        model.mask_decoder.pred_obj_score_head.proj_out.bias.fill_(5)
    return model.to(device, dtype)


def pictures(count: int) -> list[np.ndarray]:
    """Yield few different ones, over and over."""
    rng = np.random.default_rng(0)
    few = [rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8) for _ in range(min(count, 8))]
    return [few[k % len(few)] for k in range(count)]


class PicturesInMemory(Video):
    """A video of pictures in memory, cut into shots by their tint; ``find_objects`` takes it."""

    def __init__(self, images: list[np.ndarray], shot: int) -> None:
        self.path, self.length = "", len(images)
        tinted: dict[tuple[int, int], np.ndarray] = {}  # few are different
        for at, image in enumerate(images):
            channel = at // shot % 3
            if (id(image), channel) not in tinted:
                tinted[id(image), channel] = np.where(np.arange(3) == channel, image, image // 4)
        self.images = [tinted[id(image), at // shot % 3] for at, image in enumerate(images)]

    def lazy_frames(self):
        for at, image in enumerate(self.images):
            yield Frame(at, at, at / 25, None, image)

    def frames_at(self, indices):
        wanted = set(indices)
        return (frame for frame in self.lazy_frames() if frame.index in wanted)


def random_detector(device: str, side: int, small: bool) -> GroundingDino:
    """Return LLMDet with random weights; small: not of the published size."""
    import torch
    import transformers

    torch.manual_seed(0)
    more = dict(SMALL_DETECTOR) if small else {}
    if small:
        more["backbone_config"] = transformers.SwinConfig(
            embed_dim=8,
            depths=[1, 1, 1, 1],
            num_heads=[1, 1, 2, 2],
            window_size=4,
            out_features=["stage2", "stage3", "stage4"],
        )
        more["text_config"] = transformers.BertConfig(
            hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
        )
    model = transformers.MMGroundingDinoForObjectDetection(
        transformers.MMGroundingDinoConfig(**more)
    )
    shortest, longest = (round(edge * side / MODEL_SIDE) for edge in DETECTOR_EDGES)
    pillow = getattr(transformers, "GroundingDinoImageProcessorPil", None)
    images = (pillow or transformers.GroundingDinoImageProcessor)(
        size={"shortest_edge": shortest, "longest_edge": longest}
    )
    with tempfile.TemporaryDirectory() as folder:
        words = {at: f"[unused{at}]" for at in range(1030)} | BERT_WORDS | {200: "cup"}
        (Path(folder) / "vocab.txt").write_text("\n".join(words.values()) + "\n")
        tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    processor = transformers.GroundingDinoProcessor(image_processor=images, tokenizer=tokenizer)
    return GroundingDino(model, processor, "llmdet", device=device, identity="random")


def boxes(objects: int) -> list[tuple[float, float, float, float]]:
    return [(100.0 + 60 * k, 80.0, 400.0 + 60 * k, 500.0) for k in range(objects)]


def ours(tracker: Sam2Tracker, frames: list[np.ndarray], objects: int):
    session = tracker.session()
    prompts = [Prompt(0, k + 1, box=box) for k, box in enumerate(boxes(objects))]
    area = []
    for k, frame in enumerate(frames):
        seen = session.step(frame, prompts if k == 0 else ())
        area.append([int(tracked.mask.sum()) for tracked in seen.values()])
    return session, area


def theirs(model, processor, frames: list[np.ndarray], objects: int, device: str, dtype):
    import torch
    import transformers

    side = model.config.image_size
    if processor is not None:
        session = processor.init_video_session(video=frames, inference_device=device, dtype=dtype)
        for k, box in enumerate(boxes(objects)):
            processor.add_inputs_to_inference_session(session, 0, k + 1, input_boxes=[[list(box)]])
    else:
        video = torch.stack([frame_input(frame, side, device, dtype) for frame in frames])
        session = transformers.Sam2VideoInferenceSession(
            video=video,
            inference_device=device,
            inference_state_device=device,
            video_storage_device=device,
            dtype=dtype,
        )
        del video
        for k, box in enumerate(boxes(objects)):
            at, labels = point_input(Prompt(box=box), HEIGHT, WIDTH, side)
            inputs = {"point_coords": at, "point_labels": labels}
            session.add_point_inputs(session.obj_id_to_idx(k + 1), 0, inputs)
    session.obj_with_new_inputs = list(range(1, objects + 1))
    area = []
    for output in model.propagate_in_video_iterator(session, start_frame_idx=0):
        if processor is not None:
            mask_rows = processor.post_process_masks([output.pred_masks], [[HEIGHT, WIDTH]])[0]
            masks = mask_rows[:, 0].cpu().numpy()
        else:
            masks = output_masks(output.pred_masks, HEIGHT, WIDTH)
        area.append([int(mask.sum()) for mask in masks])
    return session, area


def its_processor(side: int):
    import transformers

    size = {"height": side, "width": side}
    try:
        return transformers.Sam2VideoProcessor(
            transformers.Sam2ImageProcessor(size=size),
            transformers.Sam2VideoVideoProcessor(size=size),
        )
    except (ImportError, RuntimeError):  # torchvision is not there, or not for this torch
        return None


def tensor_bytes(thing, seen: dict[int, int] | None = None) -> int:
    """Count the bytes of all tensors that a session refers to, shared ones once."""
    import torch

    outermost = seen is None
    seen = {} if seen is None else seen
    if isinstance(thing, torch.Tensor):
        storage = thing.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
    elif isinstance(thing, dict):
        for part in thing.values():
            tensor_bytes(part, seen)
    elif isinstance(thing, list | tuple):
        for part in thing:
            tensor_bytes(part, seen)
    elif hasattr(thing, "__dict__") and not isinstance(thing, Sam2Tracker | type):
        tensor_bytes(vars(thing), seen)
    return sum(seen.values()) if outermost else 0


class Meter:
    """Seconds, bytes held at the end, and on a GPU the peak above what was there before."""

    def __init__(self, device: str) -> None:
        self.gpu = device.startswith("cuda")

    def __call__(self, run) -> tuple[float, int, int, list]:
        import torch

        gc.collect()
        if self.gpu:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() if self.gpu else 0
        start = time.perf_counter()
        session, area = run()
        if self.gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        peak = torch.cuda.max_memory_allocated() - before if self.gpu else 0
        return seconds, tensor_bytes(session), peak, area


def compare(
    size: str, device: str, precision: str, detector: GroundingDino, options: argparse.Namespace
) -> None:
    dtype, meter = dtype_of(precision), Meter(device)
    model = random_model(size, options.side, device, dtype)
    processor = its_processor(options.side)
    tracker = Sam2Tracker(
        copy.deepcopy(model), f"sam2-{size}", device=device, precision=precision
    )  # its own copy: it remembers constants
    runs = {
        "ours": lambda frames: ours(tracker, frames, options.objects),
        "transformers": lambda frames: theirs(
            model, processor, frames, options.objects, device, dtype
        ),
    }
    millions = sum(weights.numel() for weights in model.parameters()) / 1e6
    prepared = (
        "its processor" if processor is not None else "our code (torchvision is not installed)"
    )
    print(
        f"\nsam2-{size} ({millions:.1f} M weights) at {options.side}², {options.objects} object(s)"
    )
    print(f"frames for transformers prepared by {prepared}")
    print(f"{'frames':>8} {'':14} {'frames/s':>9} {'ms/frame':>9} {'held MB':>9} {'peak MB':>9}")
    n = options.frames
    for count in sorted({max(1, n // 4), max(1, n // 2), n}):  # the short ones warm up
        frames = pictures(count)
        best: dict[str, tuple[float, int, int, list]] = {}
        for _ in range(options.repeat if count == n else 1):
            for name, run in runs.items():  # in turns, so that both see the same machine
                measured = meter(lambda: run(frames))
                if name not in best or measured[0] < best[name][0]:
                    best[name] = measured
        for name, (seconds, held_bytes, peak, _) in best.items():
            print(
                f"{count:8} {name:14} {count / seconds:9.2f} {1000 * seconds / count:9.1f} "
                f"{held_bytes / 1e6:9.1f} {f'{peak / 1e6:.0f}' if peak else '-':>9}"
            )
    ratio = best["transformers"][0] / best["ours"][0]
    areas = [np.array(best[name][3]) for name in runs]
    apart = np.abs(areas[0] - areas[1]).max() / (HEIGHT * WIDTH)
    print(f"ours is {ratio:.2f} times as fast as transformers (goal: at least 1.00)")
    print(f"areas of the masks differ by at most {100 * apart:.3f} % of the frame")
    add_detection(f"sam2-{size}", best["ours"][0], detector, options)


def add_detection(
    name: str, tracking_s: float, detector: GroundingDino, options: argparse.Namespace
) -> None:
    """Print what finding an object by its name adds to following it through the same frames."""
    video = PicturesInMemory(pictures(options.frames), options.shot)
    detector.threshold = 0.0  # returns with boxes on the host
    detector.detect(video.images[0], ["cup"])  # warms up
    times = []
    for _ in range(options.repeat):
        start = time.perf_counter()
        search = find_objects(video, ("cup",), detector)
        times.append(time.perf_counter() - start)
    looks, shots, seconds = len(search.looks), len(search.shots), min(times)
    millions = sum(weights.numel() for weights in detector.model.parameters()) / 1e6
    print(
        f"llmdet ({millions:.1f} M weights, fp32): {seconds:.2f} s for {looks} looks in {shots} "
        f"shot(s), {1000 * seconds / looks:.0f} ms a look with the search for cuts; following "
        f"{tracking_s:.2f} s"
    )
    share = 100 * seconds / tracking_s
    enough = int(np.ceil(10 * options.frames / shots * seconds / tracking_s))
    print(
        f"finding the object by its name adds {share:.1f} % to {name} with shots of "
        f"{options.frames // shots} frames (goal: at most 10 %, kept from {enough} frames on)"
    )


def followed(name: str, options: argparse.Namespace) -> None:
    """Print how well a tracker follows the objects of each sequence."""
    from dejacue.masks import open_masks
    from dejacue.models.trackers import load_tracker, track
    from dejacue.models.trackers.base import bounding_box, overlaps
    from dejacue.video.video import open_video

    tracker = load_tracker(name)
    print(f"{'':26}   centre       IoU          seen  ms/frame")
    print(f"{'sequence':26}   {name[:4]:4} still   {name[:4]:4} still")
    rows = []
    for folder in sequences(options.footage, options):
        masks = open_masks(folder.parents[1] / "Annotations" / folder.name)
        video = open_video(folder, start=1)
        true = [
            (0, 0, 0, 0) if mask is None else bounding_box(mask) or (0, 0, 0, 0)
            for mask in (masks.unions(frame, [None])[0] for frame in video)
        ]
        start = time.perf_counter()
        frames = list(track(video, Prompt(box=tuple(map(float, true[0]))), tracker, presence=0.0))
        seconds = time.perf_counter() - start
        boxes = [bounding_box(frame.objects[1].mask) or (0, 0, 0, 0) for frame in frames]
        there = [at for at in range(1, len(true)) if any(true[at])]
        edges, still = np.array(true)[there], np.array(true[0])
        values = []
        for box in (np.array(boxes)[there], np.tile(still, (len(there), 1))):
            middle = (box[:, :2] + box[:, 2:]) / 2
            inside = ((middle >= edges[:, :2]) & (middle < edges[:, 2:])).all(axis=1)
            values.append((inside.mean(), overlaps(box, edges).mean()))
        seen = np.mean([frames[at].objects[1].presence >= 0.5 for at in there])
        (centre, iou), (still_centre, still_iou) = values
        row = (centre, still_centre, iou, still_iou, seen, 1000 * seconds / len(frames))
        rows.append(row)
        print(
            f"{folder.name:26}" + "   {:.2f} {:.2f}    {:.2f} {:.2f}    {:.2f} {:8.1f}".format(*row)
        )
    means = np.mean(rows, axis=0)
    print(f"{'mean':26}" + "   {:.2f} {:.2f}    {:.2f} {:.2f}    {:.2f} {:8.1f}".format(*means))


def main() -> None:
    parser = Parser(__doc__, device="cpu", size="tiny", frames=2, side=64)
    parser.add_argument("--device", default=None, help="cuda, mps or cpu")
    parser.add_argument("--precision", default=None, help="bf16 (default on cuda), fp16 or fp32")
    parser.add_argument("--size", choices=["tiny", "base-plus"], default=None, help="default: both")
    parser.add_argument("--frames", type=int, default=None, help="default: 200 on cuda, else 4")
    parser.add_argument("--side", type=int, default=None, help="default: 1024 on cuda, else 256")
    parser.add_argument("--objects", type=int, default=1)
    parser.add_argument("--shot", type=int, default=100, help="frames between two cuts")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--repeat", type=int, default=None, help="default: 3 on cuda, else 1")
    parser.add_argument("--tracker", default=None, help="measure this one on footage instead")
    parser.add_argument("--footage", type=Path, default=FOOTAGE, help="in VOST's layout")
    options = parser.parse_args()
    if options.tracker:
        followed(options.tracker, options)
        return

    import torch
    import transformers

    torch.set_num_threads(options.threads)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = device.startswith("cuda")
    precision = options.precision or ("bf16" if on_gpu else "fp32")
    options.frames = options.frames or (200 if on_gpu else 4)
    options.side = options.side or (1024 if on_gpu else 256)
    options.repeat = options.repeat or (3 if on_gpu else 1)
    name = torch.cuda.get_device_name(device) if on_gpu else f"{options.threads} thread(s)"
    print(f"{device} ({name}), {precision}, {WIDTH} × {HEIGHT}, best of {options.repeat}")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    detector = random_detector(device, options.side, options.smoke)
    for size in [options.size] if options.size else ["tiny", "base-plus"]:
        compare(size, device, precision, detector, options)


if __name__ == "__main__":
    main()
