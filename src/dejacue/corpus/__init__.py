"""A store: many histories of one encoder in a file, added once and queried often.

_store.py   Store: create, add, remove, look up, verify, compact, export, query
_query.py   one vocabulary over all histories, the likeliest objects first; its answers, one by
            one, as columns, or in a file
_file.py    the SQLite file: its tables, how it is opened, a history as a row and back
"""

from typing import TYPE_CHECKING

from dejacue._lazy import lazy_names

if TYPE_CHECKING:  # the same for type checkers
    from dejacue.corpus._file import Busy as Busy
    from dejacue.corpus._file import StoreExists as StoreExists
    from dejacue.corpus._query import Match as Match
    from dejacue.corpus._query import Matches as Matches
    from dejacue.corpus._query import check_output as check_output
    from dejacue.corpus._store import Damage as Damage
    from dejacue.corpus._store import Failure as Failure
    from dejacue.corpus._store import Store as Store
    from dejacue.corpus._store import Stored as Stored

__all__, __getattr__ = lazy_names(
    __name__,
    {
        "_file": "Busy StoreExists",
        "_query": "Match Matches check_output",
        "_store": "Damage Failure Store Stored",
    },
)
