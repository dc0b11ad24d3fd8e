"""``dejacue studio``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dejacue.cli.tables import say
from dejacue.studio.serve import serve


def run(places: list[Path], host: str, port: int, browser: bool, options: dict[str, Any]) -> None:
    """The token is in the address, which is said once."""
    serve(places, host, port, browser, say, **options)
