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

from typing import TYPE_CHECKING

from dejacue._lazy import lazy_names

if TYPE_CHECKING:  # the same for type checkers
    from dejacue.corpus._index import Busy as Busy
    from dejacue.corpus._matches import Match as Match
    from dejacue.corpus._matches import Matches as Matches
    from dejacue.corpus._matches import check_output as check_output
    from dejacue.corpus._store import Damage as Damage
    from dejacue.corpus._store import Failure as Failure
    from dejacue.corpus._store import Store as Store
    from dejacue.corpus._store import Stored as Stored
    from dejacue.corpus._store import StoreExists as StoreExists

__all__, __getattr__ = lazy_names(
    __name__,
    {
        "_index": "Busy",
        "_matches": "Match Matches check_output",
        "_store": "Damage Failure Store Stored StoreExists",
    },
)
