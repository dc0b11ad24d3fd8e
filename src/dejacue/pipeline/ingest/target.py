"""The store that histories go into: opened or made, for one encoder, with room for their ids."""

from __future__ import annotations

import os
from collections.abc import Iterable

from dejacue.errors import InputError, shortened
from dejacue.sources.encoders import Encoder, encoder_name
from dejacue.store import Store

Place = str | os.PathLike[str]


def check_room(path: Place, ids: Iterable[str], replace: bool) -> None:
    """Refuses, before the work, ids that are in a store already, and a place for none."""
    if not Store.is_at(path):
        Store.check_new(path)
        return
    with Store.open(path) as store:
        there = [id for id in ids if id in store]
    if there and not replace:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise InputError(
            f'{path}: already has a history "{shortened(there[0])}"{more}; --replace replaces it'
        )


def open_store(path: Place, encoder: Encoder) -> Store:
    """The store at a place, or a new one; one of another encoder is refused."""
    if not Store.is_at(path):
        return Store.create(path, encoder=encoder.identity)
    store = Store.open(path)
    try:
        check_encoder_of(store, encoder)
    except BaseException:
        store.close()
        raise
    return store


def check_encoder_of(store: Store, encoder: Encoder) -> None:
    name, dimension = store.encoder, store.dimension
    if name is None and dimension is None:
        return  # whoever comes first
    if name != encoder.identity or dimension not in (None, encoder.dimension):
        holds = "an unnamed encoder" if name is None else f'"{name}"'
        raise InputError(
            f'{store.path}: holds histories of {holds}, but this encoder is "{encoder.identity}"; '
            "use one store per encoder"
        )


def encoder_of(store: Store) -> str | None:
    """The name of the encoder of a store; None where any will do."""
    first = next(iter(store.histories()), None)
    if first is not None:
        return encoder_name(first)
    if store.encoder is not None:
        raise InputError(
            f'{store.path}: is empty and made for the encoder "{store.encoder}"; name the encoder '
            "with --encoder"
        )
    return None
