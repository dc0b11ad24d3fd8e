"""dejacue weights: models that are absent, partial, damaged or ready; a hub on loopback."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal as signals
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from helpers import COMMAND
from helpers.errors import refused
from helpers.published_model import add_smaller

from dejacue import History, InputError, Store, find, load_encoder
from dejacue.demo import write_demo
from dejacue.errors import Cancelled, MissingData
from dejacue.finding.request import Lazy
from dejacue.models import catalogue as models
from dejacue.models import weights
from dejacue.models.catalogue import catalogue, check_model, model_named
from dejacue.models.encoders import encode_vocabulary, encoder_name, sentences, siglip
from dejacue.models.encoders.siglip import ONNX_REPOSITORY
from dejacue.models.trackers import propagate as trackers
from dejacue.models.weights import Weights

COMMIT = "c" * 40
TEMPLATE = "/{repo_id}/resolve/{revision}/{filename}"


class Hub:
    """A hub with a few files; ``stops``: at this byte of a file it falls silent."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.hashes: dict[str, str] = {}
        self.stops: int | None = None
        self.closed = threading.Event()
        self.requests: list[tuple[str, str | None]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

            def do_GET(self) -> None:
                hub.answer(self, body=True)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # a client that is killed hangs up
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def put(self, path: str, data: bytes) -> None:
        self.files[path], self.hashes[path] = data, hashlib.sha256(data).hexdigest()

    def answer(self, request: BaseHTTPRequestHandler, body: bool) -> None:
        if request.path.startswith("/api/models/"):
            about = json.dumps({"id": "a/b", "sha": COMMIT, "siblings": []}).encode()
            request.send_response(200)
            request.send_header("Content-Length", str(len(about)))
            request.end_headers()
            request.wfile.write(about)
            return
        repository, _, rest = request.path.removeprefix("/").partition("/resolve/")
        path = f"{repository}/{rest.partition('/')[2]}"
        if path not in self.files:
            request.send_response(404)
            request.send_header("X-Error-Code", "EntryNotFound")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        whole, byte_range = self.files[path], request.headers.get("Range")
        first = int(byte_range.removeprefix("bytes=").split("-")[0]) if byte_range else 0
        data = whole[first:]
        if body:
            self.requests.append((path, byte_range))
        request.send_response(206 if byte_range else 200)
        request.send_header("ETag", f'"{self.hashes[path]}"')
        request.send_header("X-Repo-Commit", COMMIT)
        request.send_header("Accept-Ranges", "bytes")
        request.send_header("Content-Length", str(len(data)))
        if byte_range:
            request.send_header("Content-Range", f"bytes {first}-{len(whole) - 1}/{len(whole)}")
        request.end_headers()
        if not body:
            return
        if self.stops is not None:
            request.wfile.write(data[: max(self.stops - first, 0)])
            request.wfile.flush()
            self.closed.wait(600)
            return
        request.wfile.write(data)


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    yield hub
    hub.closed.set()
    hub.server.shutdown()
    hub.server.server_close()


@pytest.fixture
def nothing(tmp_path, monkeypatch) -> Path:
    """Set up a machine without weights; return the folder of the hub's cache."""
    monkeypatch.delenv("DEJACUE_WEIGHTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(models, "may_be_accelerated", lambda: False)
    return tmp_path / "hub"


def variables(**options: str) -> dict[str, str]:
    result = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    result |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "COLUMNS": "200"}
    result.pop("DEJACUE_WEIGHTS", None)
    return {**result, **options}


def shell(*words: str, **options: str) -> subprocess.CompletedProcess[str]:
    """Run the command in another process: the hub's address is read once."""
    return subprocess.run(
        [*COMMAND, *words],
        env=variables(**options),
        text=True,
        capture_output=True,
        timeout=600,
        check=False,
    )


# ls, path


def test_every_name_that_can_be_loaded_is_listed_with_size_and_licence(nothing, dejacue) -> None:
    from dejacue.models.detectors import zero_shot
    from dejacue.models.encoders import ENCODERS, lite
    from dejacue.models.trackers.propagate import NAMES

    names = {*ENCODERS, *NAMES, *zero_shot.REPOSITORIES} - {"siglip2:fp32", "sam2"}
    assert set(catalogue()) == names
    ran = dejacue("weights", "ls", "--json")
    listed = {model["name"]: model for model in json.loads(ran.out)}
    packaged = {"mini": "ready", "lite": "ready" if find_spec(lite.PACKAGE) else "absent"}
    assert {name: listed.pop(name)["state"] for name in packaged} == packaged
    assert {model["state"] for model in listed.values()} == {"absent"}
    assert listed["siglip2"]["megabytes"] == pytest.approx(4 * listed["siglip2:int8"]["megabytes"])
    assert {model["licence"] for model in listed.values()} == {"apache-2.0"}
    table = dejacue("weights", "ls").out
    assert all(name in table for name in listed)
    assert "about 184 MB" in table  # of sam2-small
    assert "about 3527 MB" in table  # of siglip2-large-384


def test_the_line_for_another_machine_is_exact(nothing, dejacue, monkeypatch) -> None:
    out = dejacue("weights", "ls", "sam2", "siglip2:int8").out
    assert (
        "hf download facebook/sam2.1-hiera-small config.json model.safetensors --revision main "
        "--local-dir FOLDER/facebook/sam2.1-hiera-small\n"
    ) in out
    assert (
        f"hf download {ONNX_REPOSITORY} onnx/vision_model_int8.onnx onnx/text_model_int8.onnx "
        f"--revision main --local-dir FOLDER/{ONNX_REPOSITORY}\n"
        f"hf download {siglip.REPOSITORY} tokenizer.json --revision {siglip.REVISION} "
        f"--local-dir FOLDER/{siglip.REPOSITORY}\n"
    ) in out
    monkeypatch.setenv("DEJACUE_WEIGHTS", "/my weights")
    assert "--local-dir '/my weights/google/siglip2" in catalogue()["siglip2-large"].parts[0].line()


def test_a_name_that_is_none_is_refused(dejacue) -> None:
    ran = dejacue("weights", "fetch", "siglip3")
    assert ran.code == 2
    assert 'unknown model "siglip3"; did you mean "siglip2"?' in ran.err
    assert "hf download a/b downloads them" in dejacue("weights", "ls", "hf:a/b").err


@pytest.mark.filterwarnings("ignore")
def test_states_go_from_absent_to_ready(offline, tmp_path, monkeypatch, dejacue) -> None:
    root = tmp_path / "weights"
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(root))

    def state() -> str:
        return catalogue()["siglip2"].state

    assert state() == "absent"
    shutil.copytree(offline, root)
    assert state() == "ready"
    (listed,) = json.loads(dejacue("weights", "ls", "siglip2", "--json").out)
    vision, _, tokenizer = (Path(file["path"]) for file in listed["files"])
    assert vision == root / ONNX_REPOSITORY / "onnx" / "vision_model.onnx"
    whole = tokenizer.read_bytes()
    for content in (b"junk!", b"", whole[:-1]):
        tokenizer.write_bytes(content)
        assert state() == "damaged"
        assert f"{tokenizer} (damaged)" in dejacue("weights", "ls", "siglip2").out
    tokenizer.write_bytes(whole)
    vision.write_bytes(b"")  # no hash of it is known
    assert (state(), catalogue()["siglip2:torch"].state) == ("damaged", "ready")
    vision.unlink()
    assert state() == "partial"
    assert "onnx/vision_model.onnx: missing" in dejacue("weights", "ls", "siglip2").out


# check


@pytest.mark.filterwarnings("ignore")
def test_check_compares_hashes_and_the_text_features_of_the_paper(
    offline, tmp_path, monkeypatch, dejacue
) -> None:
    root = tmp_path / "weights"
    shutil.copytree(offline, root)
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(root))
    add_smaller(root, "int8")
    monkeypatch.setenv("DEJACUE_DATA", str(tmp_path))
    catalogue()["siglip2"].fetch()  # nothing to compare with
    *_, paper = check_model(catalogue()["siglip2"])
    assert paper.startswith("siglip2: not compared with the paper's text features: the paper's rel")
    doors = [f"a door that is {state}" for state in ("open", "shut", "ajar")]
    monkeypatch.setattr(sentences, "read_sentences", lambda: doors)
    figures = {"ensemble": "9000 9000 9000"}
    monkeypatch.setattr(sentences, "FIGURES", figures)
    with refused("siglip2"):  # it is not the paper's
        catalogue()["siglip2"].fetch()
    ran = dejacue("weights", "check", "siglip2:torch")
    assert ran.code == 2
    assert "what differs is the model (rows of 32, not 768, numbers); delete its files" in ran.err
    rows = encode_vocabulary(doors, "siglip2:fp32").features
    own = " ".join(str(1e4 * cosine) for cosine in sentences.cosines(rows))
    figures["ensemble"] = own
    catalogue()["siglip2"].fetch()
    *hashes, paper = check_model(catalogue()["siglip2"])
    assert [line.rpartition(", ")[2] for line in hashes] == [
        "no known hash",
        "no known hash",
        "matches the published one",
    ]
    assert paper.endswith("differ from the published ones by at most 0.0000 (allowed: 0.0020)")
    *_, smaller, paper = check_model(catalogue()["siglip2:int8"])
    assert smaller.startswith("siglip2:int8: 1 − cosine with fp32 at most ")
    assert all(0 < float(error) < 0.05 for error in re.findall(r"0\.\d+", smaller))
    turned = 1 - float(re.findall(r"0\.\d+", smaller)[1])
    allowed = float(re.findall(r"0\.\d+", paper)[1])
    assert allowed == pytest.approx(0.002 + 2 * np.sqrt(1 - turned**2), rel=0.1)
    (root / ONNX_REPOSITORY / "onnx" / "text_model.onnx").rename(tmp_path / "away")
    *_, paper = check_model(catalogue()["siglip2:int8"])
    assert paper.startswith("siglip2:int8: not compared with the paper's text features")
    (tmp_path / "away").rename(root / ONNX_REPOSITORY / "onnx" / "text_model.onnx")
    ran = dejacue("weights", "check", "siglip2", "siglip2:torch", "mini")
    assert ran.code == 0
    for name in ("siglip2", "siglip2:torch"):
        assert f"{name}: the cosines of 3 sentences of the paper differ from" in ran.out
    model = root / siglip.REPOSITORY / "model.safetensors"
    bent = bytearray(model.read_bytes())
    bent[-1] ^= 1
    model.write_bytes(bent)
    ran = dejacue("weights", "check", "siglip2:torch")
    assert ran.code == 2
    assert "model.safetensors: is not the published file (its sha256 differs)" in ran.err
    assert dejacue("weights", "check", "siglip2-large").code == 1


def test_a_whole_file_that_is_no_model_is_not_ready_for_check(
    offline, tmp_path, monkeypatch, dejacue
) -> None:
    # no hash of it is known, so that it is taken for whole; loading tells
    root = tmp_path / "weights"
    shutil.copytree(offline, root)
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(root))
    (root / ONNX_REPOSITORY / "onnx" / "text_model.onnx").write_bytes(b"junk!")
    assert catalogue()["siglip2"].state == "ready"
    ran = dejacue("weights", "check", "siglip2")
    assert ran.code == 2
    assert "text_model.onnx: is not a usable ONNX model" in ran.err


def test_the_hash_that_the_hub_gave_is_known_in_its_cache_and_in_ones_own_folder(
    nothing, tmp_path, monkeypatch
) -> None:
    files = Weights("a/b", "main", {"onnx/x.onnx": None})
    digest = hashlib.sha256(b"data").hexdigest()
    blob = tmp_path / "hub" / "models--a--b" / "blobs" / digest
    path = tmp_path / "hub" / "models--a--b" / "snapshots" / COMMIT / "onnx" / "x.onnx"
    for folder in (blob.parent, path.parent):
        folder.mkdir(parents=True)
    blob.write_bytes(b"data")
    path.symlink_to(blob)
    assert files.expected("onnx/x.onnx", path) == digest
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path / "user"))
    folder = tmp_path / "user" / "a" / "b"
    path = folder / "onnx" / "x.onnx"
    note = folder / ".cache" / "huggingface" / "download" / "onnx" / "x.onnx.metadata"
    for place in (path, note):
        place.parent.mkdir(parents=True)
    path.write_bytes(b"other")
    assert files.expected("onnx/x.onnx", path) is None
    note.write_text(f"{COMMIT}\n{digest}\n1.5\n")
    assert files.expected("onnx/x.onnx", path) == digest
    with refused(path):
        files.check("onnx/x.onnx", path)
    path.write_bytes(b"data")
    files.check("onnx/x.onnx", path)


# fetch


def put_tracker(hub: Hub) -> bytes:
    """Put the files of sam2-tiny on the hub, as far as their hashes go."""
    data = np.random.default_rng(0).integers(0, 256, 25_000_000, np.uint8).tobytes()
    hub.put("facebook/sam2.1-hiera-tiny/config.json", b"{}")
    hub.put("facebook/sam2.1-hiera-tiny/model.safetensors", data)
    return data


@pytest.mark.long
@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize("signal", ["SIGKILL", "SIGINT"])
def test_a_fetch_that_was_stopped_goes_on_and_a_file_is_whole_or_not_there(
    hub, tmp_path, in_folder, signal
) -> None:
    whole = put_tracker(hub)
    place = {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    if in_folder:
        place["DEJACUE_WEIGHTS"] = str(tmp_path / "weights")

    def downloaded_bytes() -> int:
        return sum(path.stat().st_size for path in tmp_path.rglob("*.incomplete"))

    hub.stops = 12_000_000  # the hub's client writes 10 MB at a time
    stopped = subprocess.Popen([*COMMAND, "weights", "fetch", "sam2-tiny"], env=variables(**place))
    until = time.monotonic() + 600
    while downloaded_bytes() < 10_000_000:  # smaller files were begun before
        assert time.monotonic() < until
        hub.closed.wait(0.05)
    stopped.send_signal(getattr(signals, signal))
    assert stopped.wait(600) == (-9 if signal == "SIGKILL" else 130)
    assert not list(tmp_path.rglob("model.safetensors"))
    hub.stops = None
    hub.requests.clear()
    again = shell("weights", "fetch", "sam2-tiny", **place)
    assert again.returncode == 0, again.stderr
    assert {path.rpartition("/")[2] for path, _ in hub.requests} == {"model.safetensors"}
    (listed,) = json.loads(shell("weights", "ls", "sam2-tiny", "--json", **place).stdout)
    path = Path(listed["files"][1]["path"])
    assert path.read_bytes() == whole
    assert (tmp_path / "weights" in path.parents) == in_folder
    hub.requests.clear()
    assert "already installed" in shell("weights", "fetch", "sam2-tiny", **place).stdout
    assert hub.requests == []
    path.resolve().write_bytes(whole[:-5])
    assert shell("weights", "fetch", "sam2-tiny", **place).returncode == 0
    assert path.read_bytes() == whole


def test_a_download_reports_its_bytes_and_can_be_stopped(hub, nothing, monkeypatch) -> None:
    from huggingface_hub import constants

    data = bytes(1000) * 90
    hub.put("a/b/x", data)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.address + TEMPLATE)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 30_000)
    reports = []

    def stop_in_the_middle(stage, done, total=None, note="") -> None:
        reports.append((stage, done, total, note))
        if done == 60_000 and len(reports) == 2:
            raise Cancelled("stopped")

    files = Weights("a/b", "main", {"x": None})
    with pytest.raises(Cancelled):
        weights.fetch(files, complete=True, progress=stop_in_the_middle)
    assert files.here() == {"x": None}
    paths = weights.fetch(files, complete=True, progress=stop_in_the_middle)
    assert paths["x"].read_bytes() == data
    assert reports[:2] == [("download", n, len(data), "x") for n in (30_000, 60_000)]
    assert reports[-1] == ("download", len(data), len(data), "x")


def test_a_download_with_another_hash_is_refused(hub, tmp_path) -> None:
    put_tracker(hub)
    hub.hashes["facebook/sam2.1-hiera-tiny/model.safetensors"] = "0" * 64
    ran = shell(
        "weights",
        "fetch",
        "sam2-tiny",
        HF_ENDPOINT=hub.address,
        HF_HOME=str(tmp_path / "home"),
        XDG_CACHE_HOME=str(tmp_path / "c"),
    )
    assert ran.returncode == 2
    assert "the sha256 of model.safetensors is not the published one, so the down" in ran.stderr
    assert not list(tmp_path.rglob("*.safetensors"))
    assert not list(tmp_path.rglob("*.incomplete"))


@pytest.fixture
def web(tmp_path, monkeypatch) -> Iterator[tuple[Weights, dict[str, object]]]:
    """Files at an address; what a server answers there may be changed."""
    content: dict[str, object] = {"model.onnx": b"model" * 90_000}
    known = {"model.onnx": hashlib.sha256(b"model" * 90_000).hexdigest()}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DEJACUE_WEIGHTS", raising=False)
    files = weights.WebWeights("example.org/models", "v1", known)

    class Answer(io.BytesIO):
        def __init__(self, data: bytes) -> None:
            super().__init__(data)
            self.headers = {"Content-Length": str(len(data))}

        def read(self, size: int = -1) -> bytes:
            if self.getvalue() == b"stops" and self.tell():
                raise TimeoutError("no route to host")
            return super().read(size)

    def urlopen(address, timeout):
        assert address == "https://example.org/models/v1/model.onnx"
        if isinstance(error := content["model.onnx"], Exception):
            raise error
        return Answer(error)

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return files, content


def test_a_file_at_an_address_is_fetched_with_its_hash_and_is_whole_or_not_there(
    web, tmp_path, monkeypatch
) -> None:
    files, content = web
    whole, reports = content["model.onnx"], []
    place = tmp_path / "cache" / "dejacue" / "weights" / "example.org" / "models" / "model.onnx"
    for wrong in (whole[:-1], whole + b"?", b""):
        content["model.onnx"] = wrong
        with refused("sha256"):
            weights.fetch(files)
    for stop in (KeyboardInterrupt, Cancelled("stopped")):
        content["model.onnx"] = whole

        def interrupted(*_: object, stop=stop) -> None:
            raise stop

        with pytest.raises((KeyboardInterrupt, Cancelled)):
            weights.fetch(files, progress=interrupted)
    for broken in (URLError("no route to host"), b"stops"):
        content["model.onnx"] = broken
        with refused("example.org/models", kind=MissingData) as caught:
            weights.fetch(files)
        assert "no route to host" in str(caught.value)
    assert " could not be downloaded (no route to host); on a machine" in str(caught.value)
    address = "https://example.org/models/v1/model.onnx"
    curl = "curl --location --create-dirs --output FOLDER/example.org/models/model.onnx"
    assert f"run: {curl} {address}; then copy FOLDER here" in str(caught.value)
    assert not place.parent.exists()  # nothing is left behind
    content["model.onnx"] = whole
    assert weights.fetch(files, progress=lambda *report: reports.append(report)) == {
        "model.onnx": place
    }
    assert reports[-1] == ("download", len(whole), len(whole), "model.onnx")
    content["model.onnx"] = OSError("asked again")
    assert weights.fetch(files) == {"model.onnx": place}
    place.write_bytes(b"?")
    assert files.damaged() == [place]
    content["model.onnx"] = whole
    assert weights.fetch(files, complete=True)["model.onnx"].read_bytes() == whole
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path / "own"))
    own = tmp_path / "own" / "example.org" / "models" / "model.onnx"
    assert weights.fetch(files) == {"model.onnx": own}


def test_without_a_connection_it_fails_and_says_what_to_do(tmp_path) -> None:
    ran = shell(
        "weights", "fetch", "siglip2", HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path)
    )
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) <= 3
    assert "siglip2 could not be downloaded (no connection to 127.0.0.1)" in ran.stderr
    assert "hf download" in ran.stderr
    assert "set DEJACUE_WEIGHTS to it" in ran.stderr
    assert len(ran.stderr.splitlines()[-1]) < 610


# names and identities


@pytest.mark.filterwarnings("ignore")
def test_rows_of_other_precisions_have_names_and_identities_of_their_own(
    offline, tmp_path, monkeypatch
) -> None:
    root = tmp_path / "weights"
    shutil.copytree(offline, root)
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(root))
    add_smaller(root, "int8")
    plain, small = load_encoder("siglip2:fp32"), load_encoder("siglip2:int8")
    assert (plain.name, plain.identity) == ("siglip2", siglip.IDENTITY)
    assert (small.name, small.identity) == ("siglip2:int8", f"{siglip.IDENTITY}:int8")
    assert load_encoder("siglip2", backend="onnx", precision="int8").identity == small.identity
    assert load_encoder("siglip2:torch").identity == plain.identity
    image = [np.zeros((9, 9, 3), np.uint8)]
    histories = [
        History(encoder.encode_images(image), [0], name, encoder.identity)
        for name, encoder in (("a", plain), ("b", small))
    ]
    assert [encoder_name(history) for history in histories] == ["siglip2", "siglip2:int8"]
    with Store.create(tmp_path / "store") as store:
        store.add(histories[0])
        with pytest.raises(InputError, match="encoder"):
            store.add(histories[1])
    rows = small.encode_images(np.random.default_rng(0).integers(0, 256, (12, 9, 9, 3), np.uint8))
    history = History(rows, range(12), "c", small.identity)
    words = {"a": ["cup"], "b": ["empty cup"]}
    assert find(history, words).vocabulary.encoder == small.identity
    assert find(history, words, encoder="siglip2:int8").vocabulary.encoder == small.identity
    options = {"backend": "onnx", "precision": "int8"}
    assert find(history, words, encoder=Lazy("siglip2", options))
    for other in ("siglip2", "siglip2:torch", "siglip2:fp16"):
        with pytest.raises(InputError, match=f"siglip2:int8, not with {other}"):
            find(history, words, encoder=other)
    with refused("precision", "fp16"):
        load_encoder("siglip2:int8", precision="fp16")
    with refused("backend", "torch"):
        load_encoder("siglip2:int8", backend="torch")


# without weights


def test_without_weights_and_a_name_nothing_is_decoded(
    nothing, tmp_path, monkeypatch, dejacue
) -> None:
    from dejacue.models import weights
    from dejacue.video import video

    dejacue("demo", "-o", tmp_path / "demo")
    scene = tmp_path / "demo" / "scene"
    scene_words = [scene / "scene.mp4", "--masks", scene / "Annotations", "--object", "1"]
    words = ["-v", scene / "vocabulary.yaml"]
    manifest = tmp_path / "all.csv"
    manifest.write_text(f"video,masks,objects\n{scene / 'scene.mp4'},{scene / 'Annotations'},1\n")

    def decoded(*_: object) -> None:
        raise AssertionError("a frame was decoded")

    monkeypatch.setattr(video.Video, "__iter__", decoded)
    monkeypatch.setattr(weights, "ask_hub", decoded)  # nor is the hub looked for
    for command in (
        ["find", *scene_words, *words],
        ["encode", *scene_words, "-o", tmp_path / "x.npz"],
        ["ingest", manifest, "--store", tmp_path / "store"],
        ["live", *scene_words, *words],
        ["words", scene / "vocabulary.yaml"],
    ):
        ran = dejacue(*command)
        assert ran.code == 1
        assert "dejacue weights fetch siglip2 (about 1501 MB, apache-2.0)" in ran.err
        assert "mini only knows the rendered scenes" in ran.err
        assert len(ran.err.splitlines()[-1]) < 610
    assert not (tmp_path / "store").exists()
    with pytest.raises(MissingData, match="the default encoder"):
        find(scene / "scene.mp4", scene / "vocabulary.yaml", masks=scene / "Annotations", objects=1)
    ran = dejacue("find", *scene_words, *words, "--set", "precision=int8")
    assert "weights fetch siglip2:int8 (about 375 MB" in ran.err
    ran = dejacue("find", *scene_words, *words, "--set", "backend=torch")
    assert "fetch siglip2:torch" in ran.err


def test_what_is_damaged_is_named_before_anything_is_decoded(nothing, tmp_path, monkeypatch):
    root = tmp_path / "weights"
    file = root / siglip.REPOSITORY / "tokenizer.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"junk!")
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(root))
    with pytest.raises(MissingData, match=r"damaged .*tokenizer\.json"):
        models.check_models(encoder=models.default_encoder())
    (root / ONNX_REPOSITORY / "onnx").mkdir(parents=True)
    (root / ONNX_REPOSITORY / "onnx" / "vision_model.onnx").write_bytes(b"?")
    file.unlink()
    with pytest.raises(MissingData, match="partial"):
        models.check_models(encoder=models.default_encoder())
    assert model_named("sam2").name == "sam2-small"


def test_on_a_gpu_the_files_of_torch_are_needed(nothing, monkeypatch) -> None:
    monkeypatch.setattr(models, "may_be_accelerated", lambda: True)
    with pytest.raises(MissingData, match=r"weights fetch siglip2:torch \("):
        models.check_models(encoder=models.default_encoder())
    with pytest.raises(MissingData, match="weights fetch siglip2 "):
        models.check_models(encoder=models.default_encoder(backend="onnx"))


def test_the_default_tracker_is_not_fetched_unasked(nothing, monkeypatch) -> None:
    monkeypatch.setattr(trackers, "default_tracker", lambda: "sam2")
    with pytest.raises(MissingData, match=r"fetch sam2-small .*fixed box"):
        trackers.load_tracker()


def test_all_that_a_search_by_name_lacks_is_said_at_once(nothing, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("dejacue.finding.locate.default_tracker", lambda: "sam2")
    scene = write_demo(tmp_path / "cup")
    with pytest.raises(MissingData) as missing:
        find(scene / "scene.mp4", scene / "vocabulary.yaml")
    message = str(missing.value)
    assert "weights fetch siglip2 llmdet sam2-small (" in message
    for part in ("about 1501 MB", "siglip2:int8", "lite", "box"):
        assert part in message
