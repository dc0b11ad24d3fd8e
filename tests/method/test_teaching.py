"""Teachers: what a person confirmed in other videos tells states of this one."""

import json
import shlex
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import Example, Finding, History, Store, Vocabulary, find, locate
from dejacue.evaluation import best_tiou
from dejacue.files import read_vocabulary, write_history, write_vocabulary
from dejacue.finding.finding import TAUGHT_BY, teacher_notes
from dejacue.method import Reading, Window
from dejacue.method.coordinates import (
    COORDINATES,
    WORDS,
    example_directions,
    query_directions,
)
from dejacue.method.localization import analyse
from dejacue.method.teaching import Teacher, looks, taught
from dejacue.models.encoders import ImageEncoder
from dejacue_paper.data.rendered import render, write_scene

STATES = ("empty", "filled")
D = 32
AXES = np.linalg.qr(np.random.default_rng(0).standard_normal((D, D)))[0]


def video(seed, change=60, frames=120, signal=0.5, states=STATES, encoder="e", id=None):
    """Return a history of another object that changes its state, and its true windows."""
    rng = np.random.default_rng([7, seed])
    body = rng.standard_normal(D)
    axis = np.where(np.arange(frames) < change, 1.0, -1.0)[:, None] * AXES[0]
    rows = 2 * body / np.linalg.norm(body) + signal * axis + 0.15 * rng.standard_normal((frames, D))
    history = History(rows.astype(np.float32), np.arange(frames), id or f"video{seed}", encoder)
    windows = [Window(0, change - 1)], [Window(change, frames - 1)]
    return history, dict(zip(states, windows, strict=True))


def teacher(seed, **more):
    return Teacher(*video(seed, **more))


def words(axis, **more):
    """Return a vocabulary whose words point along ± an axis."""
    features = np.stack([AXES[5] + 0.1 * axis, AXES[5] - 0.1 * axis]).astype(np.float32)
    return Vocabulary({state: state for state in STATES}, features, "e", **more)


def overlap(history, vocabulary, truth, readout="contrast"):
    timeline = locate(history, vocabulary, readout=readout)
    return np.mean(
        [
            best_tiou([tuple(timeline[state][0].window)], [np.array([tuple(windows[0])])])[0]
            for state, windows in truth.items()
        ]
    )


def seen_and_gone(seed, path, **more):
    """Return a history of another object that is seen where the path is 1."""
    rng = np.random.default_rng([11, seed])
    body = rng.standard_normal(D)
    rows = 2 * body / np.linalg.norm(body) + np.outer(np.array(path) - 0.5, AXES[0])
    rows = rows + 0.15 * rng.standard_normal((len(path), D))
    return History(rows.astype(np.float32), id=f"seen{seed}", encoder="e", **more)


def test_a_teacher_of_one_state_finds_each_time_it_holds_and_none_elsewhere(tmp_path):
    lesson = Teacher(seen_and_gone(1, [0] * 30 + [1] * 40 + [0] * 30), {"visible": [(30, 69)]})
    path = [0] * 25 + [1] * 20 + [0] * 30 + [1] * 25 + [0] * 20
    vocabulary = taught(None, [lesson])
    for more in ({}, {"source_frames": 3 * np.arange(120)}):
        timeline = analyse(seen_and_gone(2, path, **more), vocabulary)
        found = [interval.window for interval in timeline["visible"]]
        true = [Window(25, 44), Window(75, 99)]
        assert [a.iou(b) > 0.85 for a, b in zip(found, true, strict=True)] == [True, True]
        seen = np.array([label == "visible" for label in timeline.labels])
        assert np.mean(seen == np.array(path)) > 0.95
        assert not any("every frame" in note for note in timeline.notes)
        assert all(0 < interval.confidence <= 1 for interval in timeline)
        (numpy,) = [locate(seen_and_gone(2, path, **more), vocabulary, kernel="numpy")]
        assert [interval.window for interval in numpy] == found
    with Store.create(tmp_path / "s") as store:
        store.add([seen_and_gone(seed, path) for seed in range(2, 5)])
        assert len({match.rank for match in store.query(like=lesson)}) == 3


def test_a_finding_of_one_state_teaches_by_the_frames_it_gives_to_none():
    path = [0] * 30 + [1] * 40 + [0] * 30 + [1] * 20
    history = seen_and_gone(1, path)
    finding = find(history, examples={"visible": 50})
    assert len(finding["visible"]) == 2
    assert [tuple(w) for w in finding.confirmed["visible"]] != [(0, 119)]
    vocabulary = taught(None, finding)
    (direction,) = example_directions(vocabulary).values()
    assert direction[0] @ AXES[0] > 0.9
    everywhere = Teacher(history, {"visible": [(0, 119)]})
    with refused("like", "seen1", 'what it looks like when it is not "visible"'):
        taught(None, everywhere)


def test_three_teachers_tell_the_states_of_another_object():
    history, truth = video(50, change=45)
    vocabulary = taught(None, [teacher(seed, change=30 + 20 * seed) for seed in range(3)])
    assert tuple(vocabulary.states) == STATES
    assert vocabulary.examples_only
    assert overlap(history, vocabulary, truth) > 0.95
    assert overlap(history, vocabulary, truth, Reading()) > 0.95


def test_a_direction_is_the_mean_over_videos_of_the_mean_difference_within_each():
    teachers = [teacher(seed, change=20 + 30 * seed) for seed in range(3)]
    expected = []
    for item in teachers:
        rows = item.history.features.astype(float)
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        change = item.confirmed["filled"][0].start
        difference = rows[:change].mean(axis=0) - rows[change:].mean(axis=0)
        expected.append(difference / np.linalg.norm(difference))
    mean = np.mean(expected, axis=0)
    queries = query_directions(taught(None, teachers), COORDINATES["vocabulary"], 1.0).states
    np.testing.assert_allclose(queries[0], mean / np.linalg.norm(mean), atol=1e-6)
    np.testing.assert_allclose(queries[1], -queries[0], atol=1e-6)


def test_only_confirmed_frames_teach():
    history, _ = video(1)
    part = {"empty": [Window(10, 20)], "filled": [Window(70, 75), Window(90, 95)]}
    other = history.features.copy()
    unconfirmed = ~np.isin(np.arange(120), [*range(10, 21), *range(70, 76), *range(90, 96)])
    other[unconfirmed] = AXES[9]
    twin = History(other, history.frames, history.id, history.encoder)
    first, second = (taught(None, [Teacher(h, part)]) for h in (history, twin))
    for a, b in zip(first.examples, second.examples, strict=True):
        np.testing.assert_array_equal(a.features, b.features)
    assert [example.name for example in first.examples] == ["video1@10-20", "video1@70-95"]


@pytest.mark.parametrize("agree", [True, False])
def test_words_keep_the_say_that_they_have_earned(agree):
    teachers = [teacher(seed, change=40 + 10 * seed) for seed in range(3)]
    vocabulary = words(AXES[0] if agree else -AXES[0])
    example = taught(vocabulary, teachers).examples[0]
    assert (example.weight * 3 > 2 * WORDS) != agree
    history, truth = video(60, change=80)
    assert overlap(history, taught(vocabulary, teachers), truth) > 0.9
    assert (overlap(history, vocabulary, truth) > 0.9) == agree


def test_what_has_earned_nothing_yet_counts_half():
    noise = [teacher(seed, signal=0.0) for seed in range(6)]
    clear = [teacher(seed) for seed in range(6)]
    vocabulary = words(AXES[1])
    assert (
        taught(vocabulary, noise).examples[0].weight < taught(vocabulary, clear).examples[0].weight
    )


def test_words_that_say_nothing_do_not_stop_teachers():
    same = np.stack([AXES[5], AXES[5]]).astype(np.float32)
    vocabulary = Vocabulary({state: state for state in STATES}, same, "e")
    history, truth = video(60, change=80)
    assert overlap(history, taught(vocabulary, [teacher(1), teacher(2)]), truth) > 0.9


def test_a_named_frame_stays_a_fact_beside_teachers():
    history, _ = video(60, change=80)
    vocabulary = taught(None, [teacher(1), teacher(2)]).with_examples(empty=100)
    assert 100 in locate(history, vocabulary)["empty"][0].window


def test_teachers_of_some_states_leave_the_others_to_words():
    features = np.stack([AXES[5] + 0.1 * AXES[k] for k in range(3)]).astype(np.float32)
    vocabulary = Vocabulary({s: s for s in (*STATES, "broken")}, features, "e")
    plain = query_directions(vocabulary, COORDINATES["vocabulary"], 1.0).states
    mixed = query_directions(
        taught(vocabulary, [teacher(1)]), COORDINATES["vocabulary"], 1.0
    ).states
    np.testing.assert_array_equal(mixed[2], plain[2])
    assert not np.allclose(mixed[0], plain[0])


def test_a_teacher_heard_again_replaces_what_it_said():
    once = taught(None, [teacher(1), teacher(2)])
    again = taught(once, [teacher(2, change=30)])
    assert [e.name for e in again.examples] == [
        "video1@0-59",
        "video1@60-119",
        "video2@0-29",
        "video2@30-119",
    ]


def test_two_videos_of_one_name_are_two_teachers():
    vocabulary = taught(words(AXES[1]), [teacher(1, id="scene"), teacher(2, id="scene")])
    assert {e.name.partition("@")[0] for e in vocabulary.examples} == {"scene", "scene (2)"}


def test_teachers_are_kept_in_a_file_of_a_vocabulary(tmp_path):
    vocabulary = taught(words(AXES[1]), [teacher(1), teacher(2)])
    again = read_vocabulary(write_vocabulary(tmp_path / "words.npz", vocabulary))
    assert [(e.name, e.weight) for e in again.examples] == [
        (e.name, e.weight) for e in vocabulary.examples
    ]
    directions = [
        query_directions(v, COORDINATES["vocabulary"], 1.0).queries for v in (vocabulary, again)
    ]
    np.testing.assert_array_equal(*directions)


# ── what is refused ────────────────────────────────────────────────────────────────────────────


def test_a_teacher_of_two_states_with_one_confirmed_is_refused():
    history, truth = video(1)
    finding = find(history, examples={"empty": 10, "filled": 100})
    labelled = SimpleNamespace(
        history=history, confirmed={"empty": truth["empty"]}, labels=finding.labels
    )
    with refused("video1"):
        taught(None, labelled)
    with refused("video1"):
        taught(words(AXES[0]), [Teacher(history, {"empty": truth["empty"]})])
    with refused("video1"):  # the other lies where nothing is observed
        taught(None, [Teacher(history, {"empty": truth["empty"], "filled": [Window(500, 600)]})])


@pytest.mark.parametrize("states", [("open", "closed"), ("empty", "closed")])
def test_a_teacher_that_shares_fewer_than_two_states_is_refused(states):
    with refused("video1"):
        taught(words(AXES[0]), [teacher(1, states=states)])


def test_teachers_of_another_encoder_are_refused():
    with refused("other"):
        taught(words(AXES[0]), [teacher(1, encoder="other")])
    with refused("other"):
        taught(None, [teacher(1), teacher(2, encoder="other")])


def test_states_that_look_the_same_teach_nothing():
    rows = np.tile(AXES[0], (20, 1)).astype(np.float32)
    still = History(rows, np.arange(20), "still")
    with refused("like", "still"):
        taught(None, [Teacher(still, {"empty": [Window(0, 9)], "filled": [Window(10, 19)]})])


def test_no_teacher_is_refused():
    with refused("no teacher is given"):
        taught(None, [])


@pytest.mark.parametrize("weight", [0, -1.0, float("nan"), float("inf"), "2"])
def test_an_example_counts_for_a_number_above_zero(weight):
    with refused("an example counts for a number above 0"):
        Example("empty", (3, 3), weight=weight)


# ── findings and stores ────────────────────────────────────────────────────────────────────────


def corrected(seed, folder=None, **more):
    """Return the finding of a video in which a frame of each state was named."""
    history, truth = video(seed, **more)
    examples = {state: windows[0].start + 5 for state, windows in truth.items()}
    finding = find(history, examples=examples)
    if folder is not None:
        finding.save(folder)
    return finding


def test_an_interval_is_confirmed_where_a_frame_of_it_was_named():
    finding = corrected(1)
    assert finding.confirmed == {s: [finding[s][0].window] for s in STATES}
    once = find(finding.history, words(AXES[0]))
    assert once.confirmed == {}
    assert set(once.correct(empty=5).confirmed) == {"empty"}


def test_whatever_was_named_is_confirmed():
    history, _ = video(1)
    spans = {"empty": [Window(0, 20)], "filled": [Window(70, 119), Window(30, 32)]}
    finding = find(history, words(AXES[0])).correct(spans, none=Window(40, 45))
    for state, windows in spans.items():
        assert all(any(w & span == span for w in finding.confirmed[state]) for span in windows)
    assert None not in finding.confirmed


def test_find_learns_from_findings_and_their_folders(tmp_path):
    first = corrected(1, tmp_path / "one", change=40)
    second = corrected(2, tmp_path / "two", change=70)
    history, truth = video(60, change=80)
    finding = find(history, like=[first, second])
    windows = {interval.state: interval.window for interval in finding}
    assert all(truth[s][0].iou(window) > 0.9 for s, window in windows.items())
    again = find(history, like=[tmp_path / "one", str(tmp_path / "two")])
    assert {interval.state: interval.window for interval in again} == windows
    finding.save(tmp_path / "taught")
    kept = find(tmp_path / "taught", examples={"empty": 100})
    assert 100 in kept["empty"][0].window
    assert len(kept.vocabulary.external_examples) == 4


def test_words_and_teachers_are_read_together():
    history, truth = video(60, change=80)
    finding = find(history, words(-AXES[0]), like=corrected(1))
    assert finding.vocabulary.features is not None
    assert truth["empty"][0].iou(finding["empty"][0].window) > 0.9


def test_a_finding_in_which_nothing_was_named_teaches_nothing():
    once = find(video(1)[0], words(AXES[0]))
    with refused("video1"):
        find(video(60)[0], like=once)


def test_a_store_takes_a_single_teacher(store):
    assert list(store.query(like=corrected(1))) == list(store.query(like=[corrected(1)]))


def test_windows_of_a_teacher_may_be_pairs_and_are_checked():
    history, _ = video(1)
    pairs = Teacher(history, {"empty": [(0, 59)], "filled": [(60, 119)]})
    assert pairs.confirmed["empty"] == (Window(0, 59),)
    for confirmed in (5, {"empty": 3}, {"empty": [(5, 2)]}):
        with refused("reference video1"):
            Teacher(history, confirmed)


def test_a_folder_without_a_finding_cannot_teach(tmp_path):
    with refused(tmp_path / "nothing"):
        find(video(60)[0], like=tmp_path / "nothing")


def test_a_history_of_another_encoder_names_the_remedy():
    with refused("other", "encode"):
        find(video(60)[0], like=corrected(1, encoder="other"))


def test_without_teachers_nothing_changes():
    history, _ = video(60, change=80)
    vocabulary = words(AXES[0])
    assert [*find(history, vocabulary, like=[])] == [*find(history, vocabulary)]


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store") as opened:
        opened.add([video(seed, change=30 + seed)[0] for seed in range(20, 30)])
        yield opened


def is_right(match):
    """Return whether a match covers the true window of its history in the store."""
    seed = int(match.history.removeprefix("video"))
    truth = video(seed, change=30 + seed)[1]
    return truth[match.interval.state][0].iou(match.interval.window) > 0.9


def test_a_store_is_queried_with_teachers_instead_of_words(store):
    teachers = [corrected(1, change=40), corrected(2, change=70)]
    matches = list(store.query(like=teachers))
    assert len(matches) == 20
    assert all(map(is_right, matches))
    scores = [match.object_score for match in matches]
    assert scores == sorted(scores, reverse=True)
    rows = store[matches[0].history].features.astype(float)
    mean = (rows / np.linalg.norm(rows, axis=1)[:, None]).mean(axis=0)
    assert scores[0] == pytest.approx(mean @ looks(teachers), abs=1e-3)


def test_a_store_is_queried_with_words_and_teachers(store):
    teachers = [corrected(1, change=40), corrected(2, change=70)]
    plain, both = (list(store.query(words(-AXES[0]), like=like)) for like in ((), teachers))
    assert [match.history for match in plain] == [match.history for match in both]
    assert all(map(is_right, both))
    assert not any(map(is_right, plain))


def test_a_store_refuses_nothing_to_look_for_and_teachers_of_another_encoder(store):
    with refused("vocabulary"):
        store.query()
    with refused("encoder", "other"):
        store.query(like=[corrected(1, encoder="other")])
    with refused("other"):
        store.query(words(AXES[0]), like=[corrected(1, encoder="other")])


def test_a_finding_is_read_with_its_teachers(tmp_path):
    finding = find(video(60, change=80)[0], like=[corrected(1), corrected(2)])
    again = Finding.read(finding.save(tmp_path / "taught").parent)
    assert [e.name for e in again.vocabulary.examples] == [
        e.name for e in finding.vocabulary.examples
    ]


def test_commands_learn_from_folders(tmp_path, dejacue):
    for seed in (1, 2):
        corrected(seed, tmp_path / f"teacher{seed}", change=30 + 20 * seed)
    history, truth = video(60, change=80)
    source = write_history(tmp_path / "new.history.npz", history)
    like = ("--like", tmp_path / "teacher1", "--like", tmp_path / "teacher2")
    code, out, _ = dejacue("find", source, *like, "-f", "json")
    assert code == 0
    window = next(i for i in json.loads(out)["intervals"] if i["state"] == "filled")
    assert truth["filled"][0].iou(Window(window["start"], window["end"])) > 0.9
    with Store.create(tmp_path / "store") as opened:
        opened.add([history])
    code, out, _ = dejacue("store", "query", tmp_path / "store", *like, "--jsonl")
    assert code == 0
    assert {json.loads(line)["state"] for line in out.splitlines()} == set(STATES)
    code, _, error = dejacue("store", "query", tmp_path / "store")
    assert code == 2
    assert "--like" in error
    code, _, error = dejacue("find", source, "--like", tmp_path / "store")
    assert code == 2
    assert len(error.strip().splitlines()) == 1


class Colours(ImageEncoder):
    """An encoder of pictures: the colours of nine parts."""

    name, identity, dimension, size, batch = "colours", "colours@1", 27, 24, 16
    details: ClassVar[dict[str, str]] = {}

    def encode_images(self, crops):
        pictures = np.stack(crops).reshape(len(crops), 3, 8, 3, 8, 3)
        return pictures.mean(axis=(2, 4)).reshape(len(crops), 27).astype(np.float32)


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films") / "cup"
    write_scene(folder, render(7, family="cup", topology="binary", frames=24))
    return folder


def test_a_video_is_encoded_as_its_teachers_were(film, tmp_path):
    masks, states = film / "Annotations", list(read_vocabulary(film / "vocabulary.yaml").states)
    examples = dict(zip(states, ("0", "23"), strict=True))
    options = {"masks": masks, "objects": 1}
    by_mini = find(film / "scene.mp4", examples=examples, encoder="mini", **options)
    assert (
        find(film / "scene.mp4", like=by_mini, **options).history.encoder == by_mini.history.encoder
    )
    with refused(by_mini.history.encoder) as caught:
        find(film / "scene.mp4", like=by_mini, encoder=Colours(), **options)
    command = shlex.split(str(caught.value).partition("; ")[2].partition(": ")[2])
    assert command[:2] == ["dejacue", "find"]
    assert command.count("--example") == 2
    by_colour = find(film / "scene.mp4", examples=examples, encoder=Colours(), **options)
    words = film / "vocabulary.yaml"
    finding = find(film / "scene.mp4", words, like=by_colour, encoder=Colours(), **options)
    assert finding.vocabulary.features is None
    assert any("has no words" in note for note in finding.warnings)


def test_teachers_that_show_more_or_less_of_the_picture_are_named(film):
    states = list(read_vocabulary(film / "vocabulary.yaml").states)
    examples = dict(zip(states, ("0", "23"), strict=True))
    options = {"encoder": Colours()}
    masks = {"masks": film / "Annotations", "objects": 1}
    cut_out = find(film / "scene.mp4", examples=examples, **masks, **options)
    whole = find(film / "scene.mp4", examples=examples, whole=True, **options)
    for teacher, how in ((whole, masks), (cut_out, {"whole": True})):
        finding = find(film / "scene.mp4", like=[teacher], **how, **options)
        (note,) = (note for note in finding.warnings if note.startswith(TAUGHT_BY))
        assert note.severity == "doubtful"
        assert note in finding.timeline.notes
        assert note in finding.correct({states[0]: 0}).warnings
        assert note not in finding.with_words(teacher.vocabulary).warnings
        assert note in teacher_notes([teacher], finding.history)
    alike = find(cut_out, like=[cut_out])
    assert not any(note.startswith(TAUGHT_BY) for note in alike.warnings)
    assert teacher_notes([corrected(1)], cut_out.history) == []  # nobody knows what it shows
