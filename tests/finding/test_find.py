"""find() leads in one call from a video to a Finding; it opens and decodes everything once."""

from __future__ import annotations

import json
import logging
import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.still_tracker import Still
from msgspec import structs

import dejacue
from dejacue import (
    Finding,
    History,
    InputError,
    Prompt,
    Sampling,
    Timeline,
    Vocabulary,
    encode,
    find,
    find_each,
    load_encoder,
    locate_object,
    open_masks,
    open_video,
    read,
)
from dejacue.errors import Cancelled
from dejacue.files import read_vocabulary, write_history, write_vocabulary
from dejacue.finding import _find, _readout, locate
from dejacue.finding.request import Lazy
from dejacue.masks import _masks, labels, write_masks
from dejacue.method import Reading, Window, kernel
from dejacue.method.strips import marked
from dejacue.models.encoders.mini import Mini
from dejacue.progress import NotebookBar, default_progress, silent
from dejacue.report import thumbnails
from dejacue.report.exports import EXPORTS
from dejacue.video import video as video_module
from dejacue.video.video import Video, write_video
from dejacue_paper import generate
from dejacue_paper.data.rendered import render, write_scene

JPEG = b"\xff\xd8\xff"
WORDS = {"empty": ["empty cup"], "full": ["full cup"]}


@pytest.fixture(scope="module")
def first(scene) -> Finding:
    return find(
        scene / "scene.mp4",
        scene / "vocabulary.yaml",
        masks=scene / "Annotations",
        objects=[1],
        encoder="mini",
        readout={"diagnostics": True},
    )


@pytest.fixture
def cup(scene):
    """Return ``find`` on the scene with the embedded encoder, for more options."""

    def run(vocabulary=scene / "vocabulary.yaml", **more):
        options = {"masks": scene / "Annotations", "objects": [1], "encoder": "mini"} | more
        return find(scene / "scene.mp4", vocabulary, **options)

    return run


def counted(monkeypatch, place, name: str) -> list[object]:
    calls: list[object] = []
    real = getattr(place, name)

    def count(*arguments, **options):
        calls.append(arguments)
        return real(*arguments, **options)

    monkeypatch.setattr(place, name, count)
    return calls


def windows(finding: Finding) -> list[tuple[str, tuple[int, int]]]:
    return [(interval.state, tuple(interval.window)) for interval in finding]


# One call


def test_a_finding_holds_windows_pictures_and_how_it_was_made(first, scene) -> None:
    states = read_vocabulary(scene / "vocabulary.yaml").states
    assert list(first.timeline.states) == list(states)
    truth = json.loads((scene / "references.json").read_text())["histories"][0]["states"]
    for state in states:
        best = first.best(state)
        assert best in first[state]
        assert max(best.window.iou(Window(*pair)) for pair in truth[state]) > 0.5
    assert [first.at(frame=interval.start) for interval in first] == [i.state for i in first]
    assert len(first.labels) == len(first.history)
    assert first["full"] == [interval for interval in first if interval.state == "full"]
    assert first.at(first["full"][0].start_s) == "full"
    assert "full" in first
    assert list(first) == list(first.timeline)
    for pictures in (first.thumbnails, first.crops):
        assert len(pictures) == 12
        assert all(data.startswith(JPEG) for data in pictures.values())
    assert first.provenance.video == str(scene / "scene.mp4")
    assert first.provenance.masks == str(scene / "Annotations")
    assert first.provenance.encoder.startswith("dejacue-mini@")
    assert first.provenance.version == dejacue.__version__
    assert first.warnings[0].startswith("mini only knows the rendered scenes of this project")
    assert first.timeline.settings["readout"]["name"] == "timeline"


@pytest.mark.parametrize("words", [None, "words"])
def test_exhaustive_leaves_no_frame_in_none_also_where_a_strip_names_the_states(words) -> None:
    sample = generate(3, states=("a", "b", "c"), frames=300)
    frames = {state: sample.references[state][0].start + 5 for state in "ab"}
    vocabulary = Vocabulary(
        {"a": sample.vocabulary.states["a"], "b": sample.vocabulary.states["b"]},
        sample.vocabulary.features[np.isin(sample.vocabulary.state_names, ["a", "b"])],
        sample.vocabulary.encoder,
    )
    vocabulary = vocabulary if words else None
    some = find(sample.history, vocabulary, examples=frames)
    every = find(sample.history, vocabulary, examples=frames, exhaustive=True)
    assert set(some.labels) == {"a", "b", None}
    assert set(every.labels) == {"a", "b"}
    assert find(some, exhaustive=True).labels == every.labels  # of what is there already
    assert every.vocabulary.exhaustive
    marks = {"a": (1, 2), "b": (6, 7)}
    strip = every.strip(12)
    assert marked(sample.history, None, strip, marks, exhaustive=True).exhaustive
    assert None not in every.mark(strip, marks).named
    with refused("exhaustive"):
        find(sample.history, vocabulary, examples={**frames, "none": 299}, exhaustive=True)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])  # whose header knows the count, or does not
def test_an_example_behind_the_last_frame_is_refused_before_anything_is_encoded(
    scene, tmp_path, suffix, monkeypatch
) -> None:
    frames = [frame.image for frame in open_video(scene / "scene.mp4", end=9)]
    path = write_video(tmp_path / f"short{suffix}", frames, 10)
    loaded = counted(monkeypatch, _find, "loaded_encoder")
    changed = Lazy(WORDS, {"changes": [99]})
    late = {"10": (WORDS, {"empty": 10}), "1.2s": (WORDS, {"full": "1.2s"}), "99": (changed, None)}
    for typed, (words, facts) in late.items():  # the end is told as it was typed: frames, seconds
        end = "end (1.0 s)" if typed.endswith("s") else "last frame (9)"
        with refused(path, typed, f"is past the {end}"):
            find(path, words, whole=True, encoder="mini", examples=facts)
    assert loaded == []
    path_in_itself = {"empty": f"{path}@10"}
    monkeypatch.setattr(Mini, "encode_images", lambda *_: pytest.fail("is encoded"))
    with refused("the example 10 of empty is past the last"):
        find(path, WORDS, whole=True, encoder="mini", examples=path_in_itself)


def test_video_masks_and_vocabulary_are_opened_once_and_decoded_once(cup, monkeypatch) -> None:
    videos = counted(monkeypatch, video_module, "open_video")
    masks = counted(monkeypatch, locate, "open_masks")
    words = counted(monkeypatch, _readout, "read_vocabulary")
    passes = counted(monkeypatch, Video, "_frames")
    finding = cup()
    assert [len(calls) for calls in (videos, masks, words, passes)] == [1, 1, 1, 1]
    assert len(finding.thumbnails) == 12


def test_an_interval_without_a_picture_gets_one_from_its_middle(cup, monkeypatch) -> None:
    monkeypatch.setattr(thumbnails, "MAX_PICTURES", 2)
    finding = cup()
    for interval in finding:
        frames = [frame for frame in finding.thumbnails if frame in interval.window]
        assert frames
        assert all(frame in finding.crops for frame in frames)


@pytest.mark.parametrize(("objects", "distractors"), [(None, 0), ([1], 1), ("all", 1)])
def test_each_mask_is_decoded_once_and_hashed_once(
    tmp_path, monkeypatch, objects, distractors
) -> None:
    """Masks are looked at to tell their kind and their objects, before they are used."""
    scene = render(11, family="cup", topology="binary", frames=40, distractors=distractors)
    write_scene(tmp_path / "cup", scene)
    masks, words = tmp_path / "cup" / "Annotations", tmp_path / "cup" / "vocabulary.yaml"
    decoded = counted(monkeypatch, labels, "read_picture")
    hashed = counted(monkeypatch, _masks.hashlib, "file_digest")
    how = {"masks": masks, "objects": objects, "encoder": "mini", "folder": tmp_path / "out"}
    once = find_each(tmp_path / "cup" / "scene.mp4", words, **how)
    assert len(decoded) == 40
    assert len(hashed) == 40
    monkeypatch.setattr(labels, "MAX_BUFFERED_BYTES", 0)  # as if they were large
    again = find_each(tmp_path / "cup" / "scene.mp4", words, **how | {"folder": None})
    assert (len(decoded) > 80) == (objects == "all")  # whose ids are listed first
    for a, b in zip(once, again, strict=True):
        assert np.array_equal(a.history.features, b.history.features)


@pytest.mark.parametrize("readout", ["contrast", "published", "timeline"])
def test_cosines_are_computed_once(cup, monkeypatch, readout) -> None:
    engine = type(kernel.engine("auto"))
    calls: list[str] = []

    def counting(real):
        def count(self, *arguments, **options):
            if options.get("cosines") is None:  # it starts from the features
                calls.append(real.__name__)
            return real(self, *arguments, **options)

        return count

    for name in ("cosines", "locate", "contrast"):
        monkeypatch.setattr(engine, name, counting(getattr(engine, name)))
    finding = cup(readout={"readout": readout, "diagnostics": True})
    finding.report()
    finding.plot()
    second_opinion = ["cosines"] if readout == "timeline" else []  # of each description alone
    assert calls[1:] == second_opinion


def test_opened_records_and_names_give_the_same_as_paths(first, scene) -> None:
    video = open_video(scene / "scene.mp4")
    masks = open_masks(scene / "Annotations", frames=video.length)
    words = read_vocabulary(scene / "vocabulary.yaml")
    opened = find(video, words, masks=masks, objects=1, encoder=load_encoder("mini"))
    assert windows(opened) == windows(first)
    plain = find(video, dict(words.states), masks=masks, objects=[1], encoder="mini")
    assert windows(plain) == windows(first)


def test_the_stages_one_by_one_give_the_same(first, scene) -> None:
    video = open_video(scene / "scene.mp4")
    masks = locate_object(video, masks=scene / "Annotations", objects=[1])
    album = thumbnails.PictureAlbum()
    (history,) = encode(video, masks, "mini", watch=album.watch).values()
    timeline = read(history, scene / "vocabulary.yaml", diagnostics=True)
    assert set(timeline.notes) < set(first.timeline.notes)
    expected = first.timeline.replace(notes=timeline.notes)
    assert timeline.to_dict() == expected.to_dict()
    assert album.pictures("scene").thumbnails == first.thumbnails


def test_sampling_reaches_the_video_and_is_noted(cup) -> None:
    finding = cup(start=10, sampling=Sampling(stride=2))
    assert finding.history.source_frames.tolist()[:2] == [10, 12]
    assert finding.provenance.options == {"start": "10", "stride": "2"}
    assert any(text.startswith("frames are numbered as sampled") for text in finding.warnings)
    full = finding["full"][0]
    assert 0 <= 10 + 2 * full.start - full.source_start < 2  # also between two that were taken
    assert 0 <= full.source_end - (10 + 2 * full.end) < 2


@pytest.mark.parametrize("way", [{"masks": None, "whole": True}, {}])
def test_a_name_beside_another_way_to_say_where_it_is_is_refused(cup, way) -> None:
    with refused("whole" if way else "masks"):
        cup(name="cup", **way)


def test_each_object_is_found_in_one_pass(scene, monkeypatch) -> None:
    passes = counted(monkeypatch, Video, "_frames")
    findings = find_each(
        scene / "scene.mp4", scene / "vocabulary.yaml", masks=scene / "Annotations", encoder="mini"
    )
    assert [finding.history.id for finding in findings] == ["scene-1", "scene-2"]
    assert findings[0].crops != findings[1].crops
    assert len(passes) == 1


# From a box


@pytest.fixture(scope="module")
def edges(scene) -> tuple[int, ...]:
    video = open_video(scene / "scene.mp4")
    masks = open_masks(scene / "Annotations", frames=video.length)
    (mask,) = masks.unions(next(iter(video)), [frozenset([1])])
    rows, columns = np.nonzero(mask)
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


def test_an_object_is_followed_from_a_box_and_nothing_is_left_on_disk(
    scene, edges, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finding = find(
        scene / "scene.mp4", scene / "vocabulary.yaml", box=edges, tracker=Still(), encoder="mini"
    )
    assert finding.provenance.tracker is not None
    assert finding.provenance.masks is None
    assert any("the box stays in place" in text for text in finding.warnings)
    assert list(tmp_path.iterdir()) == []
    prompted = find(
        scene / "scene.mp4",
        scene / "vocabulary.yaml",
        encoder="mini",
        folder=tmp_path / "out",
        tracker=Still(),
        prompts=Prompt(0, 1, tuple(map(float, edges))),
    )
    assert np.array_equal(prompted.history.features, finding.history.features)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "finding.json",
        "masks",
        "scene.evidence.npz",
        "scene.history.npz",
        "scene.thumbnails.npz",
        "scene.vocabulary.npz",
    }


def test_the_same_call_again_leaves_the_same_files_byte_for_byte(scene, edges, tmp_path) -> None:
    words, how = scene / "vocabulary.yaml", {"encoder": "mini", "folder": tmp_path / "out"}
    runs = []
    for _ in range(3):  # two would agree if names alternated
        find(scene / "scene.mp4", words, box=edges, tracker=Still(), **how)
        files = filter(Path.is_file, (tmp_path / "out").rglob("*"))
        runs.append({path.name: path.read_bytes() for path in files})
    assert "scene.evidence.npz" in runs[0]
    assert runs[0] == runs[1] == runs[2]
    assert str(tmp_path / "out").encode() not in runs[0]["finding.json"]  # it may be moved


def test_masks_that_a_tracker_made_earlier_come_with_its_warnings(scene, edges, tmp_path) -> None:
    words, how = scene / "vocabulary.yaml", {"encoder": "mini", "folder": tmp_path}
    tracked = find(scene / "scene.mp4", words, box=edges, tracker=Still(), **how)
    later = find(scene / "scene.mp4", words, masks=tmp_path / "masks", **how)
    assert later.provenance.tracker == tracked.provenance.tracker
    assert later.warnings == tracked.warnings


def test_progress_of_the_tracker_and_of_the_encoder_is_reported(scene, edges) -> None:
    stages: dict[str, tuple[int, int | None]] = {}

    def progress(stage, done, total, note):
        stages[stage] = done, total

    find(scene / "scene.mp4", WORDS, box=edges, tracker=Still(), encoder="mini", progress=progress)
    assert set(stages) == {"follow", "decode", "crop", "encode", "read"}
    assert stages["follow"] == (60, 60)
    assert stages["decode"] == (60, 60)
    assert stages["encode"][1] == 60
    assert stages["read"] == (1, 1)


# What is kept


def test_a_folder_keeps_the_history_and_a_second_call_decodes_nothing(
    cup, tmp_path, monkeypatch, caplog
) -> None:
    before = cup(folder=tmp_path)
    monkeypatch.setattr(Video, "_frames", lambda self, **_: pytest.fail("decoded again"))
    with caplog.at_level(logging.INFO, "dejacue"):
        again = cup(folder=tmp_path)
    assert "reused" in caplog.text
    assert np.array_equal(again.history.features, before.history.features)
    for name in ("thumbnails", "crops", "warnings"):
        assert getattr(again, name) == getattr(before, name)


@pytest.mark.parametrize("error", [KeyboardInterrupt, Cancelled])
def test_a_cancelled_run_says_what_is_kept_and_goes_on_from_it(
    cup, tmp_path, monkeypatch, error
) -> None:
    monkeypatch.setattr(Mini, "batch", 8)

    def stop(stage, done, total=None, note=""):
        if stage == "encode" and done >= 24:
            raise error

    message = r"(\d+) of 60 frames are kept in .*partial"
    with pytest.raises(Cancelled, match=message) as stopped:
        cup(folder=tmp_path, progress=stop)
    saved = int(re.search(message, str(stopped.value))[1])
    assert 24 <= saved <= 48  # batches that were on their way are kept, too
    with pytest.raises(Cancelled, match="nothing is kept"):
        cup(progress=stop)
    batches = counted(monkeypatch, Mini, "encode_images")
    cup(folder=tmp_path)
    assert sum(len(crops) for _, crops in batches) == 60 - saved


# Written and read again


def same(a: Finding, b: Finding) -> None:
    assert a.timeline.to_dict() == b.timeline.to_dict()
    for name in ("thumbnails", "crops", "doubts", "warnings", "provenance"):
        assert getattr(a, name) == getattr(b, name)
    assert np.array_equal(a.history.features, b.history.features)
    assert np.array_equal(a.vocabulary.features, b.vocabulary.features)
    for name in ("cosines", "centre", "scale", "responses", "frames"):
        expected = getattr(b.timeline.evidence, name)
        assert np.array_equal(getattr(a.timeline.evidence, name), expected)


@pytest.mark.parametrize("readout", ["contrast", "timeline"])
def test_a_finding_is_read_as_it_was_written(first, tmp_path, readout) -> None:
    doubts = ((Window(3, 5), "maybe another thing"),)
    finding = replace(first.with_words(readout=readout, diagnostics=True), doubts=doubts)
    finding.save(tmp_path / "f")
    same(Finding.read(tmp_path / "f"), finding)


@pytest.mark.parametrize("step", ["write_vocabulary", "write_npz", "write_pictures", "write_text"])
def test_a_save_that_is_stopped_half_way_leaves_the_finding_as_it_was(
    first, tmp_path, monkeypatch, step
) -> None:
    first.save(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    other = first.with_words(WORDS)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"dejacue.files.findings.{step}", stop)
        with pytest.raises(KeyboardInterrupt):
            other.save(tmp_path)
    same(Finding.read(tmp_path), first)
    other.save(tmp_path)
    same(Finding.read(tmp_path), other)
    first.save(tmp_path)
    same(Finding.read(tmp_path), first)
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_finding_of_another_history_replaces_one_of_the_same_name(tmp_path) -> None:
    for seed in (3, 4):
        sample = generate(seed)
        finding = find(replace(sample.history, id="cup"), sample.vocabulary)
        finding.save(tmp_path)
        same(Finding.read(tmp_path), finding)


def test_a_finding_of_features_alone_is_written_too(tmp_path) -> None:
    sample = generate(3)
    finding = find(sample.history, sample.vocabulary)
    finding.save(tmp_path)
    same(Finding.read(tmp_path), finding)
    assert finding.warnings == ()


def test_a_finding_answers_other_words_without_decoding(first, tmp_path, monkeypatch) -> None:
    first.save(tmp_path)
    monkeypatch.setattr(Video, "_frames", lambda self, **_: pytest.fail("decoded again"))
    other = {"empty": ["empty cup"], "full": ["full cup", "full ouzo"]}
    again = first.with_words(other)
    assert again.vocabulary.descriptions == ("empty cup", "full cup", "full ouzo")
    assert again.thumbnails == first.thumbnails
    assert "words that mini does not know: ouzo" in again.warnings
    assert again.with_words(WORDS).warnings == first.warnings
    history = tmp_path / "scene.history.npz"
    for source in (tmp_path, str(tmp_path), history, Finding.read(tmp_path)):
        same(find(source, other), again)


def test_the_history_beside_another_finding_is_read_for_itself(first, tmp_path) -> None:
    first.save(tmp_path)
    alone = write_history(tmp_path / "x.history.npz", replace(first.history, id="x"))
    assert find(alone, WORDS).thumbnails == {}
    damage(tmp_path, lambda text: "{")
    assert windows(find(tmp_path / "scene.history.npz", WORDS)) == windows(first.with_words(WORDS))


def damage(folder: Path, change) -> None:
    path = folder / "finding.json"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda text: text.replace("dejacue.finding/3", "dejacue.finding/1"),
            r"finding\.json: .*made by another version of dejacue; make it again",
        ),
        (
            lambda text: text.replace("dejacue.finding/3", f"dejacue.finding/{'9' * 5000}"),
            "made by another version of dejacue",
        ),
        (
            lambda text: text.replace("dejacue.finding/3", "dejacue.track/1"),
            r'finding\.json: is "dejacue.track/1", not "dejacue.finding/3"$',
        ),
        (lambda text: text[:200], r"finding\.json: not valid JSON, or cut short"),
        (
            lambda text: text.replace('"state"', '"stat"'),
            r'finding\.json: timeline: intervals\[0\]: has no "state"',
        ),
        (lambda text: text.replace("scene.evidence.npz", "../x.npz"), "names no file for its"),
        (lambda text: text.replace("full", "fuller"), "do not belong together"),
        (lambda text: "", r"finding\.json: is empty"),
    ],
)
def test_a_folder_that_cannot_be_read_gets_one_sentence(first, tmp_path, change, sentence) -> None:
    first.save(tmp_path)
    damage(tmp_path, change)
    with pytest.raises(InputError, match=sentence) as caught:
        Finding.read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("responses", np.nan),
        ("cosines", 1j),
        ("centre", np.zeros((2, 2))),
        ("scale", "wide"),
        ("responses", np.zeros(3)),
    ],
)
def test_evidence_that_is_not_numbers_of_its_shape_is_refused(first, tmp_path, name, value) -> None:
    first.save(tmp_path)
    path = tmp_path / "scene.evidence.npz"
    arrays = dict(np.load(path))
    wrong = np.asarray(value)
    arrays[name] = np.full(arrays[name].shape, wrong) if wrong.ndim == 0 else wrong
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="do not belong together"):
        Finding.read(tmp_path)


def test_pictures_of_something_that_cannot_be_read_are_left_out(first, tmp_path) -> None:
    first.save(tmp_path)
    path = tmp_path / "scene.thumbnails.npz"
    np.savez(path, **{**np.load(path), "made_of": "[" * 100_000})
    assert not Finding.read(tmp_path).thumbnails


def test_a_finding_that_json_cannot_hold_is_refused_before_anything_is_written(
    first, tmp_path
) -> None:
    intervals = [
        structs.replace(first.timeline[0], score=float("nan")),
        *first.timeline.intervals[1:],
    ]
    timeline = Timeline.of(
        intervals, first.timeline.states, history_id="scene", evidence=first.timeline.evidence
    )
    broken = replace(first, timeline=timeline)
    with pytest.raises(InputError, match=r"finding\.json: cannot be written as JSON"):
        broken.save(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [({"id": " "}, "timeline: history ' ': expected text"), ({"frames": range(-9, 3)}, "start -")],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, change, message) -> None:
    sample = generate(frames=12, dimension=9)
    finding = find(replace(sample.history, **change), sample.vocabulary)
    with pytest.raises(InputError, match=message):
        finding.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_without_a_finding_says_what_writes_one(tmp_path, first) -> None:
    with pytest.raises(
        InputError, match=r"is not the folder of a finding \(finding\.json is missing\)"
    ):
        Finding.read(tmp_path)
    first.save(tmp_path)
    (tmp_path / "scene.history.npz").unlink()
    with pytest.raises(InputError, match=r"scene\.history\.npz: no such file"):
        Finding.read(tmp_path)


@pytest.mark.parametrize("seen", [29, 30])
def test_an_object_that_is_seen_in_less_than_half_of_the_frames_is_noted(cup, scene, seen) -> None:
    whole = open_masks(scene / "Annotations")
    rows = []
    for frame in open_video(scene / "scene.mp4"):
        (mask,) = whole.unions(frame, [[1]])
        rows.append((frame.source, {1: mask} if frame.index < seen else {}))
    finding = cup(masks=open_masks(write_masks(scene.parent / f"{seen}.npz", rows)))
    noted = [warning for warning in finding.warnings if "is seen in only" in warning]
    assert noted == (["scene is seen in only 29 of 60 frames"] if seen == 29 else [])


# What a finding gives


def test_report_exports_plot_and_clips_come_from_the_finding(first, scene, tmp_path) -> None:
    page = first.report()
    assert page.count("data:image/jpeg") == 24  # frames, and the object in each
    assert "mini only knows the rendered scenes" in page
    written = first.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert written.count("data:image/jpeg") == 24
    assert "<video" in written  # beside a file it can be played
    assert "<video" not in page
    other = replace(
        first, provenance=replace(first.provenance, options={"stream": 1})
    )  # not what players show
    assert "<video" not in other.report(tmp_path / "s.html").read_text(encoding="utf-8")
    for kind, export in EXPORTS.items():
        if kind == "rerun" and find_spec("rerun") is None:
            continue  # see tests/files/test_formats.py
        assert first.export(tmp_path / f"x{export.suffix}", kind).stat().st_size > 0
    assert str(scene) in (tmp_path / "x.labelstudio.json").read_text()
    with refused("export", "vt"):
        first.export(tmp_path / "x", "vt")
    assert len(first.plot().axes) == 2
    assert first.plot(tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    clips = first.cut(tmp_path / "clips")
    assert [clip.name for clip in clips] == ["01-empty.mp4", "02-full.mp4"]
    assert len(list(open_video(clips[0]))) == first["empty"][0].window.length


@pytest.mark.parametrize(("count", "tail"), [(1, ""), (2, ", and 1 more"), (9, ", and 8 more")])
def test_of_several_doubts_the_first_is_a_warning_and_the_others_are_counted(count, tail) -> None:
    doubts = [(Window(3 + n, 9 + n), f"doubt {n}") for n in range(count)]
    (doubt,) = _find.doubt_notes(doubts)
    assert doubt.startswith("the tracker may be wrong in frames 3 – 9")
    assert doubt.endswith(f": doubt 0{tail}")


def test_a_finding_shows_itself_in_a_notebook(first) -> None:
    page = replace(first, warnings=("<b>",))._repr_html_()
    assert "<strong>scene</strong>" in page
    assert page.count("data:image/jpeg") == 6  # every second one
    assert "&lt;b&gt;</div>" in page
    assert "observed frames of" in repr(first)


def test_without_a_video_there_are_no_clips(tmp_path) -> None:
    sample = generate(3)
    with refused("video"):
        find(sample.history, sample.vocabulary).cut(tmp_path)


# Bad input


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"objects": None}, "holds the objects 1, 2"),
        ({"objects": []}, "at least one mask id"),
        ({"objects": 1.5}, "objects 1.5"),
        ({"objects": [[]]}, r"objects \[\[\]\]"),
        ({"objects": "1,x"}, 'objects "1,x"'),
        ({"objects": "1+2,2"}, "an id appears twice"),
        ({"masks": np.ones((1, 4, 4), bool)}, r"array of shape \(1, 4, 4\)"),
        ({"masks": 5}, "masks .* not as int"),
        ({"masks": None, "box": (1, 2, 3, 10**400)}, "a box is"),
        ({"masks": None, "prompts": Prompt("x")}, "frame x: give the position"),
        ({"masks": None, "prompts": Prompt(0, True)}, "object True"),
        ({"masks": None, "prompts": Prompt(0, 1, (1, 2, "x", 4))}, "a box is"),
        ({"masks": None, "prompts": Prompt(points=(5, 5))}, "a point is"),
        ({"masks": None, "box": (1, 2, 3)}, "a box is"),
        ({"masks": None, "box": "1,2,3,4"}, "a box is"),
        ({"masks": None, "point": 5}, "point 5: a point is"),
        ({"readout": {"smoothing": 9}}, "smoothing"),
    ],
)
def test_bad_input_is_one_sentence_before_anything_is_decoded(
    cup, monkeypatch, more, sentence
) -> None:
    monkeypatch.setattr(Video, "_frames", lambda self, **_: pytest.fail("decoded"))
    with pytest.raises(InputError, match=sentence):
        cup(**more)


@pytest.mark.parametrize(
    ("more", "fact"),
    [
        ({"objects": "all"}, "scene-1, scene-2"),
        ({"objects": "1,2"}, "scene-1, scene-2"),
        ({"box": (1, 2, 3, 4)}, "masks"),
        ({"masks": None, "point": (1, 2), "prompts": Prompt(0, 1, (1, 2, 3, 4))}, "prompts"),
        ({"readout": "contrst"}, "readout"),
        ({"encoder": Lazy("mini", {"device": "cpu"})}, "device"),
        ({"start": 3, "sampling": Sampling(start=2)}, "start"),
        ({"start": "soon"}, "start"),
        ({"order": ["empty", "full"], "readout": "contrast"}, "order"),
        ({"order": ["empty", "full"], "readout": Reading(order=["full", "empty"])}, "order"),
    ],
)
def test_an_option_that_does_not_fit_is_named(cup, monkeypatch, more, fact) -> None:
    monkeypatch.setattr(Video, "_frames", lambda self, **_: pytest.fail("decoded"))
    with refused(fact):
        cup(**more)


@pytest.mark.parametrize("function", [find, find_each])
def test_an_option_that_there_is_not_is_refused(scene, function) -> None:
    with pytest.raises(TypeError, match="stridde"):
        function(scene / "scene.mp4", WORDS, stridde=2)


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (np.ones((2, 4, 4), bool), r"bool of shape \(2, 4, 4\)"),
        ([[1, 2], [3]], "mask .* equal length"),
    ],
)
def test_a_mask_that_is_of_no_single_object_is_refused(cup, mask, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        cup(masks=None, objects=None, prompts=Prompt(mask=mask), tracker=Still())


def test_a_mask_of_a_model_with_an_axis_of_one_is_one_mask(scene, edges) -> None:
    mask = np.zeros(next(iter(open_video(scene / "scene.mp4"))).image.shape[:2], bool)
    x0, y0, x1, y1 = edges
    mask[y0:y1, x0:x1] = True
    how = {"tracker": Still(), "encoder": "mini"}
    prompts = (
        Prompt(mask=mask),
        Prompt(mask=mask[None]),
        Prompt(np.int64(0), np.int64(1), mask=mask[None, None]),
    )
    plain, *stacked = (
        windows(find(scene / "scene.mp4", WORDS, prompts=prompt, **how)) for prompt in prompts
    )
    assert stacked == [plain, plain]


def test_options_of_an_opened_video_belong_to_open_video(cup, scene) -> None:
    with refused("stride"):
        find(open_video(scene / "scene.mp4"), WORDS, masks="x", sampling=Sampling(stride=2))
    with refused("masks"):
        find(generate(3).history, generate(3).vocabulary, masks=scene / "Annotations")


@pytest.mark.parametrize(
    "words", [{"a": ["cookie xyzzy"], "b": ["plugh"]}, {"a": ["the the"], "b": ["чашка with it"]}]
)
def test_words_of_which_the_encoder_knows_none_are_refused(first, scene, words) -> None:
    message = "the vocabulary: mini knows none of its words"
    with pytest.raises(InputError, match=message):
        first.with_words(words)
    with pytest.raises(InputError, match=message):
        find(scene / "scene.mp4", words, masks=scene / "Annotations", objects=1, encoder="mini")
    some = first.with_words({"a": ["empty xyzzy"], "b": ["plugh"]})
    assert "words that mini does not know: xyzzy, plugh" in some.timeline.notes


def test_a_history_alone_says_what_was_wrong_when_it_was_made(first) -> None:
    made_with = {**first.history.made_with, "problems": "v.mp4: is cut off\nm: half are missing"}
    for frames, seldom in (("999", True), ("9" * 5000, False), ("x", False)):
        history = replace(first.history, made_with=made_with | {"frames": frames})
        warnings = find(history, first.vocabulary).warnings
        assert warnings[:2] == ("v.mp4: is cut off", "m: half are missing")
        assert warnings[-1].startswith("mini only knows the rendered scenes of this project")
        assert any("is seen in only" in text for text in warnings) is seldom


def test_words_for_a_history_of_an_unknown_encoder_need_its_name() -> None:
    with pytest.raises(InputError, match='"clip"; name the encoder'):
        find(History(np.eye(3, 64), encoder="clip"), WORDS)


# Progress


def test_a_notebook_gets_a_bar_and_others_silence(monkeypatch) -> None:
    drawn: list[str] = []

    class Handle:
        def update(self, page):
            drawn.append(page)

    def display(page, display_id):
        drawn.append(page)
        return Handle()

    import types

    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    pages = types.ModuleType("IPython.display")
    pages.HTML, pages.display = str, display
    assert default_progress() is silent
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", pages)
    bar = default_progress()
    assert isinstance(bar, NotebookBar)
    bar("decode", 1, 3, "<10 fps>")
    bar("decode", 2, 3)  # too soon to be drawn
    bar("decode", 3, 3)
    assert drawn == [
        '<progress value="1" max="3"></progress> decode · 1 of 3 · &lt;10 fps&gt;',
        '<progress value="3" max="3"></progress> decode · 3 of 3',
    ]


# The commands


def test_clips_of_other_answers_are_removed(dejacue, first, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.yaml").write_text("empty: empty cup\nfull: full cup\n")
    first.save(tmp_path / "out")
    ran = dejacue("find", "out", "-v", "other.yaml", "-o", "cut", "--cut")
    assert ran.code == 0
    assert len(list((tmp_path / "cut" / "clips").iterdir())) == 2
    assert dejacue("find", "out", "-v", "other.yaml", "-o", "cut").code == 0
    assert list((tmp_path / "cut" / "clips").iterdir()) == []


def test_a_finding_of_another_version_is_one_sentence(dejacue, first, tmp_path) -> None:
    first.save(tmp_path / "out")
    damage(tmp_path / "out", lambda text: text.replace("finding/3", "finding/4"))
    ran = dejacue("find", tmp_path / "out")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "another version of dejacue; make it again" in ran.err


def test_a_history_without_a_video_has_no_clips(dejacue, tmp_path) -> None:
    sample = generate(3)
    history = write_history(tmp_path / "h.npz", sample.history)
    words = write_vocabulary(tmp_path / "v.npz", sample.vocabulary)
    ran = dejacue("find", history, "-v", words, "--cut", "-o", tmp_path / "o")
    assert ran.code == 2
    assert "is a history; --cut needs the video" in ran.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("find x -r pub", "published"),
        ("find x -r con", "contrast"),
        ("find x --set coordinates=tra", "coordinates=trajectory"),
        ("find x --set irr", "irreversible="),
        ("find x --encoder sig", "siglip2"),
        ("find x --tracker sam2-t", "sam2-tiny"),
        ("reproduce mai", "main"),
    ],
)
def test_values_complete_in_the_shell(dejacue, monkeypatch, words, expected) -> None:
    monkeypatch.setenv("_DEJACUE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"dejacue {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    assert expected in dejacue().out.split()


def test_flags_are_flags_in_the_help(dejacue) -> None:
    text = " ".join(dejacue("find", "--help").out.split())
    assert "--cut Also cut the windows found into video clips." in text


def test_info_names_the_engine_that_is_used(dejacue, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "600")
    facts = dict(line.split(maxsplit=1) for line in dejacue("info").out.splitlines())
    assert facts["engine"].split()[0] == kernel.engine("auto").name


def test_a_folder_of_find_answers_other_words(cup, tmp_path, monkeypatch) -> None:
    cup(folder=tmp_path)
    monkeypatch.setattr(Video, "_frames", lambda self, **_: pytest.fail("decoded"))
    again = find(tmp_path, WORDS)
    assert len(again.thumbnails) == 12
    (tmp_path / "finding.json").unlink()  # the only history there
    assert find(tmp_path, WORDS)["full"]


def test_what_was_wrong_with_the_video_is_said_again_when_its_history_is_reused(
    scene, tmp_path
) -> None:
    for number in range(10):
        name = f"{number:05d}.png"
        (tmp_path / "few").mkdir(exist_ok=True)
        (tmp_path / "few" / name).write_bytes((scene / "Annotations" / name).read_bytes())
    options = {"masks": tmp_path / "few", "objects": [1], "encoder": "mini"}
    first = find(scene / "scene.mp4", WORDS, folder=tmp_path / "out", **options)
    (note,) = (text for text in first.warnings if "only 10 of 60 frames have a mask" in text)
    assert note.severity == "doubtful"
    again = find(scene / "scene.mp4", WORDS, folder=tmp_path / "out", **options)
    assert again.warnings == first.warnings


def test_nothing_is_written_over_the_video_or_under_a_wrong_name(first, scene, tmp_path) -> None:
    with refused(scene / "scene.mp4"):
        first.report(scene / "scene.mp4")
    with refused(tmp_path / "x.jpg"):
        first.plot(tmp_path / "x.jpg")


def test_another_encoder_than_that_of_the_history_is_named_before_it_is_loaded(first) -> None:
    for other in ("siglip2", "siglip2-large"):
        with refused("encoder", other):
            first.with_words(WORDS, encoder=other)


def test_masks_beside_a_finding_move_with_it(scene, edges, tmp_path) -> None:
    options = {"box": edges, "tracker": Still(), "encoder": "mini"}
    first = find(scene / "scene.mp4", WORDS, folder=tmp_path / "a", **options)
    assert first.provenance.masks == str(tmp_path / "a" / "masks")
    (tmp_path / "a").rename(tmp_path / "b")
    assert Finding.read(tmp_path / "b").provenance.masks == str(tmp_path / "b" / "masks")


def test_what_a_person_named_is_not_lost_with_its_history(cup, tmp_path) -> None:
    """Another encoder makes another history, which takes the place of the first."""
    finding = cup(folder=tmp_path)
    finding.mark(finding.strip(), {"full": (1, 4), "empty": (9, 12)}).save(tmp_path)
    before = (tmp_path / "finding.json").read_bytes()
    with refused(tmp_path, "what was named in it would be lost"):
        cup(folder=tmp_path, fps=2)
    assert (tmp_path / "finding.json").read_bytes() == before
    assert Finding.read(tmp_path).confirmed.keys() == {"full", "empty"}


def test_a_finding_in_which_nothing_was_named_makes_room_for_another(cup, tmp_path) -> None:
    cup(folder=tmp_path)
    assert len(cup(folder=tmp_path, fps=2).history) < 60
    again = cup(folder=tmp_path, fps=3, examples={"full": 0, "empty": 50})
    more = cup(folder=tmp_path, fps=4, examples={"full": 0, "empty": 50})
    assert more.named.keys() == again.named.keys()


def test_an_order_of_other_states_is_refused_before_anything_is_encoded(cup, monkeypatch) -> None:
    monkeypatch.setattr(Mini, "encode_images", lambda *_: pytest.fail("is encoded"))
    with refused("emtpy"):
        cup(order=("full", "emtpy"))
