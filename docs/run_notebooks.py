"""Run the notebooks of the documentation and store them with their outputs: make notebooks."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def sources_hash(book: Any) -> str:
    """Return a digest of the cells without their outputs."""
    cells = [["".join(cell["source"]), cell["cell_type"]] for cell in book["cells"]]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def executed(path: Path) -> Any:
    """Run a notebook from top to bottom in an empty folder; return it with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    metadata = dict(book.metadata)  # without the versions of this machine
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "paper/src"))
    environment = {**os.environ, "PYTHONPATH": paths}
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(
            book,
            timeout=600,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources=resources,
        )
        client.execute(env=environment)
    book.metadata = nbformat.from_dict(metadata | {"sources": sources_hash(book)})
    for cell in book.cells:
        # a bar that says how long it took tells nothing to a reader
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if out.output_type != "display_data"]
    return book


if __name__ == "__main__":
    import nbformat

    for path in NOTEBOOKS:
        nbformat.write(executed(path), path)
        print(path.relative_to(ROOT))
