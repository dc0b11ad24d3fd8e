"""Many videos into a store: a manifest → crops → rows → histories.

    manifest.py    Item, read_manifest: what is to be done
    crops.py       decode_crop(item, look): chunks of crops, without a model, in any process
    rows.py        encode_chunk, Gathered: rows of chunks, and the histories of an item
    target.py      the store that they go into
    writer.py      Writer: finished histories into the store, failures beside them
    local.py       the local engine; batches.py and worker.py are parts of it
    on_ray.py      the engine on a Ray cluster
    _ingest.py     ingest(): all of it

An engine is a function of a Run (run.py); engines differ only in who calls whom, and where.
"""

from dejacue.pipeline.ingest._ingest import ENGINES, ingest
from dejacue.pipeline.ingest.crops import Chunk, End, Failed, Look, decode_crop
from dejacue.pipeline.ingest.manifest import Item, ManifestError, read_manifest
from dejacue.pipeline.ingest.rows import Gathered, encode_chunk
from dejacue.pipeline.ingest.run import RayOptions, Run
from dejacue.pipeline.ingest.target import check_room, open_store
from dejacue.pipeline.ingest.writer import Ingested, Writer

__all__ = [
    "ENGINES",
    "Chunk",
    "End",
    "Failed",
    "Gathered",
    "Ingested",
    "Item",
    "Look",
    "ManifestError",
    "RayOptions",
    "Run",
    "Writer",
    "check_room",
    "decode_crop",
    "encode_chunk",
    "ingest",
    "open_store",
    "read_manifest",
]
