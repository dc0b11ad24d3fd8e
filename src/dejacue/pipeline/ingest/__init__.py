"""Many jobs into a store: a manifest → crops → rows → histories.

    manifest.py    Item, read_manifest: what is to be done
    worker.py      decode(item, how): chunks of crops, without a model, in any process
    writer.py      Writer: finished histories into the store, failures beside them
    local.py       the local engine: processes decode, this one encodes
    on_ray.py      the engine on a Ray cluster
    _ingest.py     ingest(): all of it

An engine is a function of a Run (run.py); engines differ only in who calls whom, and where. Crops,
batches and histories are made by sources/build.py, as for a single video.
"""

from dejacue.pipeline.ingest._ingest import ENGINES, ingest
from dejacue.pipeline.ingest.manifest import Item, ManifestError, read_manifest
from dejacue.pipeline.ingest.run import RayOptions, Run
from dejacue.pipeline.ingest.worker import Decoding, decode
from dejacue.pipeline.ingest.writer import Ingested, Writer, check_room, open_store

__all__ = [
    "ENGINES",
    "Decoding",
    "Ingested",
    "Item",
    "ManifestError",
    "RayOptions",
    "Run",
    "Writer",
    "check_room",
    "decode",
    "ingest",
    "open_store",
    "read_manifest",
]
