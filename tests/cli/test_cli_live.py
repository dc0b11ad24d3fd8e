"""``dejacue live``: lines, the strip, streams that end, stall and run backwards, Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from rich.console import Console

from dejacue import Finding, find, open_video
from dejacue.cli import live as command
from dejacue.models.encoders import Encoder
from dejacue.models.encoders.mini import Mini
from dejacue.records import Interval
from dejacue.records.update import Update
from dejacue.video import stream
from dejacue.video.video import Video
from dejacue_paper.data.rendered import render, write_scene


@pytest.fixture
def live(dejacue, scene, tmp_path, monkeypatch):
    """Run ``dejacue live`` on the scene, in an empty folder; ``mini`` believes boxes, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Mini, "knows_pictures", staticmethod(Encoder.knows_pictures))
    where = ("--masks", scene / "Annotations", "--object", 1)

    def run(*arguments: object, source: object = scene / "scene.mp4", where=where):
        return dejacue(
            "live", source, "-v", scene / "vocabulary.yaml", "--encoder", "mini", *where, *arguments
        )

    return run


BOX = ("--box", "20,20,120,120")


@contextmanager
def served(data: bytes, size: int | None = None, hang: bool = False):
    """Serve data by HTTP: promise ``size`` bytes, send these, then close or hang; yield the URL."""
    size = len(data) if size is None else size
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def answer() -> None:
            try:
                while not done.is_set():
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                        connection.sendall(data)
                        if hang:
                            done.wait(600)
            except OSError:
                pass  # the other side has gone, or the test is over

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://user:secret@127.0.0.1:{server.getsockname()[1]}/live.ts"
        done.set()
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@pytest.fixture(scope="module")
def transport_stream(scene) -> bytes:
    """Return the scene as a camera on the network sends it."""
    import av

    out = io.BytesIO()
    with av.open(scene / "scene.mp4") as video, av.open(out, "w", format="mpegts") as copied:
        source = video.streams.video[0]
        copy = copied.add_stream_from_template(source)
        for packet in video.demux(source):
            if packet.dts is not None:
                packet.stream = copy
                copied.mux(packet)
    return out.getvalue()


# Lines


def test_every_frame_is_a_line_of_json_and_the_last_is_what_locate_finds(live, dejacue, scene):
    ran = live("--jsonl")
    assert ran.code == 0
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert [line["frame"] for line in lines[:60]] == list(range(60))
    assert {line["state"] for line in lines[30:60]} <= {"full", "empty", None}
    assert lines[0]["waits"] > 0
    assert sum(len(line.get("closed", ())) for line in lines) >= 2
    words = ("-v", scene / "vocabulary.yaml", "--encoder", "mini", "-f", "json")
    where = ("--masks", scene / "Annotations", "--object", 1)
    result = dejacue("find", scene / "scene.mp4", *words, *where)
    offline = json.loads(result.out)
    windows = [
        [(m["state"], m["start"], m["end"], m["start_s"]) for m in timeline["intervals"]]
        for timeline in (lines[-1]["timeline"], offline)
    ]
    assert windows[0] == windows[1]
    assert "note: mini only knows" in ran.err


def test_elsewhere_than_on_a_terminal_every_change_is_a_line(live):
    ran = live()
    assert ran.code == 0
    assert "frame " in ran.out
    assert ran.out.count("closed: ") >= 2
    assert "trust" in ran.out, "the table stands at the end"


def test_the_folder_holds_what_locate_writes(live, tmp_path):
    ran = live("-o", "out")
    assert ran.code == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.html", "finding.json", "timeline.vtt", "scene.history.npz"} <= names
    finding = Finding.read(tmp_path / "out")
    assert len(finding.history) == 60
    assert finding.thumbnails
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/jpeg") >= 12
    assert "report: out/report.html" in ran.err


@pytest.mark.parametrize("where", [BOX, ("--whole",)])
def test_the_object_may_be_in_a_box_or_the_whole_picture(live, where):
    ran = live("--jsonl", where=where)
    assert ran.code == 0
    assert json.loads(ran.out.splitlines()[-1])["timeline"]["intervals"]


def test_a_finding_in_which_frames_were_named_teaches_it(live, dejacue, scene, tmp_path):
    """As ``find --like`` does, and its folder may be given as the states themselves."""
    named = find(
        scene / "scene.mp4",
        examples={"empty": 50, "full": 10},
        masks=scene / "Annotations",
        objects=1,
        encoder="mini",
    )
    named.save(tmp_path / "taught")
    where = ("--masks", scene / "Annotations", "--object", 1, "--like", tmp_path / "taught")
    offline = json.loads(dejacue("find", scene / "scene.mp4", *where, "-f", "json").out)
    ran = dejacue("live", scene / "scene.mp4", *where, "--jsonl")
    states = ("--states", tmp_path / "taught")
    again = dejacue("live", scene / "scene.mp4", *where[:4], *states, "--jsonl")
    assert ran.code == again.code == 0, ran.err
    found = json.loads(ran.out.splitlines()[-1])["timeline"]["intervals"]
    assert again.out == ran.out
    windows = [
        [(m["state"], m["start"], m["end"]) for m in some] for some in (found, offline["intervals"])
    ]
    assert windows[0] == windows[1]
    nothing = find(scene / "scene.mp4", scene / "vocabulary.yaml", whole=True, encoder="mini")
    nothing.save(tmp_path / "nothing")
    ran = dejacue("live", scene / "scene.mp4", "--whole", "--states", tmp_path / "nothing")
    assert ran.code == 2
    assert "with confirmed frames" in ran.err


def test_the_strip_shows_states_evidence_and_the_last_windows():
    update = Update(120, 4.8, "filled", 100, {"empty": -1.25, "filled": 3.5})
    closed = [Interval("empty", 0, 99, 9.0, 0.0, 4.0)]
    screen = Console(width=80, file=io.StringIO(), record=True)
    screen.print(command.strip(update, ["empty", "filled"], closed))
    text = screen.export_text()
    assert "frame 120 · 4.80 s · filled (since frame 100)" in text
    assert f"filled {'█' * command.BAR} +3.50" in text
    assert "-1.25" in text
    assert "closed: empty, frames 0 – 99 (0.00 – 4.00 s)" in text
    waiting = command.strip(structs.replace(update, state=None, evidence={}, waits=8), ["a"], [])
    gone = command.strip(structs.replace(update, state=None, evidence={}), ["a"], [])
    screen.print(waiting, gone)
    text = screen.export_text()
    assert "no answer for 8 more frames" in text
    assert "not seen" in text


def test_what_is_withdrawn_is_a_line_and_leaves_the_strip(capsys, monkeypatch):
    wrong, right = Interval("empty", 0, 99, 9.0), Interval("empty", 0, 80, 9.0)
    updates = [Update(120, closed=(wrong,)), Update(140, closed=(right,), withdrawn=(wrong,))]
    show = command._print_changes()
    for update in updates:
        show(update)
    assert capsys.readouterr().out.splitlines() == [
        "closed: empty, frames 0 – 99",
        "withdrawn: empty, frames 0 – 99",
        "closed: empty, frames 0 – 80",
    ]
    screen = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(command, "console", lambda: screen)
    with command._on_screen(["empty"]) as show:
        show(updates[0])
        screen.file.truncate(0)
        show(updates[1])
    assert "frames 0 – 80" in screen.file.getvalue()
    assert "frames 0 – 99" not in screen.file.getvalue()
    line = updates[1].to_dict()
    assert [row["end"] for row in (*line["withdrawn"], *line["closed"])] == [99, 80]


def test_on_a_terminal_the_strip_is_drawn(live, monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(command, "console", lambda: screen)
    assert live().code == 0
    assert "since frame" in screen.file.getvalue()
    assert "closed: " in screen.file.getvalue()


def test_a_file_may_be_played_at_its_own_rate(live, monkeypatch):
    clock = [100.0]
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    real = Mini.encode_images

    def encode(self, crops):
        clock[0] += taken
        return real(self, crops)

    monkeypatch.setattr(Mini, "encode_images", encode)
    monkeypatch.setattr(command.time, "sleep", sleep)
    monkeypatch.setattr(command.time, "monotonic", lambda: clock[0])
    taken = 0.01
    ran = live("--realtime", "--jsonl")
    assert ran.code == 0
    assert "behind" not in ran.err
    assert sum(slept) == pytest.approx(59 / 12 - 59 * taken, abs=0.01)
    taken = 0.2
    ran = live("--realtime", "--jsonl")
    late = 59 * (0.2 - 1 / 12)
    assert f"the reading ended {late:.1f} s behind" in ran.err


def test_images_without_a_rate_cannot_be_played_at_it(live, scene, tmp_path):
    write_scene(tmp_path / "s", render(11, family="cup", frames=24), video=False)
    ran = live(
        "--realtime",
        source=tmp_path / "s" / "JPEGImages",
        where=("--masks", tmp_path / "s" / "Annotations"),
    )
    assert ran.code == 2
    assert "has no timestamps to play by; for images, give --set rate=25" in ran.err


# How it ends


def test_ctrl_c_ends_it_with_what_came_before(live, monkeypatch, tmp_path):
    real = Mini.encode_images
    calls = []

    def press(self, crops):
        calls.append(1)
        if len(calls) == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, crops)

    monkeypatch.setattr(Mini, "encode_images", press)
    before = signal.getsignal(signal.SIGINT)
    ran = live("--jsonl", "-o", "out")
    assert ran.code == 0
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert lines[-1]["timeline"]["intervals"]
    assert lines[-2]["closed"][-1]["end"] == 39
    assert len(Finding.read(tmp_path / "out").history) == 40
    assert signal.getsignal(signal.SIGINT) is before


def test_times_that_run_backwards_end_it_with_a_sentence(live, monkeypatch):
    real = Video.__iter__

    def looped(self):
        for frame in real(self):
            yield frame if frame.index < 50 else replace(frame, time_s=frame.time_s - 3)

    monkeypatch.setattr(Video, "__iter__", looped)
    ran = live("--jsonl")
    assert ran.code == 0
    assert "frame 50: times run backwards" in ran.err
    notes = json.loads(ran.out.splitlines()[-1])["timeline"]["notes"]
    assert "run backwards" in notes[0]["text"]


def test_an_object_that_is_never_seen_is_said_in_one_sentence(live):
    ran = live("-o", "out", where=("--box", "4000,4000,4100,4100"))
    assert ran.code == 2
    assert "outside the picture" in ran.err
    assert not Path("out").exists()


# Streams


def test_a_stream_is_read_to_its_end(live, transport_stream, tmp_path):
    with served(transport_stream) as address:
        ran = live("--jsonl", "--horizon", 3, "-o", "out", source=address, where=BOX)
    assert ran.code == 0, ran.err
    last = json.loads(ran.out.splitlines()[-1])["timeline"]
    assert last["history"] == "stream"
    kept = "only the last 36 of 60 observed frames are kept"
    assert any(kept in note["text"] for note in last["notes"])
    assert "was interrupted" not in ran.err
    written = [path.read_bytes() for path in (tmp_path / "out").iterdir()]
    assert len(written) >= 9
    assert not any(b"secret" in content for content in written)
    assert "secret" not in ran.out + ran.err


def test_a_stream_that_stalls_ends_with_a_sentence(live, transport_stream):
    size = len(transport_stream)
    with served(transport_stream[: size * 3 // 4], size, hang=True) as address:
        ran = live("--jsonl", "--timeout", 4, source=address, where=BOX)
    assert ran.code == 0, ran.err
    assert "no frame arrived for 4 s, so the stream was taken to have ended" in ran.err
    assert "secret" not in ran.out + ran.err
    assert json.loads(ran.out.splitlines()[-1])["timeline"]["intervals"]


def test_a_stream_that_breaks_off_ends_with_a_sentence(live, transport_stream):
    size = len(transport_stream)
    damaged = transport_stream[: size // 3] + bytes(5 * 188) + transport_stream[size // 3 :]
    with served(damaged, 2 * size) as address:
        ran = live("--jsonl", source=address, where=BOX)
    assert ran.code == 0, ran.err
    assert "the stream was interrupted" in ran.err
    assert len(ran.out.splitlines()) > 50


def test_a_stream_that_says_nothing_is_named(live):
    with served(b"", 1000, hang=True) as address:
        ran = live("--timeout", 0.3, source=address, where=BOX)
    assert ran.code == 2
    assert "does not answer within 0.3 s" in ran.err
    assert "secret" not in ran.err


@pytest.mark.parametrize(
    ("source", "more", "sentence"),
    [
        ("http://127.0.0.1:9/x", BOX, "http://127.0.0.1:9/x: cannot be opened"),
        ("camera:0", ("--masks", "x"), "--masks needs a video file; for a stream give --box"),
        ("camera:front", BOX, "camera:front: a camera has a number, such as camera:0"),
        ("camera:57", BOX, "camera:57: cannot be opened"),
        ("rtsp://127.0.0.1/x", (*BOX, "--timeout", "0"), "must be more than 0 seconds"),
        ("nowhere.mp4", BOX, "nowhere.mp4: no such file"),
    ],
)
def test_sources_that_cannot_be_used(live, monkeypatch, source, more, sentence):
    monkeypatch.setattr(stream.sys, "platform", "linux")
    ran = live(source=source, where=more)
    assert ran.code == 2
    assert sentence in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ((), "show where the object is: either --box"),
        ((*BOX, "--masks", "x"), "either --box"),
        ((*BOX, "--whole"), "either --box"),
        ((*BOX, "--like", "nowhere"), "nowhere"),
        (("--box", "1,2,3"), "1,2,3"),
        (("--box", "1,2,30,40@9"), "leave @FRAME out"),
        ((*BOX, "--tracker", "sma2"), 'did you mean "sam2"'),
        ((*BOX, "--delay", "-1"), "delay must be 0 or more"),
        ((*BOX, "--horizon", "0"), "horizon must be more than 0"),
        ((*BOX, "--calibrate", "no.npz"), "no.npz"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(live, where, sentence):
    ran = live(where=where)
    assert ran.code == 2
    assert sentence in ran.err
    assert len(ran.err.splitlines()) == 1


def test_of_several_objects_one_is_chosen(live, scene):
    ran = live(where=("--masks", scene / "Annotations", "--objects", "all"))
    assert ran.code == 2
    assert "choose it with --object" in ran.err


def test_an_address_shows_no_password():
    video = stream.open_stream("rtsp://me:pass@host/cam?x=1")
    assert video.path == "rtsp://host/cam?x=1"
    assert stream.is_stream("camera:0")
    assert not stream.is_stream("C:/video.mp4")
    assert not stream.is_stream("video.mp4")


def test_a_camera_is_a_device_by_number(monkeypatch):
    for platform, device in (("linux", ("v4l2", "/dev/video1")), ("darwin", ("avfoundation", "1"))):
        monkeypatch.setattr(stream.sys, "platform", platform)
        assert stream._device("1") == device
    monkeypatch.setattr(stream.sys, "platform", "win32")
    with pytest.raises(Exception, match="only supported on Linux and macOS"):
        stream._device("1")


def test_masks_are_pixels_of_the_frame(scene):
    video = open_video(scene / "scene.mp4")
    mask_of = command.masks_from_files(video, scene / "Annotations", "auto", "1")
    frame = next(iter(video))
    mask = mask_of(frame)
    assert mask is not None
    assert mask.shape == frame.image.shape[:2]
    assert mask.dtype == np.bool_
