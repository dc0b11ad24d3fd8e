"""Archives whose members lead elsewhere: what is read lies in its folder, or all is refused."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from random import Random

import mutate
from readers import Target

from dejacue.sources import remote

STEPS = ("..", ".", "", "m", "x", "/", "//", "\\..", "C:", "~", "\0", "a" * 300, "\u2025", " ..")


def member(rng: Random) -> str:
    """Return a path that often escapes."""
    if rng.random() < 0.1:
        return mutate.word(rng)[:200] or "x"
    return "/".join(["m", *(rng.choice(STEPS) for _ in range(rng.randint(1, 6))), "x"])


def packed(rng: Random, path: Path, names: list[str]) -> None:
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


def fetch(rng: Random, valid: Path, folder: Path) -> None:
    """Fetch a folder or a file of an archive, and look for what lies outside."""
    path = folder / rng.choice(("x.zip", "x.tar"))
    names = list(dict.fromkeys(member(rng) for _ in range(rng.randint(1, 4))))
    packed(rng, path, [*names, "m/frame.png"])
    if rng.random() < 0.1:
        path.write_bytes(mutate.data(rng, path.read_bytes(), 2))
    inside = rng.choice(("m", "m", "m/frame.png", names[0]))
    with remote.local_copy(f"{path.suffix[1:]}://{inside}::{path}") as here:
        place = Path(here).resolve()
        for found in place.rglob("*") if place.is_dir() else [place]:
            assert place in (found.resolve(), *found.resolve().parents), f"{found} leads elsewhere"
    strays = [p for p in folder.rglob("*") if p != path]
    assert not strays, f"written outside: {strays[:3]}"


TARGETS = [Target("archive", 30, lambda folder: None, fetch)]
