"""A store: many histories of one encoder in a folder, added once and asked often.

    _segments.py   rows of features in .npy files that grow at their end, read by memory map
    _index.py      where the rows of a history lie, and everything else of it: one SQLite file
    _thumbnails.py small pictures, in that file too
    _listing.py    what it says of histories
    _store.py      Store: add, remove, verify, compact, look up
    _ask.py        one vocabulary over all histories, the most likely objects first
    _matches.py    its answers, one by one or as columns
    _output.py     and in a file

What is in the index counts: rows are written and flushed first, then one transaction makes them
part of the store. Whatever a killed writer has left behind is cut off by the next one.
"""

from dejacue.store._index import Busy
from dejacue.store._listing import Failure, Stored
from dejacue.store._matches import Match, Matches
from dejacue.store._output import check_output
from dejacue.store._store import Problem, Store

__all__ = [
    "Busy",
    "Failure",
    "Match",
    "Matches",
    "Problem",
    "Store",
    "Stored",
    "check_output",
]
