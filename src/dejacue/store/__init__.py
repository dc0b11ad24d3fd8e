"""A store: many histories of one encoder in a folder, added once and asked often.

    _segments.py   rows of features in .npy files that grow at their end, read by memory map
    _index.py      where the rows of a history lie, and everything else of it: one SQLite file
    _store.py      Store: add, remove, verify, compact, look up
    _ask.py        one vocabulary over all histories, the most likely objects first

What is in the index counts: rows are written and flushed first, then one transaction makes them
part of the store. Whatever a killed writer has left behind is cut off by the next one.
"""

from dejacue.store._ask import Answer, Asked
from dejacue.store._index import Busy
from dejacue.store._store import Failure, Problem, Store, Stored

__all__ = ["Answer", "Asked", "Busy", "Failure", "Problem", "Store", "Stored"]
