"""A store: many histories of one encoder in a folder, added once and queried often.

    _store.py      Store: create, add, remove, look up, verify, compact, export, query
    _query.py      one vocabulary over all histories, the likeliest objects first
    _matches.py    its answers: one by one, as columns, or in a file
    _packing.py    a history as rows of features and columns of the index, and back
    _segments.py   rows of features in .npy files that grow at their end, read by memory map
    _index.py      one SQLite file: where the rows of a history lie, and everything else of it

What is in the index counts: rows are written and flushed first, then one transaction makes them
part of the store. Whatever a killed writer has left behind is cut off by the next one.
"""

from dejacue.store._index import Busy
from dejacue.store._matches import Match, Matches, check_output
from dejacue.store._store import Damage, Failure, Store, Stored, StoreExists

__all__ = [
    "Busy",
    "Failure",
    "Match",
    "Matches",
    "Damage",
    "Store",
    "StoreExists",
    "Stored",
    "check_output",
]
