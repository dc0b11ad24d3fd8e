"""What keeps long histories and many states quick gives what plain numpy gives, also on ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dejacue.method import _labelling as labelling
from dejacue.method import _partition as plain
from dejacue.method.kernel import Labelling, compiled, engine

ENGINES = pytest.mark.parametrize("name", compiled())


@ENGINES
@given(
    seed=st.integers(0, 2**32 - 1),
    states=st.integers(2, 40),
    frames=st.integers(1, 70),
    stay=st.integers(1, 4),
    cost=st.sampled_from([0.0, 1.0, 2.5]),
)
def test_states_in_any_order_are_labelled_as_in_numpy(
    name, seed, states, frames, stay, cost
) -> None:
    """Whole numbers make many paths equal: the same one must win."""
    stay = min(stay, frames)
    responses = np.random.default_rng(seed).integers(-2, 3, (states, frames)).astype(float)
    nodes = labelling.nodes_for(states, None, False)
    rules = Labelling([nodes], np.array([cost]), stay, 4)
    path, levels = engine(name).label_responses(responses, np.array([0, frames]), rules)
    expected, expected_levels = labelling.label(responses, nodes, cost, stay, 4)
    np.testing.assert_array_equal(path, expected)
    np.testing.assert_array_equal(levels, expected_levels)


@ENGINES
def test_many_starts_are_thinned_out_as_in_numpy(name) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6000, 2))
    rows[5500:] += 0.5
    cuts, penalty = np.array([0, 6000]), 20.0
    start = engine(name).partition(rows, cuts, penalty)
    np.testing.assert_array_equal(start, plain.partition(rows, cuts, penalty))
    assert abs(int(start[-1]) - 5500) < 10


def test_a_change_is_found_although_starts_are_thinned_out(monkeypatch) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(600, 2))
    rows[200:] += 1
    exact = plain.partition(rows, np.array([0, 600]), 15.0)
    monkeypatch.setattr(plain, "MAX_STARTS", 128)
    thinned = plain.partition(rows, np.array([0, 600]), 15.0)
    assert abs(int(thinned[-1]) - int(exact[-1])) < 5
