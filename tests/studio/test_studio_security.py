"""Who may use the studio: tokens, cookies, Host, Origin, headers; and what others got wrong."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import COMMAND
from helpers.errors import refused
from helpers.studio_client import HOST, TOKEN, browser_of, client_of
from helpers.studio_page import served_with

from dejacue import InputError
from dejacue.errors import extra
from dejacue.studio.security import HEADERS, Guard, kept_token
from dejacue.studio.serve import MAX_CONNECTIONS, MAX_HEAD_BYTES, bound
from dejacue.studio.workspace import LOCK, Workspace, lock, open_workspace

SCENE = "/api/findings/cup/scene"


# The token


def test_nothing_below_the_api_is_there_without_a_token(studio) -> None:
    client = client_of(studio, None)
    paths = [
        "/api/workspace",
        "/api/openapi.json",
        SCENE,
        "/api/videos/scene/scene.mp4/file",
        "/api/jobs",
        "/api/nothing",
        "/docs",
        "/openapi.json",
    ]
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "the address that the studio printed" in answer.json()["detail"]


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic abc",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer \xfc",
    ],
)
def test_a_wrong_token_is_refused(studio, authorization) -> None:
    client = client_of(studio, None)
    headers = {"authorization": authorization.encode("latin-1")}
    assert client.get(SCENE, headers=headers).status_code == 401
    if authorization != TOKEN:  # which is right in an address, without "Bearer"
        assert client.get("/", params={"token": authorization}).status_code == 401
    assert client.get(SCENE).status_code == 401


def test_the_token_in_the_first_address_becomes_a_cookie(studio) -> None:
    client = client_of(studio, None)
    answer = client.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("dejacue-studio-8765=")
    for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert part in cookie
    assert client.get(SCENE).status_code == 200


def test_a_stale_token_is_a_page_and_no_hindrance_beside_the_cookie(studio) -> None:
    stale = {"params": {"token": "x" * 43}, "follow_redirects": False}
    answer = client_of(studio, None).get("/", **stale)
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert "Open the address that the studio printed" in answer.text
    assert browser_of(studio).get("/", **stale).headers["location"] == "/"


@pytest.mark.parametrize("cookie", ["", "x" * 43, TOKEN[:-1], f"{TOKEN}x", f'"{TOKEN}"'])
def test_another_cookie_is_worth_nothing(studio, cookie) -> None:
    headers = {"cookie": f"dejacue-studio-8765={cookie}", "origin": HOST}
    assert client_of(studio, None).get(SCENE, headers=headers).status_code == 401


def test_the_token_survives_a_restart_in_a_private_file(tmp_path) -> None:
    path = tmp_path / "token"
    first = kept_token(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert kept_token(path) == first
    path.chmod(0o644)  # others have read it
    second = kept_token(path)
    assert second != first
    assert path.stat().st_mode & 0o777 == 0o600
    renewed = kept_token(path, renew=True)
    assert renewed != second
    assert kept_token(path) == renewed
    for damaged in ("", "x" * 42, f"{renewed}\n", "é" * 43):
        path.write_text(damaged)
        assert len(kept_token(path)) == 43
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x" * 43)
    elsewhere.chmod(0o600)
    path.unlink()
    path.symlink_to(elsewhere)
    assert kept_token(path) != "x" * 43
    assert not path.is_symlink()
    assert elsewhere.read_text() == "x" * 43


def test_cookies_of_other_programs_do_not_hide_ours(studio) -> None:
    odd = f'theme={{"a": [1, 2]}}; x; =; dejacue-studio-8765={TOKEN}; y="un\\"clear'
    answer = client_of(studio, None).get(SCENE, headers={"cookie": odd})
    assert answer.status_code == 200


def test_the_token_is_as_long_as_guessing_is_hopeless_and_compared_in_constant_time(
    studio, tmp_path, monkeypatch
) -> None:
    assert len(kept_token(tmp_path / "token")) >= 43
    compared = []
    import secrets

    compare_digest = secrets.compare_digest
    monkeypatch.setattr(
        secrets, "compare_digest", lambda a, b: compared.append(b) or compare_digest(a, b)
    )
    assert client_of(studio, "wrong").get(SCENE).status_code == 401
    assert compared == [b"wrong"]


def test_the_page_itself_needs_no_token_and_tells_nothing(studio) -> None:
    answer = client_of(studio, None).get("/")
    assert answer.status_code == 200
    assert TOKEN not in answer.text
    assert str(studio.workspace.root) not in answer.text


# Host


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "LOCALHOST"])
def test_names_of_this_machine_are_answered(studio, host) -> None:
    headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
    assert client_of(studio, None).get(SCENE, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8765",
        "10.0.0.7:8765",
        "",
        "127.0.0.1@evil.example",
        "[::2]:8765",
    ],
)
def test_a_foreign_host_is_refused_even_with_the_token(studio, host) -> None:
    for path in (SCENE, "/", f"/?token={TOKEN}"):
        answer = client_of(studio).get(path, headers={"host": host}, follow_redirects=False)
        assert answer.status_code == 400
        assert "is not this studio" in answer.json()["detail"]


def test_where_others_may_connect_addresses_are_ours_and_foreign_names_are_not(studio) -> None:
    client = client_of(studio, host="0.0.0.0")
    for host, status in (
        ("192.168.1.5:8765", 200),
        (f"{socket.gethostname()}:8765", 200),
        ("evil.example:8765", 400),
        ("localhost:8765", 200),
    ):
        assert client.get(SCENE, headers={"host": host}).status_code == status


# Origin and Sec-Fetch-Site

FOREIGN = [
    "https://evil.example",  # CVE-2024-47084: also where there is a cookie
    "null",  # CVE-2024-47165
    "http://127.0.0.1:9999",
    "http://localhost:8765",
    "https://127.0.0.1:8765",
    "http://127.0.0.1:8765.evil.example",
    "http://127.0.0.1",
    "http://evil.example/http://127.0.0.1:8765",
    "",
    # CVE-2025-5320: some look alike
    "http://127.0.0.1:8765@evil.example",
    "http://127.0.0.1:8765%00",
    "http://127.0.0.1:8765.",
    "http://127.0.0.1:87650",
    "http://localhost.evil.example:8765",
    f"{HOST}, {HOST}",
]


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_origin_is_refused_with_cookie_and_with_token(studio, origin, method) -> None:
    path = SCENE if method == "GET" else "/api/findings/cup/read"
    browser = browser_of(studio)
    answer = browser.request(method, path, json={}, headers={"origin": origin})
    assert answer.status_code == 403
    assert "Origin" in answer.json()["detail"]
    assert "access-control-allow-origin" not in answer.headers
    script = client_of(studio)
    assert script.request(method, path, json={}, headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "strange"])
def test_requests_that_another_page_makes_are_refused(studio, site) -> None:
    browser = browser_of(studio)
    assert browser.get(SCENE, headers={"sec-fetch-site": site}).status_code == 403
    del browser.headers["origin"]
    for method, path in (
        ("GET", SCENE),
        ("GET", "/api/videos/scene/scene.mp4/file"),
        ("POST", "/api/findings/cup/read"),
        ("POST", "/"),
    ):
        answer = browser.request(method, path, headers={"sec-fetch-site": site})
        assert answer.status_code == 403, (method, path)


def test_a_cookie_alone_changes_nothing_where_no_origin_is_said(studio) -> None:
    browser = browser_of(studio)
    del browser.headers["origin"]
    answer = browser.post("/api/findings/cup/read", json={})
    assert answer.status_code == 403
    assert "must say where it comes from" in answer.json()["detail"]
    assert browser.get(SCENE).status_code == 200
    same_origin = {"sec-fetch-site": "same-origin"}
    assert browser.post("/api/findings/cup/read", json={}, headers=same_origin).status_code == 200
    assert browser.post("/api/findings/cup/read", json={}, headers={"origin": HOST}).is_success


def test_no_page_is_allowed_by_cors(studio) -> None:
    browser = browser_of(studio)
    headers = {"origin": "https://evil.example", "access-control-request-method": "PUT"}
    answer = browser.options(SCENE, headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


# What went wrong elsewhere: Gradio's advisories


def test_cve_2024_1727_a_foreign_page_uploads_nothing(studio) -> None:
    data = (studio.workspace.root / "scene" / "scene.mp4").read_bytes()
    browser = browser_of(studio)
    foreign = {
        "origin": "https://evil.example",
        "sec-fetch-site": "cross-site",
        "content-type": "text/plain",
    }
    answer = browser.post("/api/uploads", params={"name": "x.mp4"}, content=data, headers=foreign)
    assert answer.status_code == 403
    assert not (studio.workspace.root / "uploads").exists()


def test_cve_2024_47872_an_uploaded_page_is_never_shown(studio) -> None:
    browser = browser_of(studio)
    for name in ("x.html", "x.svg", "x.js", "x.mp4", "x.png"):
        page = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
        assert browser.post("/api/uploads", params={"name": name}, content=page).status_code == 400
    (studio.workspace.root / "page.html").write_text("<script>alert(1)</script>")
    (studio.workspace.root / "page.mp4").write_text("<script>alert(1)</script>")
    assert browser.get("/api/videos/page.html/file").status_code == 404
    answer = browser.get("/api/videos/page.mp4/file")
    assert answer.headers["content-type"] == "video/mp4"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment")


# Headers, sizes, logs


def test_every_answer_has_the_headers_that_keep_pages_apart(studio) -> None:
    browser = browser_of(studio)
    answers = [
        browser.get("/"),
        browser.get(SCENE),
        browser.get("/api/nothing"),
        client_of(studio, None).get(SCENE),
        browser.get("/api/videos/scene/scene.mp4/file"),
        client_of(studio).get(SCENE, headers={"host": "evil.example"}),
    ]
    for answer in answers:
        for name, value in HEADERS.items():
            if name != "cache-control":
                assert answer.headers[name] == value
    policy = HEADERS["content-security-policy"]
    for part in ("default-src 'self'", "frame-ancestors 'none'", "object-src 'none'"):
        assert part in policy
    assert "unsafe" not in policy


def test_a_body_that_is_too_large_is_refused_with_and_without_its_length(studio, client) -> None:
    large = bytes(5 << 20)
    assert client.post("/api/findings/cup/read", content=large).status_code == 413
    chunked = client.post(
        "/api/findings/cup/read",
        content=iter([bytes(1 << 20)] * 9),
        headers={"content-type": "application/json"},
    )
    assert chunked.status_code == 413
    assert "at most 4 MB" in chunked.json()["detail"]
    for length in ("-1", "x", "9" * 40):
        answer = client.post("/api/findings/cup/read", headers={"content-length": length})
        assert answer.status_code == 413


def test_sentences_name_ids_and_not_places_of_the_machine(studio, client) -> None:
    (studio.workspace.root / "cup" / "finding.json").write_text("{}")
    detail = client.get(SCENE).json()["detail"]
    assert str(studio.workspace.root) not in detail
    assert detail.startswith("cup/finding.json: ")


def test_the_token_is_in_no_log(studio, caplog, capsys) -> None:
    caplog.set_level(logging.DEBUG)
    browser_of(studio)
    client_of(studio).get(SCENE)
    client_of(studio, None).get("/", params={"token": TOKEN + "x"})
    records = [r for r in caplog.records if not r.name.startswith(("httpx", "httpcore"))]
    assert TOKEN not in "".join(record.getMessage() for record in records)
    assert TOKEN not in "".join(capsys.readouterr())


def test_web_sockets_are_not_spoken(studio) -> None:
    import asyncio

    guard = Guard(None, TOKEN)
    with pytest.raises(RuntimeError, match="only HTTP"):
        asyncio.run(guard({"type": "websocket"}, None, None))


# Starting


@contextmanager
def running(root: Path, *options: str):
    """Run the command in a process of its own; yield it, the address with the token, its output."""
    choices = ["--no-browser", "--port", "0", "--encoder", "mini", *options]
    command = [*COMMAND, "studio", str(root), *choices]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "400", "TERM": "dumb"},
    )
    try:
        lines = []
        while "(Ctrl-C ends it)" not in (lines[-1] if lines else ""):
            line = process.stdout.readline()
            assert line, "".join(lines)
            lines.append(line)
        yield process, lines[-1].split()[-1], "".join(lines)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def fetched(address: str) -> dict:
    base, _, token = address.partition("?token=")
    request = urllib.request.Request(
        f"{base}api/workspace", headers={"authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def test_the_command_serves_and_a_second_one_is_told(made_workspace, dejacue) -> None:
    with running(made_workspace) as (process, address, _):
        assert fetched(address)["findings"] == ["cup"]
        port = int(address.split(":")[2].split("/")[0])
        second = dejacue("studio", made_workspace, "--no-browser", "--port", "0")
        assert second.code == 2
        assert f"is used by another studio (process {process.pid}, http://127.0.0.1:{port}/" in (
            second.err
        )
        taken = dejacue("studio", made_workspace, "--no-browser", "--port", str(port))
        assert taken.code == 2
        assert f"port {port} is in use" in taken.err
        process.send_signal(2)
        rest = process.communicate(timeout=600)[0]
        assert process.returncode == 130
        assert "token" not in rest
        assert "Traceback" not in rest
    assert not (made_workspace / LOCK).exists()


@pytest.mark.long
def test_the_lock_of_a_studio_that_was_killed_is_taken_over(made_workspace) -> None:
    with running(made_workspace) as (process, _, _):
        process.kill()
        process.wait()
        assert (made_workspace / LOCK).exists()
        with running(made_workspace) as (_, address, _):
            assert fetched(address)["findings"] == ["cup"]
    (made_workspace / LOCK).unlink()


def test_an_address_that_others_reach_is_said(made_workspace) -> None:
    with running(made_workspace, "--host", "0.0.0.0") as (_, address, output):
        assert "whoever reaches 0.0.0.0 and has the token can see the videos" in output
        token = address.partition("?")[2]
        assert re.search(f"the address is http://{socket.gethostname()}:\\d+/\\?{token}", output)
        assert address.startswith("http://127.0.0.1:")
        assert fetched(address)["findings"] == ["cup"]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            fetched(address[:-3])
    (made_workspace / LOCK).unlink(missing_ok=True)


def test_where_locks_are_not_known_the_process_is_looked_for(tmp_path, monkeypatch) -> None:
    from dejacue.studio import workspace as module

    monkeypatch.setattr(module, "fcntl", None)
    workspace = Workspace(tmp_path)
    (tmp_path / LOCK).write_text(json.dumps({"pid": os.getppid(), "url": "http://x/"}))
    with refused(tmp_path, os.getppid()), lock(workspace, ""):
        pass
    for content in ("", "{", "[]", '{"pid": "x"}', '{"pid": 99999999}'):
        (tmp_path / LOCK).write_text(content)
        with lock(workspace, ""):
            assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()


def test_what_is_opened_is_a_folder_or_videos(made_workspace, tmp_path, monkeypatch) -> None:
    video = made_workspace / "scene" / "scene.mp4"
    workspace, opened = open_workspace([video])
    assert (workspace.root, opened) == (made_workspace / "scene", ["scene.mp4"])
    monkeypatch.chdir(made_workspace)
    assert open_workspace([])[0].root == made_workspace
    masks = made_workspace / "scene" / "Annotations"
    assert open_workspace([masks])[0].root == made_workspace / "scene"
    for places, fact in (
        ([tmp_path / "nothing"], tmp_path / "nothing"),
        ([made_workspace, video], made_workspace),
        ([made_workspace / "scene" / "vocabulary.yaml"], "vocabulary.yaml"),
    ):
        with refused(fact):
            open_workspace(places)


def test_a_folder_without_rights_is_one_sentence(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(InputError, match="is not writable"):
        open_workspace([tmp_path])
    monkeypatch.undo()

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    with refused(tmp_path, "Permission denied"):
        open_workspace([tmp_path])


@pytest.mark.parametrize(
    ("host", "port", "field"),
    [
        ("127.0.0.1", 70000, "port"),
        ("no.such.host.invalid", 0, "host"),
        ("203.0.113.7", 0, "host"),
    ],
)
def test_an_address_that_cannot_be_listened_to_is_named(host, port, field) -> None:
    with refused(field, {"host": host, "port": port}[field]):
        bound(host, port)


def test_on_the_base_install_one_sentence_names_the_extra(tmp_path) -> None:
    script = """import sys
sys.modules.update(dict.fromkeys(("uvicorn", "fastapi", "starlette")))
from dejacue.cli import main
main()"""
    command = [sys.executable, "-c", script, "studio", str(tmp_path), "--no-browser"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert f"uvicorn is not installed; {extra('studio')}" in answer.stderr
    assert "Traceback" not in answer.stderr


def half_sent(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=600)
    connection.sendall(b"GET /api/workspace HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    return connection


def test_too_many_connections_are_refused_until_some_have_ended(made_workspace) -> None:
    with running(made_workspace) as (_, address, _), contextlib.ExitStack() as opened:
        port = int(address.split("/")[2].rpartition(":")[2])
        for _ in range(MAX_CONNECTIONS):
            opened.enter_context(half_sent(port))
        with pytest.raises(urllib.error.HTTPError, match="503"):
            fetched(address)
        opened.close()
        until = time.monotonic() + 600
        while True:
            with contextlib.suppress(urllib.error.HTTPError):
                assert fetched(address)["findings"] == ["cup"]
                break
            assert time.monotonic() < until
    (made_workspace / LOCK).unlink(missing_ok=True)


def test_a_head_that_never_ends_is_refused(made_workspace) -> None:
    with running(made_workspace) as (_, address, _):
        port = int(address.split("/")[2].rpartition(":")[2])
        with half_sent(port) as connection:
            connection.sendall(b"x" * 2 * MAX_HEAD_BYTES)
            assert connection.recv(100).startswith(b"HTTP/1.1 400")
        assert fetched(address)["findings"] == ["cup"]
    (made_workspace / LOCK).unlink(missing_ok=True)


def test_an_upload_that_is_aborted_leaves_no_traceback(studio, caplog) -> None:
    with served_with(studio) as port:
        connection = socket.create_connection(("127.0.0.1", port), timeout=600)
        head = f"POST /api/uploads?name=a.mp4 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: 9999\r\n\r\n"
        connection.sendall(head.encode() + b"half")
        folder = studio.workspace.root / "uploads"
        while not (folder.is_dir() and list(folder.iterdir())):
            time.sleep(0.01)
        connection.close()
        while list(folder.iterdir()):
            time.sleep(0.01)
    assert caplog.text == ""


def test_an_unknown_encoder_is_refused_before_anything_is_served(
    dejacue, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("uvicorn.Server.run", lambda *arguments, **more: None)
    options = (tmp_path, "--no-browser", "--port", "0", "--encoder")
    assert dejacue("studio", *options, "mini").code == 0
    answer = dejacue("studio", *options, "minni")
    assert answer.code == 2
    assert 'unknown encoder "minni"; did you mean "mini"?' in answer.err
    answer = dejacue("studio", *options, "mini", "--tracker", "sma2")
    assert answer.code == 2
    assert 'unknown tracker "sma2"; did you mean "sam2"?' in answer.err
