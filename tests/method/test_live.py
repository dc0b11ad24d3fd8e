"""A live reading: what is announced frame by frame, what is settled, and how it ends."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History, Live, Vocabulary, find
from dejacue.errors import InputError
from dejacue.finding.live import _mask
from dejacue.masks._region import sees_whole_picture
from dejacue.method import Contrast, LiveReading, Reading
from dejacue.method.localization import analyse
from dejacue.records import Interval
from dejacue.records.update import Update
from dejacue.records.vocabulary import examples_of
from dejacue_paper import generate
from dejacue_paper.data.rendered import render, write_scene

SCENE = generate(3, frames=300, recurrences=2, missing=0.05, gaps=[(120, 40)])


def stream(live: LiveReading, history: History) -> list[Update]:
    """Push every frame of a history, observed or not; then flush."""
    rows = dict(zip(history.frames.tolist(), range(len(history)), strict=True))
    updates = []
    for frame in range(int(history.frames[0]), int(history.frames[-1]) + 1):
        at = rows.get(frame)
        time_s = source = None
        if history.times_s is not None:
            time_s = float(np.interp(frame, history.frames, history.times_s))
        if at is not None and history.source_frames is not None:
            source = int(history.source_frames[at])
        row = None if at is None else history.features[at]
        updates.append(live.push(row, frame=frame, time_s=time_s, source=source))
    return [*updates, live.flush()]


def announced_states(updates: list[Update], history: History) -> dict[int, str]:
    """Return the state announced of each observed frame, revisions included."""
    announced: dict[int, str] = {}
    for update in updates:
        for revision in update.revised:
            for frame in history.frames[_inside(history, revision.window)].tolist():
                assert announced.get(frame) == revision.was
                announced[frame] = revision.now
        if update.state is not None:
            announced[update.frame] = update.state
    return announced


def _inside(history: History, window) -> np.ndarray:
    return (history.frames >= window.start) & (history.frames <= window.end)


def standing_intervals(updates: list[Update]) -> list[Interval]:
    """Return the occurrences that were closed and not withdrawn since, in time."""
    closed: list[Interval] = []
    for update in updates:
        for interval in update.withdrawn:
            closed.remove(interval)
        closed += update.closed
    return sorted(closed, key=lambda interval: interval.start)


def standing(updates: list[Update]) -> list[tuple[str, int, int]]:
    return occurrences_of(standing_intervals(updates))


def offline_labels(history: History, vocabulary: Vocabulary, **options) -> dict[int, str]:
    labels = analyse(history, vocabulary, **options).labels
    return dict(zip(history.frames.tolist(), labels, strict=True))


def occurrences_of(timeline) -> list[tuple[str, int, int]]:
    return [(interval.state, interval.start, interval.end) for interval in timeline]


def truth_of(scene) -> dict[int, str]:
    return {
        frame: state
        for state, windows in scene.references.items()
        for window in windows
        for frame in range(window.start, window.end + 1)
    }


# The end is the offline reading


@pytest.mark.parametrize(
    "readout", ["contrast", "timeline", "published", Contrast(width=2.0, bridge=3)], ids=str
)
def test_at_the_end_it_says_what_the_offline_reading_says(readout):
    live = LiveReading(SCENE.vocabulary, readout=readout)
    stream(live, SCENE.history)
    offline = analyse(live.history(SCENE.history.id), SCENE.vocabulary, readout=readout)
    history = History(SCENE.history.features, SCENE.history.frames, "live", "generated")
    again = analyse(history, SCENE.vocabulary, readout=readout)
    timeline = live.finish()
    assert timeline.to_dict() == again.to_dict()
    assert offline.intervals == again.intervals
    for name in ("cosines", "centre", "scale", "responses", "frames"):
        assert np.array_equal(getattr(timeline.evidence, name), getattr(again.evidence, name))


def test_its_history_is_what_was_pushed():
    live = LiveReading(SCENE.vocabulary)
    times = np.linspace(1.0, 9.0, len(SCENE.history))
    for row, frame, time_s in zip(SCENE.history.features, SCENE.history.frames, times, strict=True):
        live.push(row, frame=int(frame), time_s=float(time_s), source=3 * int(frame))
    history = live.history("cup", made_with={"by": "hand"})
    assert np.array_equal(history.features, SCENE.history.features)
    assert np.array_equal(history.frames, SCENE.history.frames)
    assert np.array_equal(history.times_s, times)
    assert np.array_equal(history.source_frames, 3 * SCENE.history.frames)
    assert (history.id, history.encoder, history.made_with) == ("cup", "generated", {"by": "hand"})


# What is announced on the way


THREE = ("a", "b", "c")
RETURNING = generate(
    6, frames=260, recurrences=3, noise=2.0, missing=0.1, gaps=[(90, 30)], states=THREE
)
ONCE = generate(2, frames=300, noise=3.0, states=THREE)
LIKE = generate(3, frames=200, recurrences=2)
SHOWN = {
    state: (LIKE.history, LIKE.references[state][0].start + 2) for state in ("empty", "filled")
}
TAUGHT = SCENE.vocabulary.with_examples(SHOWN)
ONE_STATE = Vocabulary({"filled": ()}, examples=examples_of({"filled": SHOWN["filled"]}))


def timed(history: History, stride: int = 1) -> History:
    """Return the history as that of a file at 12.5 frames a second, of which one of so many frames
    was taken."""
    frames = history.frames
    return History(
        history.features,
        frames,
        history.id,
        times_s=frames * stride / 12.5,
        source_frames=frames * stride,
    )


CASES = {
    "two states": (SCENE, SCENE.vocabulary, Reading()),
    "three that return": (RETURNING, RETURNING.vocabulary, Reading()),
    "exhaustive": (RETURNING, replace(RETURNING.vocabulary, exhaustive=True), Reading()),
    "in order, once": (ONCE, ONCE.vocabulary, Reading(order=THREE, irreversible=True)),
    "once": (ONCE, ONCE.vocabulary, Reading(irreversible=True)),
    "in order": (RETURNING, RETURNING.vocabulary, Reading(order=THREE)),
    "at least 9 frames": (RETURNING, RETURNING.vocabulary, Reading(stay=9)),
    "long gaps bridged": (RETURNING, RETURNING.vocabulary, Reading(bridge=40)),
    "one state": (SCENE, ONE_STATE, Reading()),
    "taught": (SCENE, TAUGHT, Reading()),
}


@pytest.mark.parametrize("delay_s", [0.0, 4.0])
@pytest.mark.parametrize("stride", [None, 1, 5])
@pytest.mark.parametrize("case", CASES)
def test_in_the_end_what_was_announced_is_what_find_finds(case, stride, delay_s):
    scene, vocabulary, readout = CASES[case]
    history = scene.history if stride is None else timed(scene.history, stride)
    live = LiveReading(vocabulary, readout=readout, delay_s=delay_s)
    updates = stream(live, history)
    offline = analyse(history, vocabulary, readout=readout)
    assert standing(updates) == occurrences_of(offline)
    announced = announced_states(updates, history)
    labels = offline_labels(history, vocabulary, readout=readout)
    assert {frame: announced.get(frame) for frame in labels} == labels
    times = {(i.start, i.end): (i.times_s, i.source) for i in offline}
    for interval in updates[-1].closed:
        assert times[interval.start, interval.end] == (interval.times_s, interval.source)


@pytest.mark.parametrize("delay_s", [1.0, 2.4, 6.0])
def test_what_is_closed_has_been_the_same_for_the_delay(delay_s):
    closed = withdrawn = 0
    for seed in range(6):
        scene = generate(seed, frames=300, recurrences=3)
        updates = stream(LiveReading(scene.vocabulary, delay_s=delay_s), scene.history)[:-1]
        for update in updates:
            assert all(interval.end <= update.frame - 5 * delay_s for interval in update.closed)
            assert update.since is None or update.since <= update.frame
            closed += len(update.closed)
            withdrawn += len(update.withdrawn)
    assert closed > 20
    assert withdrawn < closed / 4


def test_an_occurrence_is_closed_within_twice_the_delay_of_its_end():
    scene = generate(1, episodes=[("empty", 100), ("filled", 100)], noise=0.5)
    updates = stream(LiveReading(scene.vocabulary, delay_s=3.0), scene.history)
    first = next(update for update in updates if update.closed)
    assert 99 + 15 <= first.frame <= 99 + 30
    assert abs(first.closed[0].end - 99) <= 2


def test_a_revision_of_what_was_closed_is_announced():
    """A state that looked like another one until a third appeared is read anew."""
    scene = generate(
        1, episodes=[("a", 60), ("b", 60), ("a", 60), ("c", 60)], noise=4.0, states=THREE
    )
    live = LiveReading(scene.vocabulary, delay_s=0.0)
    updates = stream(live, scene.history)
    assert any(update.withdrawn for update in updates)
    assert standing(updates) == occurrences_of(live.finish())


def test_states_are_named_as_they_are_and_a_little_late():
    right, now, agreed = [], [], []
    for seed in range(10):
        scene = generate(seed, frames=400, recurrences=2, states=("a", "b", "c"))
        updates = stream(LiveReading(scene.vocabulary), scene.history)[:-1]
        truth, announced = truth_of(scene), announced_states(updates, scene.history)
        offline = offline_labels(scene.history, scene.vocabulary)
        right.append(np.mean([announced[frame] == truth[frame] for frame in announced]))
        agreed.append(np.mean([announced[frame] == offline.get(frame) for frame in announced]))
        now.append(np.mean([u.state == truth[u.frame] for u in updates if u.state]))
    assert np.mean(right) > 0.95
    assert np.mean(agreed) > 0.95
    assert 0.85 < np.mean(now) < np.mean(right)


def test_with_a_calibration_from_a_like_history_it_labels_as_offline():
    scene = generate(5, frames=400, recurrences=3, noise=1.5, states=("a", "b", "c"))
    live = LiveReading(scene.vocabulary, calibrate=scene.history)
    updates = stream(live, scene.history)[:-1]
    assert updates[0].state is not None
    announced = announced_states(updates, scene.history)
    offline = offline_labels(scene.history, scene.vocabulary)
    assert np.mean([announced[frame] == offline.get(frame) for frame in announced]) > 0.97


def test_no_states_are_found_in_the_noise_of_an_object_that_has_not_changed_yet():
    scene = generate(4, episodes=[("filled", 400)], noise=1.0)
    updates = stream(LiveReading(scene.vocabulary), scene.history)[:-1]
    assert {update.state for update in updates if update.state} == {"filled"}


def test_evidence_is_that_of_the_frames_so_far():
    live = LiveReading(SCENE.vocabulary)
    updates = stream(live, SCENE.history)
    last = next(update for update in reversed(updates[:-1]) if update.state)
    offline = live.finish().evidence
    by_state = dict(zip(SCENE.vocabulary.states, offline.responses[::2, -1], strict=True))
    assert last.evidence == pytest.approx(by_state, abs=0.5)
    assert not updates[125].evidence, "the object is away"


def test_it_says_how_long_the_first_state_is_waited_for():
    scene = generate(0)
    live = LiveReading(scene.vocabulary)
    updates = [live.push(row) for row in scene.history.features[:10]]
    assert [update.waits for update in updates] == [7, 6, 5, 4, 3, 2, 1, 0, 0, 0]
    assert [update.state is None for update in updates] == [True] * 7 + [False] * 3
    assert updates[7].revised[0].was is None
    assert tuple(updates[7].revised[0].window) == (0, 6)


def test_since_is_where_the_state_began_as_far_as_is_known():
    scene = generate(1, episodes=[("empty", 100), ("filled", 100)], noise=0.5)
    updates = stream(LiveReading(scene.vocabulary), scene.history)
    assert updates[60].since == 0
    assert abs(updates[150].since - 100) <= 2


# Gaps, times


def test_a_long_absence_cuts_a_window_and_a_short_one_does_not():
    episodes = [("empty", 100), ("filled", 150)]
    for away, windows in ((3, 2), (30, 3)):
        scene = generate(4, episodes=episodes, gaps=[(150, away)], noise=0.5)
        updates = stream(LiveReading(scene.vocabulary, readout=Reading(bridge=5)), scene.history)
        assert len(standing(updates)) == windows
        assert updates[151].state is None
    assert standing(updates)[1][2] == 149
    gone = next(u for u in updates if any(i.state == "filled" for i in u.closed))
    assert gone.frame <= 149 + 20 + 1, "it is closed while the object is still away"


def test_a_closed_interval_ends_when_the_next_frame_is_shown():
    scene = generate(1, episodes=[("empty", 100), ("filled", 100)], gaps=[(150, 30)], noise=0.5)
    frames = scene.history.frames
    history = History(scene.history.features, frames, times_s=1 + frames / 8)
    for skipped in (False, True):
        live, updates = LiveReading(scene.vocabulary), []
        rows = dict(zip(frames.tolist(), history.features, strict=True))
        for frame in range(200):
            if frame in rows or not skipped:
                updates.append(live.push(rows.get(frame), frame=frame, time_s=1 + frame / 8))
        closed = standing_intervals([*updates, live.flush()])
        assert len(closed) == 3
        for interval in closed:
            assert interval.times_s == (1 + interval.start / 8, 1 + (interval.end + 1) / 8)
        assert closed[0].to_dict()["end_s"] == closed[0].end_s


def test_frames_that_are_left_out_are_frames_in_which_it_is_not_seen():
    live, other = LiveReading(SCENE.vocabulary), LiveReading(SCENE.vocabulary)
    updates = stream(live, SCENE.history)
    pairs = zip(SCENE.history.features, SCENE.history.frames.tolist(), strict=True)
    skipped = [other.push(row, frame=frame) for row, frame in pairs] + [other.flush()]
    assert announced_states(updates, SCENE.history) == announced_states(skipped, SCENE.history)
    assert standing(updates) == standing(skipped)


def test_a_gap_of_any_length_costs_little():
    for bridge in ("auto", 5, 10**9):
        live = LiveReading(SCENE.vocabulary, readout=Contrast(bridge=bridge))
        for row in SCENE.history.features[:40]:
            live.push(row)
        update = live.push(SCENE.history.features[40], frame=10**8)
        closed = [interval.window.end for interval in (*update.closed, *live.flush().closed)]
        assert (39 in closed) == (bridge != 10**9)
        assert closed[-1] == 10**8


@pytest.mark.parametrize("rate", [0.05, 1.0, 12.0, 1000.0])
def test_any_rate_will_do(rate):
    scene = generate(1, frames=700 if rate > 100 else 150, noise=0.5)
    times = np.arange(len(scene.history)) / rate
    history = History(scene.history.features, scene.history.frames, times_s=times)
    updates = stream(LiveReading(scene.vocabulary), history)
    announced = announced_states(updates, history)
    assert len(announced) == len(history)
    assert sum(update.waits > 0 for update in updates) < 2.1 * max(1, 0.8 * rate)


@pytest.mark.parametrize("readout", [Contrast(width=0), Contrast(smoothing_s=0), Reading(switch=0)])
def test_no_smoothing_and_no_cost_are_settings_too(readout):
    updates = stream(LiveReading(SCENE.vocabulary, readout=readout), SCENE.history)
    assert len(announced_states(updates, SCENE.history)) == len(SCENE.history)


def test_half_precision_stays_as_it_is():
    half = SCENE.history.features.astype(np.float16)
    live = LiveReading(SCENE.vocabulary)
    for row in half:
        live.push(row)
    assert live.history().features.dtype == np.float16
    offline = analyse(History(half, id="live", encoder="generated"), SCENE.vocabulary)
    assert live.finish().to_dict() == offline.to_dict()


def test_a_horizon_is_in_seconds_of_which_five_frames_are_one_without_times():
    scene = generate(0, frames=200)
    live = LiveReading(scene.vocabulary, delay_s=2.0, horizon_s=4.0)
    for at, row in enumerate(scene.history.features):
        live.push(row, time_s=at / 25)
    assert live.finish().notes[-1].startswith("only the last 100 of 200 observed frames")
    untimed = LiveReading(scene.vocabulary, horizon_s=4.0)
    for row in scene.history.features:
        untimed.push(row)
    assert untimed.finish().notes[-1].startswith("only the last 20 of 200 observed frames")


# Long streams


@pytest.mark.long
def test_memory_is_bounded_by_the_horizon():
    scene = generate(0, frames=3200, recurrences=40, noise=2.0)
    live = LiveReading(scene.vocabulary, horizon_s=40)
    tracemalloc.start()
    memory = []
    for at, row in enumerate(scene.history.features):
        live.push(row)
        if at % 800 == 799:
            gc.collect()
            memory.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(memory[1:]) < memory[0] + 20_000
    assert len(live.history()) == 200
    assert live.forgotten == 3000
    timeline = live.finish()
    assert "only the last 200 of 3200 observed frames are kept" in timeline.notes[-1]
    assert all(interval.start >= 3000 for interval in timeline)


def test_without_a_horizon_everything_is_kept_and_no_note_is_made():
    live = LiveReading(SCENE.vocabulary)
    stream(live, SCENE.history)
    assert live.forgotten == 0
    assert not any("kept" in note for note in live.finish().notes)


def test_what_lasts_longer_than_the_horizon_is_known_from_its_beginning():
    episodes = [("empty", 50), ("filled", 200), ("empty", 60)]
    scene = generate(1, episodes=episodes, noise=0.5)
    live = LiveReading(scene.vocabulary, horizon_s=20.0)
    updates = [live.push(row, time_s=at / 5) for at, row in enumerate(scene.history.features)]
    assert len(live.history()) == 100
    assert abs(updates[240].since - 50) <= 2, "it began before what is kept"
    filled = next(i for update in updates for i in update.closed if i.state == "filled")
    assert abs(filled.start - 50) <= 2
    assert filled.start_s == filled.start / 5
    assert abs(filled.end - 249) <= 2
    closed = standing([*updates, live.flush()])
    assert [state for state, _, _ in closed] == ["empty", "filled", "empty"]


def test_the_same_calls_give_the_same_answers():
    first, second = (stream(LiveReading(SCENE.vocabulary), SCENE.history) for _ in range(2))
    assert [update.to_dict() for update in first] == [update.to_dict() for update in second]


def test_after_a_flush_it_goes_on():
    live = LiveReading(SCENE.vocabulary)
    rows = SCENE.history.features[:100]
    updates = [live.push(row) for row in rows[:50]]
    updates.append(live.flush())
    assert updates[-1].closed
    updates += [*(live.push(row) for row in rows[50:]), live.flush()]
    assert standing(updates) == occurrences_of(live.finish())


def test_after_a_still_picture_it_goes_on():
    """At the end of frames that look all the same no state is given; later ones are read."""
    rows = SCENE.history.features
    live = LiveReading(SCENE.vocabulary, horizon_s=6.0)
    updates = [live.push(rows[0]) for _ in range(20)]
    updates.append(live.flush())
    assert updates[-1].state is None
    assert not standing(updates)
    updates += [*(live.push(row) for row in rows[:80]), live.flush()]
    assert updates[-2].state is not None
    assert standing(updates)[-1:] == occurrences_of(live.finish())[-1:]


# What is refused


def reading_at_20() -> LiveReading:
    live = LiveReading(SCENE.vocabulary)
    for at in range(20):
        live.push(SCENE.history.features[at], time_s=at / 10)
    return live


@pytest.mark.parametrize(
    ("features", "options", "fact"),
    [
        (np.full(64, np.nan), {"time_s": 2.0}, "frame 20: features"),
        (np.zeros(64), {"time_s": 2.0}, "is a zero vector"),
        (np.ones(63), {"time_s": 2.0}, "frame 20: features have 63 dimensions"),
        (np.ones((1, 64)), {"time_s": 2.0}, (1, 1, 64)),
        (np.full(64, 1e-20), {"time_s": 2.0}, "is a zero vector"),
        (np.full(64, 1e200), {"time_s": 2.0}, "has length inf"),
        (np.ones(64, complex), {"time_s": 2.0}, "features"),
        ("text", {"time_s": 2.0}, "features"),
        ([[1], [2, 3]], {"time_s": 2.0}, "features"),
        (np.ones(64), {"time_s": 1.5}, "frame 20: times run backwards"),
        (np.ones(64), {}, "frame 20: give the times of all frames"),
        (np.ones(64), {"time_s": np.nan}, np.nan),
        (np.ones(64), {"time_s": 2.0, "frame": 19}, "frame 19"),
        (np.ones(64), {"time_s": 2.0, "frame": -1}, "frame -1"),
        (np.ones(64), {"time_s": 2.0, "frame": 20.5}, 20.5),
        (None, {"time_s": 1.0}, "comes after 1"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(features, options, fact):
    live, other = reading_at_20(), reading_at_20()
    with refused(fact):
        live.push(features, **options)
    after = [reading.push(SCENE.history.features[20], time_s=2.0) for reading in (live, other)]
    assert after[0].to_dict() == after[1].to_dict()
    assert len(live.history()) == 21


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"coordinates": "dual"}, "dual"),
        ({"readout": "contrst"}, "contrst"),
        ({"delay_s": -1}, "delay"),
        ({"delay_s": "soon"}, "delay"),
        ({"horizon_s": -2.0}, "horizon"),
        ({"horizon_s": 0.0}, "horizon"),
        ({"calibrate": generate(0, dimension=32).history}, 32),
    ],
)
def test_settings_that_do_not_fit_are_refused(options, fact):
    with refused(fact):
        LiveReading(SCENE.vocabulary, **options)


def test_a_horizon_of_one_frame_is_enough():
    live = LiveReading(SCENE.vocabulary, horizon_s=0.2, delay_s=0)
    stream(live, SCENE.history)
    assert live.observed == len(SCENE.history)


def test_examples_from_elsewhere_are_read_and_frames_to_come_are_refused():
    live = LiveReading(TAUGHT)
    stream(live, SCENE.history)
    offline, plain = (analyse(live.history(), words) for words in (TAUGHT, SCENE.vocabulary))
    assert live.finish().to_dict() == offline.to_dict()
    assert offline.evidence.cosines[0, 0] != plain.evidence.cosines[0, 0]
    with refused("examples"):
        LiveReading(SCENE.vocabulary.with_examples({"empty": 5}))
    with refused("readout", "scan"):
        LiveReading(TAUGHT, readout="published")


def test_words_without_features_are_refused():
    with refused("features"):
        LiveReading(Vocabulary({"a": ["one"], "b": ["two"]}))


def test_one_frame_is_enough_to_finish_and_none_is_refused():
    live = LiveReading(SCENE.vocabulary)
    assert live.flush() == Update(0)
    live.push(None)
    with refused("the object was not seen in any frame"):
        live.finish()
    live.push(SCENE.history.features[0])
    closed = live.flush().closed
    assert [tuple(interval.window) for interval in closed] == [(1, 1)]
    offline = analyse(History(SCENE.history.features[:1], [1], "live"), SCENE.vocabulary)
    assert live.finish().intervals == offline.intervals
    timed_one = LiveReading(SCENE.vocabulary)
    timed_one.push(SCENE.history.features[0], time_s=2.0)
    assert [(i.start_s, i.end_s) for i in timed_one.flush().closed] == [(2.0, None)]


# From pixels


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "cup"
    rendered = render(7, family="cup", topology="three", frames=60)
    write_scene(folder, rendered)
    return folder, rendered


def pushed(live: Live, folder) -> list[Update]:
    from dejacue import open_masks, open_video

    video, masks = open_video(folder / "scene.mp4"), open_masks(folder / "Annotations")
    updates = []
    for frame in video:
        mask = masks.unions(frame, [None])[0]
        updates.append(live.push(frame.image, mask=mask, time_s=frame.time_s))
    return [*updates, live.flush()]


def test_from_pixels_it_ends_with_what_find_finds(scene):
    folder, _ = scene
    updates: list[Update] = []
    live = Live(folder / "vocabulary.yaml", encoder="mini", on_update=updates.append, id="scene")
    assert pushed(live, folder) == updates
    timeline = live.finish()
    offline = find(
        folder / "scene.mp4",
        folder / "vocabulary.yaml",
        masks=folder / "Annotations",
        encoder="mini",
    )
    assert np.array_equal(timeline.history.frames, offline.history.frames)
    assert np.allclose(timeline.history.features, offline.history.features, atol=1e-5)
    windows = [
        [(m.state, m.window, m.times_s) for m in intervals] for intervals in (timeline, offline)
    ]
    assert windows[0] == windows[1]
    assert timeline.warnings == offline.warnings
    assert timeline.history.frames_looked_at == 60


def test_a_finding_of_it_is_written_and_read_again(scene, tmp_path):
    folder, _ = scene
    live = Live(folder / "vocabulary.yaml", encoder="mini", pictures=True, horizon_s=2.0)
    pushed(live, folder)
    timeline = live.finish()
    again = type(timeline).read(timeline.save(tmp_path / "found").parent)
    assert again.timeline.to_dict() == timeline.timeline.to_dict()
    assert timeline.thumbnails
    assert min(timeline.thumbnails) >= int(timeline.history.frames[0]) > 0


def test_the_whole_picture_may_be_the_object():
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    live = Live({"empty": "empty cup", "full": "full cup"}, encoder="mini", whole=True)
    for _ in range(3):
        live.push(picture)
    assert sees_whole_picture(live.finish().history)
    with refused("whole"):
        live.push(picture, box=(1, 1, 9, 9))


def test_a_box_is_the_mask_of_its_pixels(scene):
    image = np.zeros((40, 60, 3), np.uint8)
    mask = np.zeros((40, 60), bool)
    mask[5:20, 10:31] = True
    assert np.array_equal(_mask(image, None, (10, 5, 30.5, 20)), mask)
    assert _mask(image, None, (70, 5, 80, 20)) is None
    assert _mask(image, None, (-9, 5, -2, 20)) is None
    corner = np.zeros((40, 60), bool)
    corner[:3, :4] = True
    assert np.array_equal(_mask(image, None, (-5, -5, 4, 3)), corner)
    assert _mask(image, np.zeros((40, 60)), None) is None
    assert _mask(image, None, None) is None


def test_boxes_that_reach_out_of_the_picture_are_noted(scene):
    live = Live({"empty": "empty cup", "full": "full cup"}, encoder="mini")
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    for box in [(10, 5, 30, 20), (50, 5, 70, 20), (-5, 0, 15, 20), (10, 5, 30, 20)]:
        live.push(picture, box=box)
    notes = [note for note in live.finish().warnings if "reaches out of the picture" in note]
    assert len(notes) == 1
    assert "in 2 frames" in notes[0]
    assert "50%" in notes[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"box": (1, 2, 3)}, "give \\(x0, y0, x1, y1\\)"),
        ({"box": (9, 2, 3, 4)}, "x0 < x1"),
        ({"box": (1, 2, 3, np.nan)}, "x0 < x1"),
        ({"mask": np.ones((4, 4))}, "the mask has shape"),
        ({"mask": np.ones((40, 60)), "box": (1, 2, 3, 4)}, "leave one of them out"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        _mask(np.zeros((40, 60, 3), np.uint8), options.get("mask"), options.get("box"))


def test_pictures_and_words_that_do_not_fit_are_refused(scene):
    live = Live(scene[0] / "vocabulary.yaml", encoder="mini")
    with pytest.raises(InputError, match="give RGB as uint8"):
        live.push(np.zeros((4, 4, 3)), box=(0, 0, 2, 2))
    with pytest.raises(InputError, match='was encoded with "generated"'):
        Live(SCENE.vocabulary, encoder="mini")
