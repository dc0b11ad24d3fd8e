"""LLMDet, Grounding DINO and OWLv2 through transformers: the same pixels, boxes and scores as its
own processors give, and names from the tokens. The models are tiny and random."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.small_models import one_sentence

from dejacue.errors import InputError, MissingData, MissingExtra
from dejacue.models.detectors import Detector, ExampleDetector, load_detector
from dejacue.models.detectors.base import MAX_OVERLAP, overlaps

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from helpers.tiny_detectors import KINDS, LONG, SHORT, SIDE, save  # noqa: E402

from dejacue.models.detectors import zero_shot  # noqa: E402

DINOS = KINDS[:2]
NAMES = ("cup", "a jar")
UPRIGHT, LYING = (150, 80), (90, 200)  # height and width of pictures
HD = (1080, 1920)

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("detectors")
    return {kind: save(kind, place / kind) for kind in KINDS}


@pytest.fixture(scope="module")
def detectors(folders) -> dict[str, Detector]:
    return {kind: load_detector(folder, device="cpu") for kind, folder in folders.items()}


def noise(size: tuple[int, int], seed: int = 0) -> np.ndarray:
    """A picture of coarse noise."""
    rng = np.random.default_rng(seed)
    cell = max(size) // 20
    coarse = rng.integers(0, 256, (-(-size[0] // cell), -(-size[1] // cell), 3), dtype=np.uint8)
    return np.kron(coarse, np.ones((cell, cell, 1), np.uint8))[: size[0], : size[1]].copy()


def boxes_of(detections) -> np.ndarray:
    return np.array([detection.box for detection in detections]).reshape(-1, 4)


def transformers_results(folder: Path, picture: np.ndarray, names) -> tuple[dict, dict]:
    """What transformers makes of a picture by itself, with all boxes; and its inputs."""
    family = "Owlv2" if "owl" in folder.name else "GroundingDino"
    # beside torch alone there is the one for Pillow, whatever its name
    images = getattr(transformers, f"{family}ImageProcessorPil", None)
    images = images or getattr(transformers, f"{family}ImageProcessor")
    processor = getattr(transformers, f"{family}Processor")(
        images.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(folder)
    )
    model = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(folder).eval()
    inputs = processor(images=picture, text=[list(names)], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    (results,) = processor.post_process_grounded_object_detection(
        outputs, threshold=-1.0, target_sizes=[picture.shape[:2]]
    )
    return results, inputs


def assert_same_boxes(detections, results, size) -> None:
    """Each detection is a box of transformers, clipped; each good box of transformers is on a
    thing that was detected."""
    height, width = size
    corners = results["boxes"].double().numpy().clip(0, [width, height, width, height])
    detected = boxes_of(detections)
    for box in detected:
        assert np.abs(corners - box).max(axis=1).min() < 1e-3
    large = (corners[:, 2:] - corners[:, :2] >= 1).all(axis=1)
    assert len(detected) == 50 or all(
        overlaps(box, detected).max() > MAX_OVERLAP - 1e-6 for box in corners[large]
    )


@pytest.mark.parametrize("kind", DINOS)
@pytest.mark.parametrize("size", [UPRIGHT, LYING, pytest.param(HD, marks=pytest.mark.long)])
def test_grounding_dino_gives_the_boxes_of_transformers(detectors, folders, kind, size) -> None:
    picture = noise(size)
    results, inputs = transformers_results(folders[kind], picture, NAMES)
    assert min(inputs["pixel_values"].shape[2:]) <= SHORT  # else nothing was resized
    assert max(inputs["pixel_values"].shape[2:]) <= LONG
    detections = detectors[kind].detect(picture, NAMES)
    assert len(detections) > 5
    assert_same_boxes(detections, results, size)


@pytest.mark.parametrize("kind", DINOS)
def test_grounding_dino_sees_the_same_pixels_and_tokens_as_in_transformers(
    detectors, folders, kind
) -> None:
    picture = noise(LYING)
    _, inputs = transformers_results(folders[kind], picture, ["Cup", "a jar"])
    tokens, spans = detectors[kind].tokens(["Cup", "a jar"])
    for name, tensor in tokens.items():
        assert torch.equal(tensor, inputs[name])
    pixels = detectors[kind].processor.image_processor(picture, return_tensors="pt")
    assert torch.equal(pixels["pixel_values"], inputs["pixel_values"])
    words = detectors[kind].processor.tokenizer.convert_ids_to_tokens(tokens["input_ids"][0])
    assert [[words[at] for at in span] for span in spans] == [["cup"], ["a", "jar"]]


@pytest.mark.parametrize("kind", DINOS)
def test_a_box_has_the_score_and_the_name_of_its_best_token(detectors, kind, monkeypatch) -> None:
    detector = detectors[kind]
    logits = torch.full((1, 3, 64), float("-inf"))
    # [CLS] cup . a jar . [SEP]
    logits[0, :, :7] = torch.tensor(
        [[9.0, -3, 9, -4, -4, 9, 9], [0, -2, 0, -5, 1, 0, 0], [0, -6, 0, -1, -6, 0, 0]]
    )
    centres = torch.tensor([[[0.2, 0.2, 0.1, 0.1], [0.5, 0.5, 0.2, 0.4], [0.9, 0.9, 0.4, 0.4]]])
    outputs = transformers.utils.ModelOutput(logits=logits, pred_boxes=centres)
    monkeypatch.setattr(detector.model, "forward", lambda **inputs: outputs)
    best, second, third = detector.detect(noise((100, 200)), NAMES)
    sigmoid = torch.tensor([1.0, -1, -3]).sigmoid().tolist()
    assert [best.name, second.name, third.name] == ["a jar", "a jar", "cup"]
    assert [best.score, second.score, third.score] == pytest.approx(sigmoid)
    assert best.box == pytest.approx((80, 30, 120, 70))
    assert second.box == pytest.approx((140, 70, 200, 100))  # clipped


def test_a_full_stop_in_a_name_does_not_end_it(detectors) -> None:
    tokens, spans = detectors["llmdet"].tokens(["a. cup?", "jar"])
    words = detectors["llmdet"].processor.tokenizer.convert_ids_to_tokens(tokens["input_ids"][0])
    assert [[words[at] for at in span] for span in spans] == [["a", "cup"], ["jar"]]


def reference_resize(line: np.ndarray, size: int) -> np.ndarray:
    """What scipy's gaussian_filter and zoom (order 1, grid mode, mirrored) do along axis 0."""
    count = len(line)
    deviation = max(0.0, (count / size - 1) / 2)
    reach = int(4 * deviation + 0.5)
    if reach:
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
        padded = np.pad(line, [(reach, reach), (0, 0), (0, 0)], mode="reflect")
        parts = [weight * padded[at : at + count] for at, weight in enumerate(weights)]
        line = np.sum(parts, axis=0) / weights.sum()
    padded = np.pad(line, [(1, 1), (0, 0), (0, 0)], mode="reflect")
    places = (np.arange(size) + 0.5) * count / size + 0.5
    low = np.floor(places).astype(int)
    share = (places - low)[:, None, None]
    return padded[low] * (1 - share) + padded[low + 1] * share


@pytest.mark.parametrize("size", [UPRIGHT, LYING, (64, 64), (30, 50), (11, 300), (1, 1)])
def test_owlv2_sees_the_picture_in_a_square_of_grey(size) -> None:
    picture = noise(size) if min(size) > 20 else np.full((*size, 3), 200, np.uint8)
    height, width = size
    square = np.full((max(size), max(size), 3), 0.5)
    square[:height, :width] = picture / 255
    if max(size) == 1:
        expected = np.broadcast_to(square, (SIDE, SIDE, 3))
    else:
        rows = reference_resize(square, SIDE)
        expected = reference_resize(rows.transpose(1, 0, 2), SIDE).transpose(1, 0, 2)
    pixels = zero_shot.owl_pixels(picture, SIDE, "cpu").numpy().transpose(1, 2, 0)
    assert np.abs(pixels - expected).max() < 1e-5


@pytest.mark.parametrize("size", [UPRIGHT, LYING, pytest.param(HD, marks=pytest.mark.long)])
def test_owlv2_sees_the_pixels_of_transformers(folders, detectors, size):
    picture = noise(size)
    _, inputs = transformers_results(folders["owlv2"], picture, NAMES)
    height, width = (SIDE * side // max(size) for side in size)
    ours = detectors["owlv2"].pixels(picture)[0, :, : height - 8, : width - 8]
    theirs = inputs["pixel_values"][0, :, : height - 8, : width - 8]  # paddings differ by version
    assert float((ours - theirs).abs().max()) < 1e-4


@pytest.mark.parametrize("size", [UPRIGHT, LYING])
def test_owlv2_gives_the_boxes_of_transformers(detectors, size) -> None:
    detector, picture = detectors["owlv2"], noise(size)
    tokenizer = detector.processor.tokenizer
    tokens = tokenizer(list(NAMES), padding="max_length", max_length=16, return_tensors="pt")
    with torch.no_grad():
        outputs = detector.model(**tokens, pixel_values=detector.pixels(picture))
    (results,) = detector.processor.post_process_grounded_object_detection(
        outputs, threshold=-1.0, target_sizes=[size], text_labels=[list(NAMES)]
    )
    detections = detector.detect(picture, NAMES)
    assert_same_boxes(detections, results, size)
    by_score = dict(zip(results["scores"].tolist(), results["text_labels"], strict=True))
    assert all(by_score[detection.score] == detection.name for detection in detections)
    assert {detection.name for detection in detections} == set(NAMES)


def test_boxes_of_owlv2_are_scaled_by_the_longer_side(detectors, monkeypatch) -> None:
    detector = detectors["owlv2"]
    outputs = transformers.utils.ModelOutput(
        logits=torch.tensor([[[2.0, 1.0]]]), pred_boxes=torch.tensor([[[0.5, 0.25, 0.2, 0.1]]])
    )
    monkeypatch.setattr(detector.model, "forward", lambda **inputs: outputs)
    (detection,) = detector.detect(noise((100, 200)), NAMES)
    assert detection.box == pytest.approx((80, 40, 120, 60))
    assert detection.name == "cup"


def test_an_example_finds_what_looks_like_it_with_scores_that_can_be_low(detectors) -> None:
    detector = detectors["owlv2"]
    assert isinstance(detector, ExampleDetector)
    picture, example = noise(LYING), noise((60, 40), seed=3)
    detections = detector.detect_like(picture, example)
    with torch.no_grad():
        outputs = detector.model.image_guided_detection(
            detector.pixels(picture), detector.pixels(example)
        )
    assert detections[0].score == pytest.approx(float(outputs.logits.sigmoid().max()), abs=1e-5)
    assert detections[0].score < 0.99  # transformers' own last step would call the best one 1
    assert {detection.name for detection in detections} == {""}
    assert not isinstance(detectors["llmdet"], ExampleDetector)


@pytest.mark.parametrize("kind", KINDS)
def test_detections_are_inside_the_picture_distinct_and_sorted(detectors, kind) -> None:
    detections = detectors[kind].detect(noise(LYING), NAMES)
    boxes = boxes_of(detections)
    assert (boxes >= 0).all()
    assert (boxes <= [200, 90, 200, 90]).all()
    scores = [detection.score for detection in detections]
    assert scores == sorted(scores, reverse=True)
    for at, box in enumerate(boxes[:-1]):
        assert overlaps(box, boxes[at + 1 :]).max() <= MAX_OVERLAP


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_picture_turned_in_memory_gives_the_same_boxes(detectors, kind) -> None:
    """A rotated video's frames are views with other strides."""
    turned = np.rot90(noise(LYING))
    assert not turned.flags.c_contiguous
    assert detectors[kind].detect(turned, NAMES) == detectors[kind].detect(turned.copy(), NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_an_even_picture_gives_a_list_and_no_error(detectors, kind) -> None:
    detections = detectors[kind].detect(np.zeros((40, 60, 3), np.uint8), ["cup"])
    assert {detection.name for detection in detections} <= {"cup"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["чашка", "杯子", "ကော်ဖီ", "cup 杯"])
def test_a_name_that_cannot_be_read_is_refused(detectors, kind, name) -> None:
    with refused(name) as caught:
        detectors[kind].detect(noise(LYING), [name])
    assert one_sentence(str(caught.value))


def test_a_word_that_grounding_dino_has_no_token_for_is_refused(detectors) -> None:
    with refused("ælfþryð"):
        detectors["grounding-dino"].detect(noise(LYING), ["cup", "ælfþryð"])


@pytest.mark.parametrize(
    ("kind", "names"), [("llmdet", ["cup " * 20, "jar " * 20, "lid " * 20]), ("owlv2", ["c" * 20])]
)
def test_more_words_than_a_model_reads_are_refused(detectors, kind, names) -> None:
    with refused("use fewer words"):
        detectors[kind].detect(noise(LYING), names)


def test_boxes_that_are_not_finite_are_refused(detectors, monkeypatch) -> None:
    detector = detectors["owlv2"]
    outputs = transformers.utils.ModelOutput(
        logits=torch.tensor([[[2.0, 1.0]]]), pred_boxes=torch.full((1, 1, 4), float("nan"))
    )
    monkeypatch.setattr(detector.model, "forward", lambda **inputs: outputs)
    with refused(detector.name, "not finite"):
        detector.detect(noise(LYING), NAMES)


def test_a_full_device_is_named(detectors, monkeypatch) -> None:
    def fail(**inputs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(detectors["owlv2"].model, "forward", fail)
    with refused("device", "cpu"):
        detectors["owlv2"].detect(noise(LYING), NAMES)


# files


def test_a_folder_and_the_folder_of_weights_give_the_same_detector(
    folders, tmp_path, monkeypatch
) -> None:
    repository = zero_shot.REPOSITORIES["llmdet"]
    shutil.copytree(folders["llmdet"], tmp_path / repository)
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    default, named = load_detector(device="cpu"), load_detector("llmdet", device="cpu")
    assert default.identity == named.identity
    assert default.identity.startswith(f"{repository}@")
    assert default.name == "llmdet"
    assert len(default.details["sha256 model.safetensors"]) == 64
    from_folder = load_detector(folders["llmdet"], device="cpu")
    assert from_folder.identity.partition("@")[2] == default.identity.partition("@")[2]
    assert from_folder.detect(noise(LYING), NAMES) == default.detect(noise(LYING), NAMES)


@pytest.mark.parametrize("name", [None, "llmdet", "owlv2", "owner/model"])
def test_without_weights_and_connection_one_sentence_says_what_to_do(
    name, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with refused(name or "llmdet", kind=MissingData) as caught:
        load_detector(name, device="cpu")
    assert one_sentence(str(caught.value))


def test_a_model_of_another_architecture_is_refused(folders, tmp_path) -> None:
    folder = shutil.copytree(folders["owlv2"], tmp_path / "other")
    (folder / "config.json").write_text(json.dumps({"model_type": "sam2_video"}))
    with refused(folder / "config.json", "sam2_video") as caught:
        load_detector(folder)
    assert one_sentence(str(caught.value))


def test_weights_of_another_architecture_are_refused(folders, tmp_path) -> None:
    folder = shutil.copytree(folders["owlv2"], tmp_path / "mixed")
    shutil.copy(folders["llmdet"] / "model.safetensors", folder)
    with refused(folder / "model.safetensors", "weights") as caught:
        load_detector(folder)
    assert one_sentence(str(caught.value))


@pytest.mark.parametrize("broken", ["model.safetensors", "preprocessor_config.json", "config.json"])
def test_a_damaged_file_is_one_sentence(folders, tmp_path, broken) -> None:
    folder = shutil.copytree(folders["owlv2"], tmp_path / "damaged")
    (folder / broken).write_bytes(b"{")
    with pytest.raises(InputError) as caught:
        load_detector(folder)
    assert str(caught.value).startswith(str(folder))
    assert one_sentence(str(caught.value))


def test_a_folder_without_weights_is_refused(tmp_path) -> None:
    with pytest.raises(MissingData, match="no model weights"):
        load_detector(tmp_path)


def test_a_torchvision_that_does_not_fit_is_named(folders, monkeypatch) -> None:
    def fail(*arguments, **options):
        cause = RuntimeError("operator torchvision::nms does not exist")
        raise ModuleNotFoundError("Could not import module") from cause

    model = transformers.AutoModelForZeroShotObjectDetection
    monkeypatch.setattr(model, "from_pretrained", fail)
    with pytest.raises(MissingExtra, match="torchvision"):
        load_detector(folders["owlv2"])


def test_an_unknown_device_is_refused(folders) -> None:
    with refused("device", "tpu"):
        load_detector(folders["owlv2"], device="tpu")
