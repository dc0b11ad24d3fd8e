"""SAM 2 through transformers: the same masks as its own session, with memory that does not grow.

The models are tiny and randomly initialised; their weights are spread wide so that masks differ
from frame to frame and depend on what is remembered.
"""

from __future__ import annotations

import hashlib
import json
import re

import numpy as np
import pytest
from helpers.errors import refused
from PIL import Image

from dejacue.errors import InputError, MissingData, MissingExtra, extra
from dejacue.models.trackers import load_tracker, track
from dejacue.models.trackers.base import Prompt

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from helpers.tiny_sam2 import MEMORIES, POINTERS, SIDE, random_model  # noqa: E402

from dejacue.models.trackers import sam2  # noqa: E402
from dejacue.models.trackers.sam2 import Memory, Reach  # noqa: E402

HEIGHT, WIDTH = 36, 48
CLICK = Prompt(object=1, points=((20, 15, True),))
BOX = Prompt(object=2, box=(10, 5, 30, 25), points=((12, 20, False),))
BLOB = np.zeros((HEIGHT, WIDTH), bool)
BLOB[8:20, 12:30] = True


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tracker(kind: str = "sam2", precision: str = "fp32", **options):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    model = random_model(kind, **options).to(dtype)
    return sam2.Sam2Tracker(model, kind, device="cpu", precision=precision)


def frames(count: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    images = []
    for k in range(count):
        image = rng.integers(0, 120, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        x = (3 * k) % (WIDTH - 12)
        image[8:24, x : x + 12] = (200, 40 + k % 100, 60)
        images.append(image)
    return images


def same(left, right) -> bool:
    return left.keys() == right.keys() and all(
        np.array_equal(left[k].mask, right[k].mask) and left[k].presence == right[k].presence
        for k in left
    )


def unpruned(model, images, prompts):
    """Follow one object in the session of transformers, which keeps all; return the masks and
    presences. Prompts are images by frame."""
    kind = sam2.CLASSES[model.config.model_type][1]
    session = getattr(transformers, kind)(dtype=torch.float32)
    session.obj_id_to_idx(1)
    observations = []
    for k, image in enumerate(images):
        if k in prompts:
            prompt = prompts[k]
            if prompt.mask is not None:
                session.add_mask_inputs(0, k, sam2.mask_input(prompt.mask, SIDE))
            else:
                at, labels = sam2.point_input(prompt, HEIGHT, WIDTH, SIDE)
                session.add_point_inputs(0, k, {"point_coords": at, "point_labels": labels})
            session.obj_with_new_inputs = [1]
        frame = sam2.frame_input(image, SIDE, "cpu", torch.float32)
        model(session, frame_idx=k, frame=frame)
        outputs = session.output_dict_per_obj[0]
        output = outputs["cond_frame_outputs" if k in prompts else "non_cond_frame_outputs"][k]
        logits = output["pred_masks"].reshape(1, 1, *levels(model))
        (mask,) = sam2.output_masks(logits, HEIGHT, WIDTH)
        observations.append((mask, float(output["object_score_logits"].sigmoid())))
    assert len(session.processed_frames) == len(images)
    return observations


def levels(model) -> tuple[int, int]:
    return model.prompt_encoder.mask_input_size


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sam2", "edgetam"])
def test_pruning_leaves_masks_and_presence_the_same_to_the_last_bit(kind) -> None:
    images = frames(48)
    prompts = {0: CLICK, 20: Prompt(20, 1, box=(5, 5, 30, 30)), 31: Prompt(31, 1, mask=BLOB)}
    expected = unpruned(random_model(kind), images, prompts)
    session = tracker(kind).session()
    seen = [
        session.step(image, [prompts[k]] if k in prompts else [])[1]
        for k, image in enumerate(images)
    ]
    for observation, (mask, presence) in zip(seen, expected, strict=True):
        assert np.array_equal(observation.mask, mask)
        assert observation.presence == presence
    # else this would show nothing
    assert len({int(observation.mask.sum()) for observation in seen}) > 10
    assert len({observation.presence for observation in seen}) > 40


@pytest.mark.long
def test_the_model_reads_exactly_as_far_as_is_kept() -> None:
    images = frames(12)

    def run(reach: Reach) -> list[float]:
        sam = tracker()
        assert sam.reach == Reach(MEMORIES - 1, POINTERS - 1, None)
        sam.reach = reach
        session = sam.session()
        return [
            session.step(image, [CLICK] if k == 0 else [])[1].presence
            for k, image in enumerate(images)
        ]

    expected = run(Reach(MEMORIES - 1, POINTERS - 1, None))
    assert run(Reach(MEMORIES + 5, POINTERS + 5, None)) == expected
    assert run(Reach(MEMORIES - 1, POINTERS - 2, None)) != expected
    with pytest.raises(KeyError, match="maskmem_features"):
        run(Reach(MEMORIES - 2, POINTERS - 1, None))


def stored_bytes(session: sam2.Sam2Session) -> int:
    """Return how much the tensors of all objects take, shared ones counted once."""
    sizes = {}
    for memory in session._objects.values():
        for outputs in (*memory.prompted.values(), *memory.recent.values()):
            for tensor in outputs.values():
                storage = tensor.untyped_storage()
                sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())


@pytest.mark.long
def test_memory_is_flat_over_a_hundred_frames() -> None:
    session = tracker().session()
    pool = frames(16)
    sizes, counts = [], []
    for k in range(100):
        session.step(pool[k % 16], [CLICK] if k == 0 else [])
        sizes.append(stored_bytes(session))
        memory = session._objects[1]
        counts.append((len(memory.prompted), len(memory.recent)))
    settled = POINTERS + 2
    assert set(sizes[settled:]) == {sizes[-1]}
    assert set(counts[settled:]) == {(1, POINTERS - 1)}
    tokens = (SIDE // 16) ** 2
    features = MEMORIES * tokens * 64 * 2  # bf16, of the prompted frame and of the others
    positions = tokens * 64 * 4  # shared by all
    pointers = POINTERS * 128 * 4
    assert sizes[-1] == features + positions + pointers


@pytest.mark.long
def test_prompted_frames_beyond_the_models_limit_keep_only_their_pointer() -> None:
    limited = {"max_cond_frame_num": 2}
    if not hasattr(transformers.Sam2VideoModel, "_select_closest_cond_frames"):
        pytest.skip("this transformers attends to all prompted frames")
    images = frames(40)
    prompts = {k: Prompt(k, 1, box=(5, 5, 30, 20 + k % 9)) for k in (0, 3, 5, 11, 13, 30)}
    expected = unpruned(random_model(**limited), images, prompts)
    session = tracker(**limited).session()
    for k, image in enumerate(images):
        seen = session.step(image, [prompts[k]] if k in prompts else [])[1]
        assert np.array_equal(seen.mask, expected[k][0])
        assert seen.presence == expected[k][1]
    whole = [f for f, o in session._objects[1].prompted.items() if "maskmem_features" in o]
    assert sorted(session._objects[1].prompted) == [0, 3, 5, 11, 13, 30]
    assert whole == [13, 30]


@pytest.mark.long
def test_objects_do_not_depend_on_each_other_and_may_join_late() -> None:
    images = frames(24)
    together, first, second = (tracker().session() for _ in range(3))
    late = Prompt(9, 2, box=BOX.box, points=BOX.points)
    again = Prompt(15, 2, mask=BLOB)
    for k, image in enumerate(images):
        prompts = {0: [CLICK], 9: [late], 15: [again]}.get(k, [])
        seen = together.step(image, prompts)
        alone = first.step(image, prompts if k == 0 else [])
        assert same({1: seen[1]}, alone)
        if k < 9:
            assert list(seen) == [1]
        else:  # as if the video began where it joined
            assert list(seen) == [1, 2]
            assert same({2: seen[2]}, second.step(image, prompts))


def test_the_image_is_encoded_once_for_all_objects(monkeypatch) -> None:
    sam = tracker()
    calls = []
    encode = sam.model.vision_encoder.forward
    monkeypatch.setattr(
        sam.model.vision_encoder, "forward", lambda *a, **k: calls.append(1) or encode(*a, **k)
    )
    session = sam.session()
    prompts = [Prompt(0, number, points=((5 * number, 9, True),)) for number in (3, 1, 7)]
    for k, image in enumerate(frames(4)):
        assert list(session.step(image, prompts if k == 0 else [])) == [3, 1, 7]
    assert len(calls) == 4


def test_nothing_is_computed_before_an_object_joins(monkeypatch) -> None:
    sam = tracker()
    session, direct = sam.session(), sam.session()
    images = frames(5)
    with monkeypatch.context() as patched:
        patched.setattr(sam.model, "forward", lambda *a, **k: pytest.fail("computed"))
        assert [session.step(image) for image in images[:3]] == [{}, {}, {}]
    for k in (3, 4):  # only differences of frame numbers count
        prompts = [CLICK] if k == 3 else []
        assert same(session.step(images[k], prompts), direct.step(images[k], prompts))


def test_points_correct_what_is_followed_and_a_box_says_it_anew() -> None:
    images = frames(14)

    def run(correction: Prompt | None, start: Prompt = CLICK):
        session = tracker().session()
        seen = []
        for k, image in enumerate(images):
            prompts = [start] if k == 0 else [correction] if correction and k == 6 else []
            seen.append(session.step(image, prompts)[1])
        return seen, session

    plain, _ = run(None)
    click = Prompt(6, 1, points=((40, 30, True), (5, 5, False)))
    corrected, session = run(click)
    assert sorted(session._objects[1].prompted) == [0, 6]
    assert [a.presence for a in plain[:6]] == [a.presence for a in corrected[:6]]
    assert all(a.presence != b.presence for a, b in zip(plain[6:], corrected[6:], strict=True))
    other = Prompt(0, 1, mask=BLOB)
    assert run(click, other)[0][6].presence != corrected[6].presence  # the past is read
    box = Prompt(6, 1, box=(5, 5, 30, 30))
    assert run(box, other)[0][6].presence == run(box)[0][6].presence  # here it is not


def test_from_a_frame_in_the_middle_no_direction_sees_the_memory_of_the_other(tmp_path) -> None:
    images, seed = frames(14), 6
    for at, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{at:02d}.png")
    both = list(track(tmp_path, Prompt(seed, points=CLICK.points, box=CLICK.box), tracker()))
    for way in (images[seed:], images[seed::-1]):  # each alone, in a session of its own
        alone = tracker().session()
        for step, image in enumerate(way):
            seen = alone.step(image, [CLICK] if step == 0 else [])[1]
            at = seed + step if way[-1] is images[-1] else seed - step
            there = both[at].objects[1]
            assert np.array_equal(there.mask, seen.mask) or seen.presence < 0.5
            assert there.presence == pytest.approx(seen.presence, abs=1e-4)


def test_the_whole_video_iterator_of_transformers_gives_the_same_masks() -> None:
    images = frames(25)
    model = random_model()
    pixels = torch.stack([sam2.frame_input(image, SIDE, "cpu", torch.float32) for image in images])
    session = transformers.Sam2VideoInferenceSession(video=pixels, dtype=torch.float32)
    at, labels = sam2.point_input(CLICK, HEIGHT, WIDTH, SIDE)
    session.obj_id_to_idx(1)
    session.add_point_inputs(0, 0, {"point_coords": at, "point_labels": labels})
    session.obj_with_new_inputs = [1]
    pruned = tracker().session()
    for k, output in enumerate(model.propagate_in_video_iterator(session, start_frame_idx=0)):
        seen = pruned.step(images[k], [CLICK] if k == 0 else [])[1]
        assert np.array_equal(seen.mask, sam2.output_masks(output.pred_masks, HEIGHT, WIDTH)[0])


def test_a_frame_is_resized_and_normalised_as_the_processor_does() -> None:
    image = frames(1)[0]
    pixels = sam2.frame_input(image, SIDE, "cpu", torch.float32).numpy()
    assert pixels.shape == (3, SIDE, SIDE)
    back = pixels * np.reshape(sam2.DEVIATION, (3, 1, 1)) + np.reshape(sam2.MEAN, (3, 1, 1))
    values = 255 * back
    assert np.abs(values - values.round()).max() < 1e-3
    from PIL import Image

    expected = np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR))
    assert np.abs(values - expected.transpose(2, 0, 1)).max() <= 1.01
    white = sam2.frame_input(np.full((SIDE, SIDE, 3), 255, np.uint8), SIDE, "cpu", torch.float32)
    assert white[:, 5, 5].tolist() == pytest.approx([2.2489, 2.4286, 2.6400], abs=1e-4)


def test_a_frame_may_be_a_view_that_cannot_be_written_to() -> None:
    image = frames(1)[0]
    mirrored = image[:, ::-1]
    mirrored.flags.writeable = False
    pixels = sam2.frame_input(mirrored, SIDE, "cpu", torch.float32)
    assert torch.equal(pixels, sam2.frame_input(mirrored.copy(), SIDE, "cpu", torch.float32))


def test_clicks_and_boxes_are_scaled_to_the_models_square() -> None:
    prompt = Prompt(box=(12, 9, 36, 27), points=((24, 18, True), (0, 36, False)))
    at, labels = sam2.point_input(prompt, HEIGHT, WIDTH, SIDE)
    assert at.tolist() == [[[[16, 16], [48, 48], [32, 32], [0, 64]]]]
    assert labels.tolist() == [[[2, 3, 1, 0]]]


def test_masks_are_cut_at_zero_at_the_size_of_the_frame() -> None:
    logits = torch.tensor([[[[-1.0, 3.0]]], [[[2.0, 2.0]]]])
    masks = sam2.output_masks(logits, 2, 4)
    # between the centres of the two pixels: -1, 0, 2, 3
    assert masks[0].tolist() == [[False, False, True, True]] * 2
    assert masks[1].all()
    assert masks.dtype == bool


def test_a_mask_thinner_than_half_a_pixel_is_not_lost() -> None:
    thin = np.zeros((640, 640), bool)
    thin[320, 320] = True
    assert sam2.mask_input(thin, SIDE).sum() >= 1
    assert sam2.mask_input(np.zeros((640, 640), bool), SIDE).sum() == 0


def test_the_mask_given_is_the_mask_seen_and_presence_is_certain() -> None:
    session = tracker().session()
    big = np.zeros((HEIGHT, WIDTH), bool)
    big[9:27, 12:36] = True
    seen = session.step(frames(1)[0], [Prompt(mask=big)])[1]
    overlap = (seen.mask & big).sum() / (seen.mask | big).sum()
    assert overlap > 0.95
    assert seen.presence == pytest.approx(1 / (1 + np.exp(-10)))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("kind", ["sam2", "edgetam"])
def test_it_runs_in_half_precision(kind, precision) -> None:
    session = tracker(kind, precision).session()
    prompts = {0: [CLICK, Prompt(0, 2, mask=BLOB)], 5: [Prompt(5, 1, points=((3, 3, False),))]}
    for k, image in enumerate(frames(9)):
        seen = session.step(image, prompts.get(k, ()))
        assert all(0 <= observation.presence <= 1 for observation in seen.values())
        assert seen[2].mask.shape == (HEIGHT, WIDTH)


def test_a_full_device_is_refused_or_left_for_the_cpu(monkeypatch) -> None:
    images = frames(6)
    with refused("device", "cuda:7"):
        _run_until_full(images, fallback=False, monkeypatch=monkeypatch)
    seen, sam = _run_until_full(images, fallback=True, monkeypatch=monkeypatch)
    plain = tracker().session()
    for k, image in enumerate(images):
        assert same(seen[k], plain.step(image, [CLICK] if k == 0 else []))
    assert sam.details["device"] == "cpu"
    assert sam.details["precision"] == "fp32"
    assert "cuda:7 ran out of memory, so tracking continued on the CPU" in sam.details["note"]


def _run_until_full(images, fallback, monkeypatch):
    """Track on a device, played by the CPU, whose memory is full from the fourth frame on."""
    model = random_model()
    sam = sam2.Sam2Tracker(model, "sam2", device="cpu", precision="fp32", fallback=fallback)
    session = sam.session()
    seen = [session.step(image, [CLICK] if k == 0 else []) for k, image in enumerate(images[:3])]
    before = session._next, dict(session._objects)
    forward, device = model.forward, "cuda:7"

    def full(view, **options):
        if sam.device == device:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(view, **options)

    monkeypatch.setattr(model, "forward", full)
    sam.device = device
    session._place = (device, "fp32")
    monkeypatch.setattr(
        sam2, "frame_input", lambda *a, real=sam2.frame_input: real(*a[:2], "cpu", a[3])
    )
    try:
        seen += [session.step(image) for image in images[3:]]
    except InputError:
        sam.device, session._place = "cpu", ("cpu", "fp32")
        assert (session._next, session._objects) == before  # a step that failed left nothing
        raise
    return seen, sam


def test_other_errors_of_the_device_are_not_taken_for_a_full_one() -> None:
    sam = tracker()
    with pytest.raises(RuntimeError, match="something else"):
        sam.make_room(RuntimeError("something else"))
    with refused("device", "cpu"):
        sam.make_room(RuntimeError("MPS backend out of memory"))


def test_memory_forgets_by_distance_alone() -> None:
    outputs = {"object_pointer": 1, "maskmem_features": 2, "maskmem_pos_enc": 3, "pred_masks": 4}
    memory = Memory({0: outputs, 95: outputs}, {k: outputs for k in range(80, 100) if k != 95})
    pruned = memory.pruned(100, Reach(memories=3, pointers=5, prompted=None))
    assert sorted(pruned.recent) == [96, 97, 98, 99]
    assert list(pruned.recent[96]) == ["object_pointer"]
    assert "pred_masks" not in pruned.recent[99]
    assert list(pruned.recent[97]) == ["object_pointer", "maskmem_features", "maskmem_pos_enc"]
    assert all("maskmem_features" in o for o in pruned.prompted.values())
    fewer = memory.pruned(100, Reach(memories=3, pointers=5, prompted=1))
    assert {f: len(o) for f, o in fewer.prompted.items()} == {0: 1, 95: 3}


# loading


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Save a model with the name of a published one in the folder of weights."""
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "facebook" / "sam2.1-hiera-small"
    random_model().save_pretrained(place)
    return place


def test_weights_check_compares_the_hash_that_the_hub_gave(folder, dejacue) -> None:
    model = folder / "model.safetensors"
    ran = dejacue("weights", "check", "sam2")
    assert ran.code == 0
    assert "no known hash" in " ".join(ran.out.split())
    note = folder / ".cache" / "huggingface" / "download" / "model.safetensors.metadata"
    note.parent.mkdir(parents=True)
    note.write_text(f"{'c' * 40}\n{hashlib.sha256(model.read_bytes()).hexdigest()}\n1.5\n")
    assert "matches the hub" in " ".join(dejacue("weights", "check", "sam2").out.split())
    model.write_bytes(model.read_bytes()[:-1])
    assert "damaged" in dejacue("weights", "ls", "sam2").out
    assert dejacue("weights", "check", "sam2").code == 2


def test_a_model_is_loaded_by_name_and_from_a_folder(folder) -> None:
    named = sam2.load("sam2")
    assert named.name == "sam2"
    assert named.details["model"] == "facebook/sam2.1-hiera-small"
    assert (named.details["device"], named.details["precision"]) == (named.device, "fp32")
    assert re.fullmatch("[0-9a-f]{64}", named.details["sha256 model.safetensors"])
    assert named.details["revision"] == "unknown"
    from_folder = sam2.load(f"sam2:{folder}", device="cpu", precision="bf16")
    assert from_folder.model.dtype == torch.bfloat16
    digests = [sam.details["sha256 model.safetensors"] for sam in (named, from_folder)]
    assert digests[0] == digests[1]
    image = frames(1)[0]
    reloaded = sam2.load("sam2-small", device="cpu").session().step(image, [CLICK])[1]
    saved = tracker().session().step(image, [CLICK])[1]
    assert np.array_equal(reloaded.mask, saved.mask)
    assert reloaded.presence == pytest.approx(saved.presence, abs=1e-6)


def test_the_revision_is_read_off_the_hubs_cache(folder, tmp_path) -> None:
    commit = "0123456789abcdef" * 2 + "01234567"
    (tmp_path / "snapshots").mkdir()
    place = folder.rename(tmp_path / "snapshots" / commit)
    assert sam2.load(f"sam2:{place}", device="cpu").details["revision"] == commit


def test_what_cannot_be_loaded_is_named(folder, tmp_path) -> None:
    with refused("tracker", "sam2-tinny"):
        load_tracker("sam2-tinny")
    with refused("precision", "int8"):
        sam2.load("sam2", device="cpu", precision="int8")
    with refused(tmp_path / "nowhere" / "config.json", kind=MissingData):
        sam2.load(f"sam2:{tmp_path / 'nowhere'}")
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for kind in ("sam2", ["sam2"] * 99):
        path.write_text(json.dumps({**config, "model_type": kind}))
        with refused(path, "sam2", "sam2_video"):
            sam2.load("sam2", device="cpu")
    for broken in ("[]", "[" * 100_000, '{"model_type"'):
        path.write_text(broken)
        with refused(path):
            sam2.load("sam2", device="cpu")


def test_weights_that_are_damaged_or_incomplete_are_refused(folder) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    lacking = {k: v for k, v in weights.items() if k != "no_memory_embedding"}
    save_file(lacking, path, metadata={"format": "pt"})
    with refused(path, "no_memory_embedding"):
        sam2.load("sam2", device="cpu")
    path.write_bytes(path.read_bytes()[:1000])
    with refused(path):
        sam2.load("sam2", device="cpu")


def test_without_a_connection_the_sentence_names_files_and_folder(tmp_path, monkeypatch) -> None:
    import huggingface_hub

    def offline(*_, **__):
        raise OSError("no connection")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    with refused(
        "config.json model.safetensors --revision main",
        f"{tmp_path}/facebook/sam2.1-hiera-base-plus",
        kind=MissingData,
    ):
        sam2.load("sam2-base-plus", device="cpu")
    with pytest.raises(MissingData, match="yonigozlan/EdgeTAM-hf"):
        sam2.load("edgetam", device="cpu")


def test_what_is_not_installed_is_named_with_its_remedy(folder, monkeypatch) -> None:
    config = (folder / "config.json").read_text()
    wrapped = config.replace("sam2_hiera_det_model", "timm_wrapper")
    (folder / "config.json").write_text(wrapped)
    real = sam2.need

    def need_without(absent: str):
        def need(module: str, remedy: str):
            return real("no_such_module_" + module if module == absent else module, remedy)

        return need

    monkeypatch.setattr(sam2, "need", need_without("timm"))
    with pytest.raises(MissingExtra, match=re.escape(f"{extra('track')} timm")):
        sam2.load("sam2", device="cpu")
    for absent in ("torch", "transformers"):
        monkeypatch.setattr(sam2, "need", need_without(absent))
        with pytest.raises(MissingExtra, match=re.escape(extra("track"))):
            sam2.load("sam2")
