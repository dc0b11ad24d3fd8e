"""Archives whose members lead elsewhere: what is read lies in its folder, or all is refused."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from random import Random

import pytest
from helpers import altered

from dejacue.files import remote

STEPS = ("..", ".", "", "m", "x", "/", "//", "\\..", "C:", "~", "\0", "a" * 300, "\u2025", " ..")


def member(rng: Random) -> str:
    """Return a path that often escapes."""
    if rng.random() < 0.1:
        return altered.word(rng)[:200] or "x"
    return "/".join(["m", *(rng.choice(STEPS) for _ in range(rng.randint(1, 6))), "x"])


def pack(rng: Random, path: Path, names: list[str]) -> None:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(zipfile.ZipInfo(name.replace("\0", "_") or "x"), b"escaped")
        return
    with tarfile.open(path, "w") as archive:
        for name in names:
            about = tarfile.TarInfo(name)
            if rng.random() < 0.3:
                about.type = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE))
                about.linkname = rng.choice(("../../x", "/etc/hostname", "m/x", ".."))
                archive.addfile(about)
            else:
                about.size = 7
                archive.addfile(about, io.BytesIO(b"escaped"))


def fetch(path: Path, inside: str) -> None:
    """Fetch a folder or a file of an archive, and look for what lies outside."""
    with remote.local_copy(f"{path.suffix[1:]}://{inside}::{path}") as here:
        place = Path(here).resolve()
        for found in place.rglob("*") if place.is_dir() else [place]:
            assert place in (found.resolve(), *found.resolve().parents), f"{found} leads elsewhere"
    strays = [found for found in path.parent.rglob("*") if found != path]
    assert not strays, f"written outside: {strays[:3]}"


@pytest.mark.parametrize("suffix", [".zip", ".tar"])
def test_no_member_of_an_archive_leads_out_of_its_folder(tmp_path, suffix) -> None:
    for number in range(altered.EXAMPLES):
        rng = Random(f"{suffix}/{number}")
        (folder := tmp_path / str(number)).mkdir()
        path = folder / f"x{suffix}"
        names = list(dict.fromkeys(member(rng) for _ in range(rng.randint(1, 4))))
        pack(rng, path, [*names, "m/frame.png"])
        if rng.random() < 0.1:
            path.write_bytes(altered.data(rng, path.read_bytes(), 2))
        inside = rng.choice(("m", "m", "m/frame.png", names[0]))
        altered.check(lambda path=path, inside=inside: fetch(path, inside), (path, inside))
