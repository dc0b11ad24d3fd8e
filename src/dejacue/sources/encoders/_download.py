"""A large file of the hub, gone on with where an earlier run was stopped.

The hub's client begins anew; it takes a file that lies where it looks first, though. So the file is
put there, whole and with the hash that the hub gives, and the client does the rest.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dejacue.errors import InputError
from dejacue.sources.encoders._files import sha256

_SHA256 = re.compile("[0-9a-f]{64}")  # what the hub calls large files by
TIMEOUT_S = 10


def download_large(repository: str, name: str, revision: str, folder: Path | None) -> bool:
    """Whether it is a large file, which then lies in the folder (None: the hub's cache)."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get, repo_folder_name

    url = hf_hub_url(repository, name, revision=revision)
    found = get_hf_file_metadata(url, timeout=TIMEOUT_S)
    if found.size is None or found.etag is None or not _SHA256.fullmatch(found.etag):
        return False
    own = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=repository, repo_type="model"))
    target = own / "blobs" / found.etag if folder is None else folder / name
    unfinished = target.parent if folder is None else folder / ".cache" / "huggingface" / "download"
    part = unfinished / f"{found.etag}.dejacue.incomplete"
    for place in (target.parent, unfinished):
        place.mkdir(parents=True, exist_ok=True)
    done = part.stat().st_size if part.is_file() else 0
    with open(part, "ab") as stream:
        if done > found.size:
            stream.truncate(done := 0)
        http_get(found.location, stream, resume_size=done, expected_size=found.size)
    if sha256(part) != found.etag:
        part.unlink()
        raise InputError(
            f"{repository}: the sha256 of {name} differs from the one on the Hub, so the download "
            "was discarded; fetch it again"
        )
    os.replace(part, target)
    return True
