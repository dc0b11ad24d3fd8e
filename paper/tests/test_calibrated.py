"""A readout fitted to a few labels: the fit, what it is worth, its file, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dejacue import Finding, History, InputError, Reference, Vocabulary, locate
from dejacue.corpus import Store
from dejacue.files.histories import write_history, write_vocabulary
from dejacue.files.results import write_references
from dejacue.method import LiveReading, Window
from dejacue.method.localization import analyse
from dejacue_paper import generate
from dejacue_paper.learn import calibrated
from dejacue_paper.learn.calibrated import FEATURES, NOT_AHEAD, Calibrated, fit, largest_sum

EVERY = tuple(FEATURES)


def labelled(count: int = 6, **options):
    scenes = [generate(seed, frames=60, dimension=24, **options) for seed in range(count)]
    return scenes, [Reference(scene.history.id, scene.references) for scene in scenes]


def swapped(reference: Reference) -> Reference:
    """Return the labels for words that mean the opposite."""
    names = list(reference.states)
    states = dict(zip(names, reversed(list(reference.states.values())), strict=True))
    return structs.replace(reference, states=states)


def windows(timeline):
    return timeline.windows()


@pytest.fixture(scope="module")
def cups():
    return labelled()


@pytest.fixture(scope="module")
def model(cups):
    """Return a model of every kind of evidence, so that all of it is computed."""
    return fit(*cups, features=EVERY)


# the window


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=24),
    st.lists(st.integers(1, 23), max_size=3),
)
def test_the_largest_sum_is_that_of_trying_every_window(values, cuts) -> None:
    row = np.array(values, float)
    bounds = np.array(sorted({0, len(row), *(cut for cut in cuts if cut < len(row))}))
    sums = [
        (a, b, row[a : b + 1].sum())
        for first, last in pairwise(bounds.tolist())
        for a in range(first, last)
        for b in range(a, last)
    ]
    best = max(total for _, _, total in sums)
    expected = min((a, b) for a, b, total in sums if total == best)
    start, end, score = largest_sum(row[None], bounds)
    assert (start[0], end[0]) == expected
    assert score[0] == best


def test_a_window_of_the_sum_never_crosses_a_gap() -> None:
    scene = generate(3, frames=80, missing=0.2)
    model = Calibrated(("vocabulary",), (0.0,), (1.0,), (1.0,), 99.0, encoder="generated")
    cuts, frames = scene.history.run_offsets, scene.history.frames
    runs = [(frames[a], frames[b - 1]) for a, b in pairwise(cuts.tolist())]
    longest = max(runs, key=lambda run: run[1] - run[0])
    timeline = locate(scene.history, scene.vocabulary, readout=model)
    assert {tuple(interval.window) for interval in timeline} == {
        longest
    }  # every frame speaks for it


def test_contrast_is_one_of_the_models(cups) -> None:
    scenes, references = cups
    fitted = fit(scenes, references, features=("contrast",), rule="contrast")
    for scene in scenes:
        ours = locate(scene.history, scene.vocabulary, readout=fitted)
        theirs = locate(scene.history, scene.vocabulary, readout="contrast")
        assert windows(ours) == windows(theirs)
        assert ours[0].description is None
    assert fitted.fitted is not None
    assert not fitted.recommended
    assert all(row[1:] == (0, 0, 0, 1) for row in fitted.fitted.ahead)


# the fit


def test_the_weights_are_where_the_loss_is_flat() -> None:
    rng = np.random.default_rng(1)
    values, weight = rng.normal(size=(200, 3)), rng.uniform(0.01, 0.2, 200)
    labels = (values[:, 0] + rng.normal(size=200) > 0.3).astype(float)

    def loss(place):
        odds = values @ place[:-1] + place[-1]
        return weight @ (np.logaddexp(0, odds) - labels * odds) + place[:-1] @ place[:-1] / 2

    weights = calibrated.logistic(values, labels, weight)
    for k in range(4):
        aside = np.zeros(4)
        aside[k] = 1e-4
        slope = (loss(weights + aside) - loss(weights - aside)) / 2e-4
        assert abs(slope) < 1e-7


def test_the_weights_are_found_where_labels_are_told_apart_without_error() -> None:
    values = np.array([[-1.0], [-2.0], [1.0], [2.0]] * 50) * 1e3
    weights = calibrated.logistic(values, (values[:, 0] > 0) * 1.0, np.full(200, 1e3))
    assert np.isfinite(weights).all()
    assert weights[0] > 0


def test_inside_and_outside_weigh_the_same_and_so_do_histories(cups) -> None:
    scenes, references = cups
    pairs = [(scene.history, scene.vocabulary) for scene in scenes]
    known, _ = calibrated._labelled(pairs, references, "auto")
    for labels in known:
        assert labels.weight[labels.inside].sum() == pytest.approx(0.5)
        assert labels.weight[~labels.inside].sum() == pytest.approx(0.5)


def test_histories_of_one_source_are_left_out_together(cups) -> None:
    scenes, references = cups
    sources = [structs.replace(r, component=f"v{k // 2}") for k, r in enumerate(references)]
    pairs = [(scene.history, scene.vocabulary) for scene in scenes]
    known, _ = calibrated._labelled(pairs, sources, "auto")
    folds = calibrated._folds(known)
    assert len(folds) == 3
    for left, rest in folds:
        names = [{history.reference.component for history in part} for part in (left, rest)]
        assert not names[0] & names[1]
        assert len(left) + len(rest) == len(known)


def test_labels_count_frames_of_the_file() -> None:
    scenes, references = labelled(4)
    sampled = [
        (
            History(
                scene.history.features,
                scene.history.frames,
                scene.history.id,
                encoder=scene.history.encoder,
                source_frames=scene.history.frames * 5 + 100,
            ),
            scene.vocabulary,
        )
        for scene in scenes
    ]
    shifted = [
        structs.replace(
            reference,
            states={
                state: tuple((w.start * 5 + 100, w.end * 5 + 100) for w in true)
                for state, true in reference.states.items()
            },
        )
        for reference in references
    ]
    models = [
        fit(*arguments, features=EVERY) for arguments in ((sampled, shifted), (scenes, references))
    ]
    assert replace(models[0], fitted=None) == replace(models[1], fitted=None)


def test_words_that_mean_the_opposite_are_worth_labels(cups) -> None:
    scenes, references = cups
    fitted = fit(scenes, [swapped(reference) for reference in references])
    assert fitted.recommended
    table = {name: values for name, *values in fitted.fitted.table}
    assert table["calibrated"][2] > 0.8 > 0.3 > table["contrast"][2]
    assert locate(scenes[0].history, scenes[0].vocabulary, readout=fitted).notes == ()


def test_five_videos_are_too_few_to_recommend_anything(cups) -> None:
    scenes, references = cups
    fitted = fit(scenes, [swapped(reference) for reference in references[:5]])
    assert fitted.fitted is not None
    gain = {metric: values for metric, *values in fitted.fitted.ahead}["top1_tiou"]
    assert gain[1] > 0  # the interval alone would have said so
    assert not fitted.recommended


def test_a_model_that_is_not_ahead_says_so_where_it_is_used(cups) -> None:
    scenes, references = cups
    fitted = fit(scenes, references, features=("vocabulary",))
    assert not fitted.recommended
    assert NOT_AHEAD in locate(scenes[0].history, scenes[0].vocabulary, readout=fitted).notes


def test_findings_and_pairs_give_the_same_model(cups) -> None:
    scenes, references = cups
    pairs = [(scene.history, scene.vocabulary) for scene in scenes]
    findings = [Finding(h, v, analyse(h, v)) for h, v in pairs]
    assert fit(findings, references, features=EVERY) == fit(pairs, references, features=EVERY)


def test_a_finding_read_with_a_model_can_still_be_corrected(cups, model) -> None:
    scene = cups[0][0]
    finding = Finding(scene.history, scene.vocabulary, analyse(scene.history, scene.vocabulary))
    asked = finding.with_words(readout=model)
    assert asked.timeline.settings["readout"]["name"] == "calibrated"
    assert "fitted" not in asked.timeline.settings["readout"]
    assert "above 0 the frame is more likely in the state than not" in asked.report()
    corrected = asked.correct(empty=3)
    assert corrected.timeline.settings["readout"]["name"] == "timeline"


def test_a_live_reading_ends_in_the_answer_of_the_model(cups, model) -> None:
    scene = cups[0][0]
    live = LiveReading(scene.vocabulary, readout=model)
    for row in scene.history.features:
        live.push(row)
    expected = locate(scene.history, scene.vocabulary, readout=model)
    assert windows(live.finish()) == windows(expected)


# exactness


def test_the_order_of_siblings_changes_no_answer(model) -> None:
    scene = generate(11, frames=90, dimension=24, states=("a", "b", "c"))
    states = {state: list(texts) for state, texts in scene.vocabulary.states.items()}
    turned = dict(reversed(states.items()))
    by_text = dict(zip(scene.vocabulary.descriptions, scene.vocabulary.features, strict=True))
    features = np.stack([by_text[text] for texts in turned.values() for text in texts])
    other = Vocabulary(turned, features, encoder=scene.vocabulary.encoder)
    for rule in ("sum", "contrast"):
        readout = replace(model, rule=rule)
        here, there = (locate(scene.history, v, readout=readout) for v in (scene.vocabulary, other))
        assert windows(here) == windows(there)
        assert list(windows(here)) != list(windows(there))


def test_both_engines_fit_and_read_the_same(cups) -> None:
    scenes, references = cups
    models = [fit(scenes, references, features=EVERY, kernel=name) for name in ("numpy", "auto")]
    for name in ("mean", "scale", "weights", "bias"):
        plain, compiled = (getattr(model, name) for model in models)
        assert plain == pytest.approx(compiled, rel=2e-5, abs=1e-6)
    scene = generate(30, frames=90, dimension=24, missing=0.1)
    for rule in ("sum", "contrast"):
        readout = replace(models[0], rule=rule)
        timelines = [
            locate(scene.history, scene.vocabulary, readout=readout, kernel=name)
            for name in ("numpy", "auto")
        ]
        scores = [[interval.score for interval in timeline] for timeline in timelines]
        assert scores[0] == pytest.approx(scores[1], rel=2e-5)
        assert windows(timelines[0]) == windows(timelines[1])


def test_a_model_is_read_as_it_was_written(model, tmp_path) -> None:
    path = model.write(tmp_path / "cups.model.json")
    again = Calibrated.read(path)
    assert again == model
    assert again.weights == model.weights  # every bit
    assert path.stat().st_size < 4096


# what is refused


def test_labels_that_cannot_be_used_are_refused(cups) -> None:
    scenes, references = cups
    first, *others = references
    one_state = [structs.replace(r, states={"empty": r.states["empty"]}) for r in references]
    unknown_state = structs.replace(first, states={**first.states, "boiling": ((0, 3),)})
    unobserved = structs.replace(first, states={**first.states, "empty": ((500, 510),)})
    one_video = [structs.replace(r, component="kitchen") for r in references]
    whole = [structs.replace(r, states=dict.fromkeys(r.states, ((0, 59),))) for r in references]
    narrow = generate(0, frames=60, dimension=32).vocabulary
    for histories, labels, fact in (
        (scenes, [], "no labels"),
        (scenes, one_state, "only one state"),
        (scenes, [unknown_state, *others], "boiling"),
        (scenes, [unobserved, *others], Window(500, 510)),
        (scenes[1:], references, first.history_id),
        ([*scenes, scenes[0]], references, f"{first.history_id} is given twice"),
        (scenes, references[:2], "2 source videos"),
        (scenes, one_video, "1 source video"),
        (scenes, whole, "every label covers all observed frames"),
        ([scenes[0].history], references, "<History generated-0"),
        (scenes, [first, *references], f"{first.history_id} has two references"),
        (scenes, [dict(first.states)], "expected a Reference"),
        (["cup.npz"], references, "cup.npz"),
        ([(s.history, narrow) for s in scenes], references, "24 dimensions"),
    ):
        with refused(fact) as caught:
            fit(histories, labels)
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("option", "value", "fact"),
    [
        ("features", ("colour",), "colour"),
        ("rule", "best", "best"),
        ("features", ("dual", "dual"), "features"),
        ("ridge", 0.0, 0.0),
    ],
)
def test_settings_that_are_not_known_are_refused(cups, option, value, fact) -> None:
    with refused(fact):
        fit(*cups, **{option: value})


def test_encoders_are_not_mixed(cups, model) -> None:
    scenes, references = cups
    history = replace(scenes[0].history, encoder="another")
    words = replace(scenes[0].vocabulary, encoder="another")
    pairs = [(history, words), *((scene.history, scene.vocabulary) for scene in scenes[1:])]
    with refused("encoder"):
        fit(pairs, references)
    with refused("encoder", "another"):
        locate(history, words, readout=model)


def test_a_model_has_its_own_coordinates(cups, model) -> None:
    with refused("coordinates", "dual"):
        locate(cups[0][0].history, cups[0][0].vocabulary, readout=model, coordinates="dual")


def test_references_across_gaps_count_where_the_object_is_seen() -> None:
    scenes, references = labelled(4, missing=0.2)
    fitted = fit(scenes, references, features=("vocabulary",)).fitted
    assert fitted is not None
    assert any("spans frames in which the object is not observed" in n for n in fitted.notes)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("schema", "dejacue.calibrated/2", "dejacue.calibrated/2"),
        ("weights", [1.0], "weights"),
        ("weights", "NaN", "weights"),
        ("scale", [0.0] * 7, "scale"),
        ("scale", [5e-324] * 7, "scale"),
        ("bias", 1e308, "bias"),
        ("features", ["colour"] * 7, '"colour"'),
        ("rule", "best", '"best"'),
        ("more", 1, '"more"'),
    ],
)
def test_a_file_that_is_no_model_is_refused(model, tmp_path, key, value, named) -> None:
    path = model.write(tmp_path / "cups.model.json")
    document = json.loads(path.read_text()) | {key: value}
    path.write_text(json.dumps(document))
    with refused(path, named):
        Calibrated.read(path)


def test_a_file_with_nan_is_refused(model, tmp_path) -> None:
    path = model.write(tmp_path / "cups.model.json")
    path.write_text(path.read_text().replace(json.dumps(model.bias), "NaN"))
    with pytest.raises(InputError, match="NaN is not a JSON number"):
        Calibrated.read(path)


# the command


@pytest.fixture
def files(cups, tmp_path):
    scenes, references = cups
    words = scenes[0].vocabulary
    write_vocabulary(tmp_path / "cup.npz", words)
    for scene in scenes:
        write_history(tmp_path / f"{scene.history.id}.npz", scene.history)
        finding = Finding(scene.history, words, analyse(scene.history, words))
        finding.save(tmp_path / "findings" / scene.history.id)
    write_references(tmp_path / "true.json", references)
    return tmp_path


def test_the_command_fits_says_what_it_is_worth_and_writes(dejacue, files) -> None:
    ran = dejacue("learn", "fit", files / "findings", files / "true.json", "-o", files / "m.json")
    assert ran.code == 0, ran.err
    for name in ("calibrated", "contrast", "published", "whole-history", "longest-run"):
        assert name in ran.out
    assert "ahead of contrast" in ran.out
    fitted = Calibrated.read(files / "m.json")
    assert fitted.fitted is not None
    assert fitted.fitted.histories == 6
    histories = [files / f"generated-{k}.npz" for k in range(6)]
    again = dejacue(
        "learn",
        "fit",
        *histories,
        files / "true.json",
        "-o",
        files / "n.json",
        "--words",
        files / "cup.npz",
    )
    assert again.code == 0, again.err
    assert (files / "n.json").read_bytes() == (files / "m.json").read_bytes()


def test_the_command_fits_a_store_and_a_model_is_a_readout(dejacue, files, cups) -> None:
    with Store.create(files / "store", encoder="generated", dtype="float32") as store:
        store.add([scene.history for scene in cups[0]])
    model, words = files / "m.json", files / "cup.npz"
    ran = dejacue(
        "learn",
        "fit",
        files / "store",
        files / "true.json",
        "-o",
        model,
        "--words",
        words,
        "--features",
        "vocabulary",
    )
    assert ran.code == 0, ran.err
    assert "not ahead of contrast" in ran.out
    found, predict = files / "found.json", ("learn", "predict", model, files / "generated-0.npz")
    result = dejacue(*predict, "--words", words, "-o", found)
    assert result.code == 0, result.err
    (timeline,) = json.loads(found.read_text())
    assert timeline["settings"]["readout"]["name"] == "calibrated"
    assert "not recommended" in dejacue(*predict, "--words", words).err
    assert "no seeds" in dejacue(*predict, "--words", words, "--seed", 1).err
    with Store.open(files / "store") as store:
        answers = store.query(cups[0][0].vocabulary, readout=Calibrated.read(model))
        assert len(list(answers)) == 6 * 4  # each description has its own window


def test_the_command_refuses_in_one_sentence(dejacue, files, cups) -> None:
    true, output = files / "true.json", files / "m.json"
    known = cups[1]
    for name, labels in {
        "none": [],
        "one": [
            structs.replace(reference, states={"empty": reference.states["empty"]})
            for reference in known
        ],
        "other": [
            structs.replace(reference, states={**reference.states, "boiling": ((0, 3),)})
            for reference in known
        ],
        "two": known[:2],
    }.items():
        write_references(files / f"{name}.json", labels)
    for words, message in (
        ((true,), "give the findings, then the references"),
        (
            (files / "generated-0.npz", files / "findings"),
            "the last argument must be the references",
        ),
        ((files / "findings", true, "--features", "vocabulry"), 'unknown feature "vocabulry"'),
        ((files / "findings", true, "--rule", "summ"), 'unknown rule "summ"'),
        ((files / "generated-0.npz", true), "--words"),
        ((files, true), "holds no findings"),
        ((files / "findings" / "generated-0", true), "not among the histories given"),
        ((files / "findings", files / "none.json"), "no labels; give"),
        ((files / "findings", files / "one.json"), "only one state"),
        ((files / "findings", files / "other.json"), '"boiling" of history generated-0'),
        ((files / "findings", files / "two.json"), "2 source videos, but cross-validation needs 3"),
    ):
        ran = dejacue("learn", "fit", *words, "-o", output)
        assert ran.code != 0
        assert message in ran.err
        assert "true.json: unknown" not in ran.err
        assert len(ran.err.strip().splitlines()) == 1
        assert not output.exists()
    ran = dejacue("learn", "fit", files / "findings", true, "-o", files / "model.pickle")
    assert "ends in .json" in ran.err
    ran = dejacue("find", files / "findings" / "generated-0", "--encoder", "minni")
    assert ran.code == 2
    assert "so encoder has no effect" in ran.err
    ran = dejacue("learn", "predict", true, files / "generated-0.npz", "--words", files / "cup.npz")
    assert ran.code == 2
    assert "dejacue.calibrated/1" in ran.err
