"""The exact properties of §2."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History, Vocabulary, locate
from dejacue.method.calibration import cosines, trajectory_centre
from dejacue.method.coordinates import COORDINATES, Coordinates, query_directions, unit_rows

VOCABULARY, UNIFORM = COORDINATES["vocabulary"], COORDINATES["query-uniform"]


def vocabulary(rng, counts=(2, 3, 1), d=24) -> Vocabulary:
    states = {f"s{k}": [f"s{k} text {i}" for i in range(n)] for k, n in enumerate(counts)}
    return Vocabulary(states, rng.normal(size=(sum(counts), d)).astype(np.float32))


def residuals(v: Vocabulary) -> np.ndarray:
    """Return ũ from its definition: mean of state means, not the weights the code uses."""
    z = unit_rows(v.features)
    means = [z[v.labels == s].mean(axis=0) for s in range(len(v.states))]
    return z - np.mean(means, axis=0)


def test_directions_are_the_normalised_residuals() -> None:
    v = vocabulary(np.random.default_rng(0))
    u = query_directions(v, VOCABULARY)
    expected = residuals(v)
    norms = np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(u.residual_norms, norms, rtol=1e-12)
    np.testing.assert_allclose(u.queries, expected / norms[:, None], atol=1e-7)
    assert not u.fallback.any()


def test_residuals_are_balanced_and_keep_differences() -> None:
    v = vocabulary(np.random.default_rng(1))
    r, z = residuals(v), unit_rows(v.features)
    np.testing.assert_allclose(v.weights @ r, 0, atol=1e-15)
    np.testing.assert_allclose(r[0] - r[4], z[0] - z[4], atol=1e-15)


def test_a_common_translation_of_the_unit_descriptions_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    v = vocabulary(rng)
    z, shift = unit_rows(v.features), rng.normal(size=24)
    project = np.eye(len(v)) - np.outer(np.ones(len(v)), v.weights)
    np.testing.assert_allclose(project @ (z + shift), project @ z, atol=1e-14)
    np.testing.assert_allclose(project @ project, project, atol=1e-15)
    np.testing.assert_allclose(project @ z, residuals(v), atol=1e-14)


def test_with_two_states_the_prototypes_are_opposite() -> None:
    r = residuals(vocabulary(np.random.default_rng(3), counts=(3, 2)))
    np.testing.assert_allclose(r[:3].mean(axis=0), -r[3:].mean(axis=0), atol=1e-15)


@pytest.mark.parametrize("times", [2, 4, 8])
def test_replicating_a_state_moves_the_uniform_origin_but_not_ours(times) -> None:
    rng = np.random.default_rng(4)
    v = vocabulary(rng, counts=(2, 2))
    rows = np.concatenate([np.repeat(v.features[:2], times, axis=0), v.features[2:]])
    texts = {"s0": [t for t in v.states["s0"] for _ in range(times)], "s1": v.states["s1"]}
    many = Vocabulary(texts, rows)
    ours, ours_many = query_directions(v, VOCABULARY), query_directions(many, VOCABULARY)
    np.testing.assert_allclose(ours_many.queries[-2:], ours.queries[-2:], atol=1e-7)
    plain, plain_many = query_directions(v, UNIFORM), query_directions(many, UNIFORM)
    assert np.abs(plain_many.queries[-2:] - plain.queries[-2:]).max() > 1e-3
    history = History(rng.normal(size=(120, 24)).astype(np.float32))
    once, again = locate(history, v), locate(history, many)
    assert [m.window for m in once["s1"]] == [m.window for m in again["s1"]]
    assert {m.window for m in once["s0"]} == {m.window for m in again["s0"]}


def test_a_vanishing_residual_falls_back_to_the_description_and_says_so() -> None:
    e = np.eye(4, dtype=np.float32)
    middle = (e[0] + e[1]) / np.sqrt(2)
    v = Vocabulary({"a": ["one", "two"], "b": ["mid"]}, np.stack([e[0], e[1], middle]))
    u = query_directions(v, VOCABULARY)
    assert u.fallback.tolist() == [False, False, False]  # the unit middle is longer than the mean
    same = Vocabulary({"a": ["x"], "b": ["y"]}, np.stack([e[2], e[2]]))
    u = query_directions(same, VOCABULARY)
    assert u.fallback.all()
    np.testing.assert_array_equal(u.queries, np.stack([e[2], e[2]]))
    timeline = locate(History(np.random.default_rng(0).normal(size=(9, 4))), same, diagnostics=True)
    assert all(m.diagnostics.fallback and m.diagnostics.residual_norm == 0 for m in timeline)


@pytest.mark.parametrize(("distance", "falls_back"), [(1e-9, True), (1e-6, False)])
def test_the_fallback_is_for_residuals_below_its_bound_only(distance, falls_back) -> None:
    z = np.zeros((2, 3))
    z[:, 0], z[0, 1] = 1.0, 2 * distance
    same = Vocabulary({"a": "x", "b": "y"}, np.float32(z))
    assert query_directions(same, VOCABULARY).fallback.all() == falls_back


def test_absolute_directions_are_the_unit_descriptions() -> None:
    v = vocabulary(np.random.default_rng(5))
    np.testing.assert_array_equal(
        query_directions(v, COORDINATES["absolute"]).queries, unit_rows(v.features).astype("f4")
    )


@pytest.mark.parametrize("frames", [1, 2, 7, 8])
def test_the_trajectory_centre_is_the_coordinate_wise_median(frames) -> None:
    x = np.random.default_rng(6).normal(size=(frames, 10)).astype(np.float32)
    expected = np.median(x / np.linalg.norm(x, axis=1, keepdims=True), axis=0)
    np.testing.assert_allclose(trajectory_centre(x), expected, atol=1e-7)


def test_cosines_are_cosines() -> None:
    rng = np.random.default_rng(7)
    x, q = rng.normal(size=(50, 37)).astype(np.float32), rng.normal(size=(3, 37))
    q = (q / np.linalg.norm(q, axis=1, keepdims=True)).astype(np.float32)
    expected = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ q.T
    np.testing.assert_allclose(cosines(x, q), expected.T, atol=3e-7)
    centre = trajectory_centre(x)
    r = x / np.linalg.norm(x, axis=1, keepdims=True) - centre
    expected = (r / np.linalg.norm(r, axis=1, keepdims=True)) @ q.T
    np.testing.assert_allclose(cosines(x, q, centre), expected.T, atol=3e-7)


def test_a_frame_on_the_trajectory_centre_has_no_evidence_instead_of_nan() -> None:
    x = np.tile(np.array([[1.0, 2.0, 3.0]], np.float32), (5, 1))
    assert (cosines(x, np.eye(3, dtype=np.float32), trajectory_centre(x)) == 0).all()


def test_an_unknown_origin_suggests_the_nearest() -> None:
    with refused("origin", "stat"):
        Coordinates("mine", False, "stat")
    assert Coordinates("mine", False, None).origin is None


def test_an_unknown_coordinate_system_suggests_the_nearest() -> None:
    v = vocabulary(np.random.default_rng(8))
    with refused("coordinates", "trajectori"):
        locate(History(np.ones((3, 24))), v, coordinates="trajectori")
