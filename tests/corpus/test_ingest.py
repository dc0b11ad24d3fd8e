"""ingest() adds many videos to a store: manifests, the local engine, failures, remote files."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import TESTS
from helpers.errors import refused
from helpers.histories import build_history
from helpers.ingest import FRAMES, Counting, make_video
from PIL import Image

from dejacue import InputError, Store, ingest
from dejacue.atomic import lock_folder
from dejacue.corpus import Busy, Failure, _file
from dejacue.corpus.ingest import Item, read_manifest, worker, writer
from dejacue.corpus.ingest.chunks import Chunk, End, Failed, HistoryBuilder
from dejacue.corpus.ingest.manifest import MAX_PROBLEMS, as_items
from dejacue.corpus.ingest.worker import Decoding, decode
from dejacue.errors import Cancelled, MissingExtra, SeveralProblems, extra
from dejacue.files import read_history, remote
from dejacue.models.encoders.base import EncoderInfo
from dejacue.report.thumbnails import Album


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> list[dict[str, str]]:
    folder = tmp_path_factory.mktemp("videos")
    return [make_video(folder, f"v{k}", k) for k in range(3)]


@pytest.fixture
def counting(tmp_path) -> Counting:
    return Counting(tmp_path / "counter")


def row_of(video: dict[str, str], **options: object) -> dict[str, object]:
    """Return a row of a manifest for the first object of a video."""
    return {**video, "objects": 1, **options}


def stored(path: Path) -> dict[str, np.ndarray]:
    with Store.open(path) as store:
        assert store.verify() == []
        return {id: np.array(store[id].features) for id in store.ids()}


def write_csv(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# The manifest


def test_a_manifest_says_what_goes_where(tmp_path, videos) -> None:
    for name in ("a.mp4", "b.csv", "c.npz"):
        (tmp_path / name).touch()
    lines = write_csv(
        tmp_path / "m.csv",
        "video,masks,objects,id,fps,object,camera\n"
        "a.mp4,c.npz,1+2,first,2.5,cup,left\n"
        "a.mp4,b.csv,all,,,,\n",
    )
    first, second = read_manifest(lines)
    header, rest = lines.read_text(encoding="utf-8").split("\n", 1)
    capitals = header.upper().replace("CAMERA", "camera")  # an unknown name stays as it is
    assert read_manifest(write_csv(tmp_path / "c.csv", f"{capitals}\n{rest}")) == [first, second]
    assert (first.id, first.request.objects, first.object) == ("first", (1, 2), "cup")
    assert (first.request.sampled.fps, first.extra, first.source) == (
        2.5,
        {"camera": "left"},
        "a.mp4",
    )
    assert first.video == str(tmp_path / "a.mp4")
    assert (second.id, second.request.objects) == ("a", "all")
    assert second.request.masks.name == str(tmp_path / "b.csv")
    rows = [
        {
            "video": "a.mp4",
            "masks": "c.npz",
            "objects": [1, 2],
            "id": "first",
            "fps": 2.5,
            "object": "cup",
            "camera": "left",
        },
        {"video": "a.mp4", "masks": "b.csv", "objects": "all", "camera": None},
    ]
    same = write_csv(tmp_path / "m.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_manifest(same) == [first, second]
    loud = [{k if k == "camera" else k.upper(): v for k, v in row.items()} for row in rows]
    write_csv(same, "\n".join(map(json.dumps, loud)))
    assert read_manifest(same) == [first, second]
    assert pickle.loads(pickle.dumps(first)) == first


def test_all_that_is_wrong_with_a_manifest_is_listed_at_once(tmp_path, counting) -> None:
    (tmp_path / "a.mp4").touch()
    (tmp_path / "m.npz").touch()
    path = write_csv(
        tmp_path / "m.csv",
        "vidoe,video,masks,objects,stride,kind,precision\n"
        ",a.mp4,m.npz,1,,,\n"
        ",a.mp4,m.npz,2,,,\n"  # the same id
        ",gone.mp4,gone.npz,,,,\n"
        ",a.mp4,,one,x,nice,\n"
        ",,m.npz\n",
    )
    with refused(path, kind=SeveralProblems) as caught:
        ingest(path, tmp_path / "store", encoder=counting)
    assert len(str(caught.value)) < 600
    assert not (tmp_path / "store").exists()
    problems = "\n".join(caught.value.problems)
    for text in (
        'column "vidoe"',
        'column "precision"',
        'line 3: the id "a"',
        f"line 4: {tmp_path / 'gone.mp4'} ",
        f"line 4: {tmp_path / 'gone.npz'} ",
        'line 5: stride "x"',
        'line 5: objects "one"',
        "line 5: does not say where the object is",
        'line 5: unknown kind of masks "nice"',
        "line 6: 3 cells for 7 columns",
    ):
        assert text in problems
    assert len(caught.value.problems) == 10
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), InputError)


@pytest.mark.parametrize(("column", "instead"), [("box", "fixed"), ("order", "query")])
def test_what_find_takes_and_a_manifest_does_not_is_no_note(column, instead) -> None:
    with refused(f'column "{column}"', instead, kind=SeveralProblems):
        as_items([{"video": "a.mp4", "whole": "yes", column: "x"}])


NO_MANIFEST = "write one: names of columns (video,whole), then a line for each video (a.mp4,yes)"


@pytest.mark.parametrize(
    ("name", "text", "facts"),
    [
        ("m.csv", "video,masks\n", ("add a line for each",)),
        ("m.csv", "video,video\na,b\n", ("line 1", "video")),
        ("m.csv", 'video,masks\n"a', ("line 2",)),
        ("m.csv", "video;masks\na;b\n", ("line 1",)),
        ("m.csv", "video\tmasks\na\tb\n", ("line 1",)),
        ("m.csv", "Video,video,masks\na,b,c\n", ("line 1", "video")),
        ("m.txt", "video,masks\n", (NO_MANIFEST,)),
    ],
)
def test_a_manifest_that_cannot_be_read_is_refused(tmp_path, name, text, facts) -> None:
    with refused(tmp_path / name, *facts):
        read_manifest(write_csv(tmp_path / name, text))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[1]", "give an object"),
        ("{", "JSON"),
        ('{"video": "x", "Video": "y", "masks": "m"}', '"Video"'),
        ('{"video": "x"}', "where the object is"),
        ('{"video": "x", "masks": "y", "stride": 2.5}', 'stride "2.5" is not a whole number'),
        ('{"video": "x", "masks": "y", "fps": "fast"}', 'fps "fast" is not a number'),
        ('{"video": "x", "masks": "y", "start": "soon"}', 'start "soon"'),
        ('{"video": "x", "whole": "maybe"}', 'whole "maybe" is not yes or no'),
        ('{"video": "x", "masks": "y", "errors": "stop"}', 'errors "stop" is not one of'),
        ('{"video": "x", "masks": "y", "whole": true}', "masks are given as well as whole"),
        ('{"video": "x", "fixed": "1,2"}', 'fixed "1,2"'),
        ('{"video": "x", "masks": "y", "objects": [1.5]}', "objects"),
    ],
)
def test_a_line_that_cannot_be_used_is_among_the_problems(tmp_path, line, problem) -> None:
    with refused(tmp_path / "m.jsonl", kind=SeveralProblems) as caught:
        read_manifest(write_csv(tmp_path / "m.jsonl", line))
    first = caught.value.problems[0]
    assert first.startswith("line 1: ")
    assert problem in first


def test_of_thousands_of_missing_files_the_first_are_listed(tmp_path) -> None:
    lines = "".join(f"{k}.mp4,m\n" for k in range(3000))
    with refused(tmp_path / "m.csv", "at least 999 more", kind=SeveralProblems) as caught:
        read_manifest(write_csv(tmp_path / "m.csv", f"video,masks\n{lines}"))
    assert len(caught.value.problems) == MAX_PROBLEMS
    assert caught.value.problems[0].startswith("line 2: ")


def test_columns_of_the_encoder_are_refused_before_anything_is_begun(
    tmp_path, videos, counting
) -> None:
    with refused("the manifest", kind=SeveralProblems) as caught:
        ingest([row_of(videos[0], mixing="x")], tmp_path / "store", encoder=counting)
    assert [text.split(":")[0] for text in caught.value.problems] == ['column "mixing"']
    assert not (tmp_path / "store").exists()


# Decoding and rows


def test_decoding_elsewhere_gives_the_rows_of_encode(videos, counting) -> None:
    how = Decoding.of(counting)
    (item,) = as_items([{**videos[0], "objects": "all", "id": "x", "camera": "left"}])
    *chunks, end = decode(*pickle.loads(pickle.dumps((item, how))))
    assert all(isinstance(chunk, Chunk) and len(chunk.crops) <= 256 for chunk in chunks)
    assert isinstance(end, End)
    builder = HistoryBuilder(how.encoder)
    for chunk in chunks:
        builder.see(chunk)
        builder.encode(chunk, counting)
    histories = builder.histories(end)
    assert list(histories) == ["x-1", "x-2"]
    for at in (1, 2):
        alone = build_history(videos[0]["video"], videos[0]["masks"], counting, objects=at)
        history = histories[f"x-{at}"]
        for name in ("features", "frames", "times_s", "source_frames"):
            assert np.array_equal(getattr(history, name), getattr(alone, name)), name
        assert history.made_with == {**alone.made_with, "camera": "left", "columns": "camera"}
        assert (history.encoder, history.presence) == (alone.encoder, None)


def test_decoding_ends_with_a_sentence_where_it_fails(videos, counting) -> None:
    rows = [row_of(videos[0], objects=7), {**videos[0], "id": "two"}]
    for item, text in zip(as_items(rows), ("no object 7", "holds the objects 1, 2"), strict=True):
        (end,) = decode(item, Decoding.of(counting))
        assert isinstance(end, Failed)
        assert text in end.what


def test_a_chunk_is_whole_batches_of_bounded_size() -> None:
    for size, batch, chunk in ((224, 64, 192), (64, 64, 256), (16, 300, 300), (4096, 8, 8)):
        info = EncoderInfo("x", 4, size, batch, {})
        assert info.chunk == chunk
        assert info.chunk == batch or info.chunk * size**2 * 3 <= 32 << 20


def test_a_fit_that_holds_its_encoder_is_refused(counting) -> None:
    counting.fit = lambda image: image
    with refused("its fit cannot be sent"):
        Decoding.of(counting)


# The local engine


@pytest.mark.parametrize("mixing", [False, True])
def test_histories_are_those_of_encode(tmp_path, videos, mixing) -> None:
    encoder = Counting(tmp_path / "counter", mixing)
    Store.create(tmp_path / "store", dtype="float32")
    rows = [row_of(video, camera=f"c{k}", object="cup") for k, video in enumerate(videos)]
    calls: list[tuple] = []
    result = ingest(
        rows,
        tmp_path / "store",
        encoder=encoder,
        workers=2,
        progress=lambda *call: calls.append(call),
    )
    assert sorted(result.added) == ["v0", "v1", "v2"]
    assert result.skipped == result.failed == ()
    assert ("videos", 3, 3) in calls
    assert ("crops", 3 * FRAMES) in calls
    assert encoder.count == 3 * FRAMES
    with Store.open(tmp_path / "store") as store:
        assert store.ids({"camera": "c1"}) == ["v1"]
        assert next(store.rows({"id": "v1"})).columns == {"camera": "c1"}
        assert {row.object for row in store.rows()} == {"cup"}
        assert {row.source for row in store.rows()} == {video["video"] for video in videos}
        for video in videos:
            alone = build_history(video["video"], video["masks"], encoder, objects=1)
            assert np.array_equal(store[alone.id].features, alone.features)
    assert ingest(rows, tmp_path / "store", encoder=encoder).skipped == ("v0", "v1", "v2")
    assert encoder.count == 2 * 3 * FRAMES  # those of build_history
    assert not (tmp_path / "store.work").exists()


def test_a_batch_holds_crops_of_one_video(tmp_path, videos, counting) -> None:
    """A row has the bits that ``encode`` gives it, whatever else is encoded."""
    sizes: list[int] = []
    encode = counting.encode_images
    counting.encode_images = lambda crops: (sizes.append(len(crops)), encode(crops))[1]
    counting.batch = 35
    ingest([row_of(video) for video in videos], tmp_path / "a", encoder=counting, workers=1)
    assert sizes == [35, 5] * 3


def test_the_same_id_of_something_else_fails_or_is_replaced(tmp_path, videos, counting) -> None:
    store = tmp_path / "store"
    ingest([row_of(videos[0])], store, encoder=counting)
    other = [row_of(videos[0], stride=2)]
    result = ingest(other, store, encoder=counting)
    assert "or replace it" in result.failed[0].what
    assert len(stored(store)["v0"]) == FRAMES
    with Store.open(store) as now:
        assert now.failures() == []  # the history "v0" is there
    result = ingest(other, store, encoder=counting, replace=True)
    assert (result.added, result.failed, str(result)) == (("v0",), (), "1 replaced")
    assert len(stored(store)["v0"]) == FRAMES // 2
    with Store.open(store) as now:
        assert now.failures() == []
    assert ingest(other, store, encoder=counting, replace=True).skipped == ("v0",)
    named = [row_of(videos[0], stride=2, camera="left")]
    assert ingest(named, store, encoder=counting).skipped == ("v0",)
    assert ingest(named, store, encoder=counting, replace=True).added == ("v0",)


def test_objects_that_are_there_are_skipped_and_the_others_made(tmp_path, videos, counting) -> None:
    rows = [{**videos[0], "objects": "all"}]
    result = ingest(rows, tmp_path / "store", encoder=counting)
    assert result.added == ("v0-1", "v0-2")
    with Store.open(tmp_path / "store") as store:
        store.remove("v0-2")
    result = ingest(rows, tmp_path / "store", encoder=counting)
    assert (result.added, result.skipped) == (("v0-2",), ("v0-1",))


@pytest.fixture
def mixed(tmp_path, videos) -> list[dict[str, object]]:
    """Return rows of two good videos, and of all kinds that fail."""
    (tmp_path / "noise.mp4").write_bytes(os.urandom(5000))
    whole = Path(videos[1]["video"]).read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    np.savez(tmp_path / "wide.npz", masks=np.ones((FRAMES, 32, 90), np.uint8))
    np.savez(tmp_path / "empty.npz", masks=np.zeros((FRAMES, 32, 48), np.uint8))
    masks = videos[0]["masks"]
    return [
        row_of(videos[0]),
        {"id": "noise", "video": tmp_path / "noise.mp4", "masks": masks, "objects": 1},
        {"id": "cut", "video": tmp_path / "cut.mp4", "masks": masks, "objects": 1},
        {"id": "wide", "video": videos[0]["video"], "masks": tmp_path / "wide.npz"},
        {"id": "empty", "video": videos[0]["video"], "masks": tmp_path / "empty.npz"},
        row_of(videos[1]),
    ]


def test_what_fails_is_recorded_and_the_rest_goes_on(tmp_path, videos, mixed, counting) -> None:
    mixed = [{k: os.fspath(v) if isinstance(v, Path) else v for k, v in r.items()} for r in mixed]
    result = ingest(mixed, tmp_path / "store", encoder=counting, workers=2)
    assert sorted(result.added) == ["v0", "v1"]
    reasons = {failure.id: failure.what for failure in result.failed}
    assert sorted(reasons) == ["cut", "empty", "noise", "wide"]
    assert "a different aspect ratio" in reasons["wide"]
    assert "never visible" in reasons["empty"]
    assert all(len(text) < 600 and "\n" not in text for text in reasons.values())
    with Store.open(tmp_path / "store") as store:
        assert {failure.id: failure.what for failure in store.failures()} == reasons
    Path(mixed[1]["video"]).write_bytes(Path(videos[2]["video"]).read_bytes())
    before = counting.count
    again = ingest(mixed, tmp_path / "store", encoder=counting, retry=True)
    assert again.added == ("noise",)
    assert sorted(failure.id for failure in again.failed) == ["cut", "empty", "wide"]
    assert counting.count == before + FRAMES
    with Store.open(tmp_path / "store") as store:
        assert sorted(failure.id for failure in store.failures()) == ["cut", "empty", "wide"]
        assert sorted(store.ids()) == ["noise", "v0", "v1"]


@pytest.fixture
def dark(tmp_path, videos) -> dict[str, object]:
    """Return a row of four black pictures."""
    (tmp_path / "dark").mkdir()
    for k in range(4):
        Image.new("RGB", (48, 32)).save(tmp_path / "dark" / f"{k}.png")
    return {"video": str(tmp_path / "dark"), "masks": videos[0]["masks"], "objects": 1}


def test_a_crop_that_the_encoder_refuses_is_a_failure_of_its_item(
    tmp_path, videos, dark, counting
) -> None:
    encode = counting.encode_images

    def refuse(crops: list[np.ndarray]) -> np.ndarray:
        if any(crop.max() < 140 for crop in crops):
            raise InputError("image 0: the encoder gave zero")
        return encode(crops)

    counting.encode_images = refuse
    result = ingest([dark, row_of(videos[0])], tmp_path / "store", encoder=counting, workers=1)
    assert result.added == ("v0",)
    (failure,) = result.failed
    assert failure.what == f"{tmp_path / 'dark'}: image 0: the encoder gave zero"


def fit_or_die(image: np.ndarray) -> np.ndarray:
    """Kill the worker in which this runs if a picture has no bright point."""
    if image.max() < 140:
        os.kill(os.getpid(), signal.SIGKILL)
    return image[:16, :16].copy()


def test_a_worker_that_is_killed_is_a_failure_of_its_item(tmp_path, videos, dark, counting) -> None:
    counting.fit = fit_or_die
    rows = [row_of(video) for video in videos]
    result = ingest([dark, *rows], tmp_path / "store", encoder=counting, workers=1)
    assert sorted(result.added) == ["v0", "v1", "v2"]
    (failure,) = result.failed
    assert failure.id == "dark"
    assert "was killed by SIGKILL; there may be too little memory" in failure.what


def test_what_was_finished_is_kept_when_it_is_stopped(tmp_path, videos, counting, monkeypatch):
    monkeypatch.setattr(writer, "MAX_WAITING_S", 0.0)
    workers = []

    class Watched(worker.Worker):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)
            workers.append(self._process)

    monkeypatch.setattr(worker, "Worker", Watched)
    rows = [row_of(video) for video in videos]

    def stop(stage: str, done: int, total: int | None = None, note: str = "") -> None:
        if (stage, done) == ("videos", 2):
            raise KeyboardInterrupt

    with refused("run the same command to resume", kind=Cancelled):
        ingest(rows, tmp_path / "store", encoder=counting, workers=1, progress=stop)
    assert len(stored(tmp_path / "store")) == 2
    assert [process.poll() is None for process in workers] == [False]
    result = ingest(rows, tmp_path / "store", encoder=counting)
    assert len(result.added) == 1
    assert counting.count == 3 * FRAMES


def test_a_full_disk_ends_it_in_a_sentence_and_it_goes_on_later(
    tmp_path, videos, counting, monkeypatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    rows = [row_of(video) for video in videos]
    monkeypatch.setattr(_file, "append_means", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*store'"):
        ingest(rows, tmp_path / "store", encoder=counting)
    monkeypatch.undo()
    assert stored(tmp_path / "store") == {}
    result = ingest(rows, tmp_path / "store", encoder=counting)
    assert len(result.added) == 3
    assert counting.count == 3 * FRAMES  # what was encoded was kept beside


def test_a_second_ingest_is_refused(tmp_path, videos, counting) -> None:
    Store.create(tmp_path / "store").close()
    (tmp_path / "store.work").mkdir()
    lock = lock_folder(tmp_path / "store.work")
    with refused(tmp_path / "store", "wait until it has finished"):
        ingest([row_of(videos[0])], tmp_path / "store", encoder=counting)
    os.close(lock)
    assert ingest([row_of(videos[0])], tmp_path / "store", encoder=counting).added == ("v0",)


def test_another_writer_of_the_store_is_waited_for(tmp_path, videos, counting, monkeypatch) -> None:
    busy = iter([True, True])
    real = Store.add

    def add(self: Store, *arguments: object, **options: object) -> int:
        for _ in busy:
            raise Busy("another process")
        return real(self, *arguments, **options)

    monkeypatch.setattr(Store, "add", add)
    assert ingest([row_of(videos[0])], tmp_path / "store", encoder=counting).added == ("v0",)


def test_a_store_of_another_encoder_is_refused(tmp_path, videos, counting) -> None:
    Store.create(tmp_path / "store", encoder="siglip").close()
    with refused(tmp_path / "store", "encoder", "counting"):
        ingest([row_of(videos[0])], tmp_path / "store", encoder=counting)
    with refused(tmp_path / "store", "encoder"):
        ingest([row_of(videos[0])], tmp_path / "store")


@pytest.mark.parametrize("options", [{"engine": "spark"}, {"workers": 0}, {"retry": True}])
def test_options_that_cannot_be_are_refused(tmp_path, videos, counting, options) -> None:
    with refused(next(iter(options))):
        ingest([row_of(videos[0])], tmp_path / "store", encoder=counting, **options)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_chunks_wait_than_may(videos, counting, monkeypatch, limit) -> None:
    read = []

    class Fast:
        def __init__(self, *_: object) -> None: ...

        def messages(self, item: object, turn: Any) -> Iterator[object]:
            for at in range(9):
                with turn:
                    read.append(at)
                    yield End()

        def end(self) -> int:
            return 0

    monkeypatch.setattr(worker, "Worker", Fast)
    monkeypatch.setattr(worker, "MAX_WAITING", limit)
    items, ahead, until = as_items(map(row_of, videos)), [], time.monotonic() + 60
    with worker._Workers(iter(items), Decoding.of(counting), 3) as decoding:
        while not decoding._messages.full():
            assert time.monotonic() < until
            time.sleep(0.001)
        for item, _ in decoding:
            if item is not None:
                ahead.append(len(read) - len(ahead) - 1)
    assert len(ahead) == len(read) == 3 * 9
    assert max(ahead) <= limit + 1  # one waits for room


def test_a_worker_that_dies_half_way_gives_its_turn_back(videos, counting, monkeypatch) -> None:
    class Dying:
        def __init__(self, *_: object) -> None: ...

        def messages(self, item: object, turn: Any) -> Iterator[object]:
            with turn:
                yield from ()
                raise EOFError

        def end(self) -> int:
            return -9

    monkeypatch.setattr(worker, "Worker", Dying)
    items = as_items(map(row_of, videos))
    with worker._Workers(iter(items), Decoding.of(counting), 2) as decoding:
        failed = [(item.id, message.what) for item, message in decoding if item is not None]
    assert sorted(id for id, _ in failed) == ["v0", "v1", "v2"]
    assert all("was killed by SIGKILL" in what for _, what in failed)


@pytest.mark.long
def test_the_memory_does_not_grow_with_frames_of_4k(tmp_path) -> None:
    """Compare the peaks of this process and of the worker for few frames and for many."""
    script = (
        "import resource, sys; sys.path.insert(0, sys.argv[1]);"
        "from helpers.ingest import Counting; from pathlib import Path; from dejacue import ingest;"
        "f = Path(sys.argv[2]); done = ingest([{'video': str(f / 'frames'), 'masks':"
        " str(f / 'boxes.csv'), 'end': int(sys.argv[3])}], f / sys.argv[3],"
        " encoder=Counting(f / 'c'), workers=1); assert done.added, done;"
        "print(sum(resource.getrusage(w).ru_maxrss for w in (0, -1)))"
    )
    (tmp_path / "frames").mkdir()
    picture = Image.effect_noise((3840, 2160), 40).convert("RGB")
    for k in range(40):
        picture.save(tmp_path / "frames" / f"{k:03d}.jpg", quality=30)
    boxes = "".join(f"{k},1,100,100,{2000 + k},1500\n" for k in range(40))
    (tmp_path / "boxes.csv").write_text("frame,id,x,y,width,height\n" + boxes)
    peaks = []
    for end in (4, 39):
        command = [sys.executable, "-c", script, TESTS, tmp_path, str(end)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        peaks.append(int(ran.stdout) * 1024)
    assert peaks[1] - peaks[0] < 4 * 3840 * 2160 * 3  # 35 more frames


@pytest.mark.long
def test_a_kill_costs_at_most_a_batch_of_crops(tmp_path, videos, counting) -> None:
    """tests/test_crash.py kills at any point, and compares what there is in the end."""
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from helpers import ingest as made\n"
        "from pathlib import Path; from dejacue import ingest\n"
        "class Killed(made.Counting):\n"
        "    def encode_images(self, crops):\n"
        "        rows = super().encode_images(crops)\n"
        "        return rows if self.count < int(sys.argv[3]) else os._exit(137)\n"
        "folder, encoder = Path(sys.argv[2]), Killed(Path(sys.argv[4]))\n"
        "ingest(folder / 'videos.csv', folder / 'store', encoder=encoder)"
    )
    lines = [f"{row['video']},{row['masks']},all\n" for row in videos]
    (tmp_path / "videos.csv").write_text("video,masks,objects\n" + "".join(lines))
    for at in (20, 50, 90):
        command = [sys.executable, "-c", script, TESTS, tmp_path, str(at), tmp_path / "counter"]
        assert subprocess.run(command, check=False).returncode == 137
    ingest(tmp_path / "videos.csv", tmp_path / "store", encoder=counting)
    assert len(stored(tmp_path / "store")) == 6
    crops = len(videos) * (FRAMES + FRAMES // 2)
    assert crops < counting.count <= crops + 3 * counting.batch
    assert not (tmp_path / "store.work").exists()


# Pictures, and remote files


def test_ingested_objects_have_a_picture(tmp_path, videos, counting) -> None:
    ingest([{**videos[0], "objects": "all"}], tmp_path / "store", encoder=counting)
    with Store.open(tmp_path / "store") as store:
        pictures = [store.thumbnail(id) for id in ("v0-1", "v0-2")]
    for picture in pictures:
        assert picture is not None
        with Image.open(io.BytesIO(picture), formats=["JPEG"]) as opened:
            assert opened.size == (16, 16)  # what the encoder sees
    assert pictures[0] != pictures[1]


@pytest.mark.parametrize("count", [1, 2, 5, 9, 100])
def test_the_picture_is_of_the_middle_of_however_many_there_are(count) -> None:
    album: Album[int] = Album(worker.MAX_KEPT_CROPS)
    for at in range(count):
        album.see(at, lambda at=at: at)
    assert len(album.items) <= worker.MAX_KEPT_CROPS
    assert abs(worker.middle(album, count - 1) - count / 2) <= max(1, count / 4)


def test_files_elsewhere_are_fetched_and_exports_put(
    tmp_path, videos, counting, monkeypatch
) -> None:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for name in ("v0.mp4", "v0.masks.npz"):
        system.put_file(str(Path(videos[0]["video"]).parent / name), f"/bucket/{name}")
    system.pipe_file(
        "/bucket/m.csv", b"video,masks,objects\nv0.mp4,memory://bucket/v0.masks.npz,1\n"
    )
    manifest = "memory://bucket/m.csv"
    result = ingest(manifest, tmp_path / "store", encoder=counting)
    assert (result.added, result.failed) == (("v0",), ())
    fetched: list[str] = []
    fetch = remote._fetched
    monkeypatch.setattr(
        remote, "_fetched", lambda url, folder: (fetched.append(url), fetch(url, folder))[1]
    )
    assert ingest(manifest, tmp_path / "store", encoder=counting).skipped == ("v0",)
    assert fetched == [manifest]  # the listing says that the rest is as it was
    masks = system.cat_file("/bucket/v0.masks.npz")
    system.pipe_file("/bucket/v0.masks.npz", masks)  # another one, which is the same
    assert ingest(manifest, tmp_path / "store", encoder=counting).skipped == ("v0",)
    assert len(fetched) == 4
    alone = build_history(videos[0]["video"], videos[0]["masks"], counting, objects=1)
    assert np.array_equal(stored(tmp_path / "store")["v0"], alone.features.astype(np.float16))
    with Store.open(tmp_path / "store") as store:
        assert next(store.rows()).source == "v0.mp4"
        assert store.export("memory://out/npz") == 1
        assert store.export("memory://out/all.parquet") == 1
        with remote.local_copy("memory://out/npz") as here:
            picture, file = sorted(Path(here).iterdir(), key=lambda path: path.suffix)
            assert picture.read_bytes() == store.thumbnail("v0")
            assert np.array_equal(read_history(file).features, store["v0"].features)
        assert system.info("/out/all.parquet")["size"] > 1000
        with pytest.raises(InputError, match=r"s3nope://x: cannot be reached"):
            store.export("s3nope://x")
    gone = [{**videos[0], "video": "memory://bucket/gone.mp4"}]
    with refused("the manifest", kind=SeveralProblems) as caught:
        ingest(gone, tmp_path / "store", encoder=counting)
    assert caught.value.problems == ("item 1: memory://bucket/gone.mp4 does not exist",)


def test_a_folder_elsewhere_is_fetched_whole_and_is_the_same_again(tmp_path) -> None:
    (tmp_path / "there" / "inner").mkdir(parents=True)
    for name in ("a.png", "inner/b.png"):
        (tmp_path / "there" / name).write_bytes(name.encode())
    url = f"file://{tmp_path}/there"
    stamps = []
    for _ in range(2):
        with remote.local_copy(url) as here:
            assert Path(here).name == "there"
            assert Path(here, "inner/b.png").read_bytes() == b"inner/b.png"
            stamps.append(Path(here, "a.png").stat().st_mtime_ns)
        assert not Path(here).exists()
    assert stamps[0] == stamps[1]
    os.utime(tmp_path / "there" / "a.png", (1, 1))
    with remote.local_copy(url) as here:
        assert Path(here, "a.png").stat().st_mtime_ns != stamps[0]


def test_a_path_that_no_file_can_have_is_refused_with_its_line(tmp_path) -> None:
    lines = [json.dumps({"video": path, "masks": "m"}) for path in ("v" * 5000, "a\0b", "ok.mp4")]
    (tmp_path / "m.jsonl").write_text("\n".join(lines))
    with refused(tmp_path / "m.jsonl", kind=SeveralProblems) as caught:
        read_manifest(tmp_path / "m.jsonl")
    assert {text.partition(":")[0] for text in caught.value.problems} == {
        "line 1",
        "line 2",
        "line 3",
    }


@pytest.mark.parametrize("kind", ["zip", "tar", "file"])
def test_an_archive_that_would_write_outside_its_folder_is_refused_whole(
    tmp_path, monkeypatch, kind
) -> None:
    pytest.importorskip("fsspec")
    members = ["m/a.png", "m/../../../evil"]
    temporary = tmp_path / "1" / "2" / "3"
    temporary.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    archive = tmp_path / f"evil.{kind}"
    url = f"{kind}://m::{archive}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as file:
            for member in members:
                file.writestr(member, "x")
    elif kind == "tar":
        with tarfile.open(archive, "w") as tar:
            for member in members:
                tar.addfile(tarfile.TarInfo(member))
    else:  # keys of a bucket may hold anything
        url = f"file://{tmp_path}"
        listed = [(f"{tmp_path}/{member}", {}) for member in members]
        monkeypatch.setattr(remote, "_files", lambda *_: listed)
    written = set(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=r"m/\.\./\.\./\.\./evil"), remote.local_copy(url):
        pass
    assert set(tmp_path.rglob("*")) == written


def test_a_fetched_manifest_names_only_what_lies_below_it_or_below_root(tmp_path) -> None:
    system = pytest.importorskip("fsspec").filesystem("memory")
    root = tmp_path / "allowed"
    root.mkdir()
    (root / "v.mp4").touch()
    (tmp_path / "v.mp4").touch()
    (root / "link").symlink_to(tmp_path)
    system.pipe_file("/mine/v.mp4", b"")
    fine = ["v.mp4", "memory://mine/v.mp4"]
    outside = [
        tmp_path / "v.mp4",
        root / "../v.mp4",
        root / "link/v.mp4",
        "../other/v.mp4",
        "%2e%2e/other/v.mp4",
        "memory://mine2/v.mp4",
        f"file://{tmp_path}/v.mp4",
        f"zip://v.mp4::{tmp_path}/x.zip",
        "reference://::memory://mine/refs.json",
    ]

    def read(*paths: object, **options: object) -> list[Item]:
        lines = "".join(f"{path},v.mp4,{at}\n" for at, path in enumerate(paths))
        system.pipe_file("/mine/m.csv", f"video,masks,id\n{lines}".encode())
        return read_manifest("memory://mine/m.csv", **options)

    assert len(read(*fine)) == 2
    assert len(read(*fine, root / "v.mp4", root=root)) == 3
    with refused("memory://mine/m.csv", kind=SeveralProblems) as caught:
        read(*outside, root=root)
    assert [text.partition(":")[0] for text in caught.value.problems] == [
        f"line {at}" for at in range(2, 2 + len(outside))
    ]
    assert remote.is_below("zip://m::memory://mine/a.zip", "memory://mine/")


def test_without_fsspec_the_extra_is_named(tmp_path, videos, counting, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with refused("the manifest", kind=SeveralProblems) as caught:
        ingest([{**videos[0], "video": "s3://b/v.mp4"}], tmp_path / "store", encoder=counting)
    assert "s3://b/v.mp4" in caught.value.problems[0]
    ingest([row_of(videos[0])], tmp_path / "store", encoder=counting)
    with (
        Store.open(tmp_path / "store") as store,
        pytest.raises(MissingExtra, match=re.escape(extra("remote"))),
    ):
        store.export("s3://b/out")


# The commands


def test_the_commands(dejacue, tmp_path, videos) -> None:
    folder = Path(videos[0]["video"]).parent
    lines = "".join(f"{folder}/v{k}.mp4,{folder}/v{k}.masks.npz,1,{k}\n" for k in range(2))
    manifest = write_csv(tmp_path / "m.csv", "video,masks,objects,camera\n" + lines)
    words = ("ingest", manifest, "--store", tmp_path / "s", "--encoder", "mini")
    ran = dejacue(*words)
    assert (ran.code, ran.out) == (0, f"{tmp_path / 's'}: 2 added, 2 of them with problems\n")
    assert f"2 videos, {2 * FRAMES} crops in" in ran.err
    assert dejacue("ingest", manifest, "--store", tmp_path / "s").out.endswith(
        "2 already in the store\n"
    )
    assert "no failures" in dejacue("store", "failures", tmp_path / "s").out
    listed = ("store", "ls", tmp_path / "s", "--where", "camera=1")
    assert json.loads(dejacue(*listed, "--jsonl").out)["columns"] == {"camera": "1"}
    assert "camera" in dejacue(*listed).out
    vocabulary = tmp_path / "cup.yaml"
    vocabulary.write_text("empty: an empty cup\nfilled: a filled cup\n")
    with pytest.MonkeyPatch.context() as changed:  # the index says which encoder it was
        changed.setattr(Store, "__getitem__", lambda *_: pytest.fail("a history was read"))
        ran = dejacue("store", "query", tmp_path / "s", "-v", vocabulary, "--jsonl")
    assert {json.loads(line)["columns"]["camera"] for line in ran.out.splitlines()} == {"0", "1"}
    manifest.write_text(f"video,masks,objects\n{folder}/v2.mp4,{folder}/v2.masks.npz,9\n")
    ran = dejacue(*words)
    assert ran.code == 1
    assert "no object 9" in ran.err
    assert "1 failed" in ran.out
    ran = dejacue("store", "failures", tmp_path / "s", "--jsonl")
    assert "no object 9" in json.loads(ran.out)["what"]
    manifest.write_text("video,masks\ngone.mp4,gone.npz\n")
    ran = dejacue(*words)
    assert ran.code == 2
    assert ran.err.count("does not exist") == 2  # each once
    assert "Traceback" not in ran.err


def test_failures_are_cleared(dejacue, tmp_path) -> None:
    words = ("store", "failures", tmp_path / "s")
    with Store.create(tmp_path / "s") as store:
        store.record([Failure(id, None, "is damaged") for id in "abc"])
        ran = dejacue(*words, "z", "--clear")
        assert (ran.code, 'has no failure "z"' in " ".join(ran.err.split())) == (2, True)
        assert dejacue(*words, "b").out == "b: is damaged\n"
        assert dejacue(*words, "--clear", "b").out == "cleared: 1 failure\n"
        assert [failure.id for failure in store.failures()] == ["a", "c"]
        assert dejacue(*words, "--clear").out == "cleared: 2 failures\n"
        assert store.failures() == []


def test_problems_of_a_video_are_counted_and_printed(dejacue, tmp_path, videos) -> None:
    masks = np.zeros((FRAMES, 32, 48), np.uint8)
    masks[:, 4:20, 4:20] = 1
    np.savez(tmp_path / "large.npz", masks=masks.repeat(2, axis=1).repeat(2, axis=2))
    items = [row_of(videos[0], masks=str(tmp_path / "large.npz")), row_of(videos[1])]
    result = ingest(items, tmp_path / "store", encoder="mini")
    assert {id: len(problems) for id, problems in result.problems.items()} == {"v0": 2, "v1": 1}
    assert str(result) == "2 added, 2 of them with problems"
    manifest = write_csv(tmp_path / "m.jsonl", "\n".join(map(json.dumps, items)))
    ran = dejacue("ingest", manifest, "--store", tmp_path / "s", "--encoder", "mini")
    assert (ran.code, ran.out) == (0, f"{tmp_path / 's'}: {result}\n")
    printed = " ".join(ran.err.split())
    assert all(f"v0: {text}" in printed for text in result.problems["v0"])


def test_a_damaged_history_is_mended_as_verify_says(dejacue, tmp_path, videos) -> None:
    manifest = write_csv(tmp_path / "m.jsonl", json.dumps(row_of(videos[0])))
    folder = tmp_path / "s"
    words = ("ingest", manifest, "--store", folder, "--encoder", "mini")
    assert dejacue(*words).code == 0
    with _file.transaction(folder) as now:
        now.execute("UPDATE features SET rows = zeroblob(length(rows))")
    ran = dejacue("store", "verify", folder)
    remedy = "remove it with dejacue store rm, then add or ingest it again"
    assert (ran.code, remedy in " ".join(ran.out.split())) == (1, True)
    assert dejacue("store", "rm", folder, "v0").code == 0
    ran = dejacue(*words)
    added = ": 1 added, 1 of them with problems\n"  # mini does not know such pictures
    assert (ran.out.endswith(added), "1 video, " in ran.err) == (True, True)
    assert dejacue("store", "verify", folder).code == 0


def test_encode_adds_to_a_store(dejacue, tmp_path, videos, monkeypatch) -> None:
    video, masks = videos[0]["video"], videos[0]["masks"]
    words = ("encode", video, "--masks", masks, "--object", 1, "--encoder", "mini")
    assert dejacue(*words).code == 2
    ran = dejacue(*words, "--store", tmp_path / "s")
    assert ran.code == 0, ran.err
    assert len(stored(tmp_path / "s")["v0"]) == FRAMES
    with monkeypatch.context() as patched:
        patched.setattr("dejacue.finding._encode.encode", None)  # nothing is decoded
        ran = dejacue(*words, "--store", tmp_path / "s")
        assert ran.code == 2
        assert 'already has a history "v0"; ' in ran.err
    ran = dejacue(
        *words, "--store", tmp_path / "s", "--replace", "--stride", 2, "-o", tmp_path / "x.npz"
    )
    assert ran.code == 0, ran.err
    assert len(stored(tmp_path / "s")["v0"]) == FRAMES // 2 == len(read_history(tmp_path / "x.npz"))
    Store.create(tmp_path / "other", encoder="siglip").close()
    ran = dejacue(*words, "--store", tmp_path / "other")
    assert (ran.code, "use one store per encoder" in ran.err) == (2, True)
