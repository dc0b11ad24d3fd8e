"""find() with nothing but a name: cuts, several instances, objects that leave and return, none."""

from __future__ import annotations

import base64
import gc
import io

import numpy as np
import pytest
from helpers.colour_tracker import Colour
from helpers.errors import refused
from helpers.films import CUPS, RATE, ColourRows, CupDetector, Film, cup_pixels
from PIL import Image, ImageColor

import dejacue
from dejacue.cli.tables import objects_table
from dejacue.errors import Cancelled, SeveralProblems
from dejacue.finding.by_name import read_search, table_row
from dejacue.masks import open_masks
from dejacue.models.detectors import Detection
from dejacue.models.trackers import read_notes
from dejacue.records._html import COLOURS
from dejacue.records.vocabulary import Example
from dejacue.video.video import open_video, write_video

EXAMPLES = {"early": [0], "late": [40]}
OPTIONS = {"name": "cup", "examples": EXAMPLES}


def search(path, folder=None, detector=None, tracker=None, **options):
    return dejacue.find(
        path,
        encoder=ColourRows(),
        detector=detector or CupDetector(),
        tracker=tracker or Colour(),
        folder=folder,
        **{**OPTIONS, **options},
    )


def unit(rows):
    """Return rows of length 1: the encoder of these tests gives others, which a store mends."""
    return rows / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)


def search_each(path):
    options = {**OPTIONS, "encoder": ColourRows(), "detector": CupDetector(), "tracker": Colour()}
    return dejacue.find_each(path, **options)


def saved(tmp_path, film):
    return write_video(tmp_path / "film.mp4", film.frames, RATE)


def written(folder):
    return open_masks(folder / "masks", match=read_notes(folder / "masks").match)


def tracks(masks, path):
    """Return for each object and frame which cup its mask shows; None: none."""
    ids = masks.ids()
    shown = {id: [] for id in ids}
    for frame in open_video(path):
        for id, mask in zip(ids, masks.unions(frame, [frozenset([id]) for id in ids]), strict=True):
            share = [
                0 if mask is None else cup_pixels(frame.image, c)[mask].mean() for c in range(4)
            ]
            shown[id].append(int(np.argmax(share)) if max(share) > 0.5 else None)
    return shown


@pytest.fixture(scope="module")
def film():
    """Two cups that cross; another place without them; both again, seen from elsewhere."""
    made = Film().shot(20, (0, 5, 70, 6), (1, 70, 5, 26))
    made.shot(12, background=1)
    return made.shot(16, (0, 60, 30, 20), (1, 10, 20, 30), background=2)


@pytest.fixture(scope="module")
def path(film, tmp_path_factory):
    return saved(tmp_path_factory.mktemp("by-name"), film)


def test_an_object_is_found_by_name_and_followed_through_all_shots(path, tmp_path, film) -> None:
    finding = search(path, tmp_path)
    shown = tracks(written(tmp_path), path)
    assert shown == {
        cup + 1: [cup if cup in places else None for places in film.places] for cup in (0, 1)
    }
    assert finding.history.source_frames.tolist() == [
        at for at, places in enumerate(film.places) if 0 in places
    ]
    assert {note.severity for note in finding.warnings} == {"information"}
    said = " ".join(finding.warnings)
    assert "found 4 instances" in said
    assert "2 objects were found" in said
    again = CupDetector()
    assert (search(path, tmp_path, again).history.features == finding.history.features).all()
    assert again.looks == 0  # what was found before is not looked for again


def test_the_name_comes_from_the_vocabulary_and_each_object_can_be_asked_for(path) -> None:
    states = {"early": (), "late": ()}
    examples = [Example("early", (0, 0)), Example("late", (40, 40))]
    words = dejacue.Vocabulary(states, object="cup", examples=examples)
    options = {"encoder": ColourRows(), "detector": CupDetector(), "tracker": Colour()}
    findings = dejacue.find_each(path, words, **options)
    assert [finding.history.id for finding in findings] == ["film-1", "film-2"]
    second = dejacue.find(path, words, objects=2, **options)
    assert (second.history.features == findings[1].history.features).all()


def test_masks_that_are_located_are_taken_as_they_are(path) -> None:
    masks = dejacue.locate_object(
        path, name="cup", detector=CupDetector(), tracker=Colour(), encoder=ColourRows()
    )
    assert masks.objects == {"film": frozenset([1])}  # the best of two
    assert masks.ids() == (1, 2)
    words = {"examples": {"early": [0], "late": [40]}, "encoder": ColourRows()}
    finding = dejacue.find(path, masks=masks, **words)
    (history,) = dejacue.encode(path, masks, ColourRows()).values()
    assert np.array_equal(finding.history.features, history.features)
    assert set(masks.notes) <= set(finding.warnings)
    folder = masks.path.parent
    assert folder.is_dir()
    del masks, finding
    gc.collect()
    assert not folder.exists()  # nothing reads them any more


def test_an_object_that_leaves_and_returns_elsewhere_is_followed_again(tmp_path) -> None:
    film = Film().shot(10, (0, 80, 80, 10))
    film.shot(60, (0, 70, 230, 10))  # leaves to the right
    film.cuts.pop()

    class Forgetful(Colour):
        """Loses what has left the picture, as a real tracker does, until a prompt shows it."""

        def session(self):
            session = super().session()
            step, lost = session.step, set()

            def forgetting(image, prompts=()):
                lost.difference_update(prompt.object for prompt in prompts)
                seen = step(image, prompts)
                lost.update(id for id, one in seen.items() if not one.mask.any())
                return {
                    id: type(one)(one.mask & (id not in lost), 0.0 if id in lost else one.presence)
                    for id, one in seen.items()
                }

            session.step = forgetting
            return session

    film.shot(40, (0, -60, 50, 30))  # comes back from the left
    path = saved(tmp_path, film)
    examples = {"early": [0], "late": [105]}
    search(path, tmp_path / "out", tracker=Forgetful(), examples=examples)
    shown = tracks(written(tmp_path / "out"), path)[1]
    back = next(at for at in range(70, len(shown)) if 0 in film.places[at])
    assert shown[:5] == [0] * 5  # followed back from where it was found
    assert shown[-10:] == [0] * 10
    assert shown[back : back + 3 * RATE].count(0) > 0


def test_the_report_and_the_command_show_all_objects_by_their_numbers(path, tmp_path) -> None:
    finding = search(path, tmp_path / "out")
    picture = (tmp_path / "out" / "objects.png").read_bytes()
    assert base64.b64encode(picture).decode() in finding.report()
    assert 'class="objects"' in finding.report(tmp_path / "out" / "report.html").read_text()
    with Image.open(io.BytesIO(picture)) as opened:
        colours = {colour for _, colour in opened.convert("RGB").getcolors(1 << 20)}
    for number in (1, 2):
        assert ImageColor.getrgb(COLOURS[number - 1]) in colours
    objects = read_search(tmp_path / "out" / "masks")
    rows = [table_row(objects, number) for number in (1, 2)]
    assert {place for _, place, *_ in rows} == {"left", "right"}
    assert objects_table(objects, [1, 2]).row_count == 2
    assert 'class="objects"' not in search(path, name=None, whole=True).report()


@pytest.mark.parametrize("number", [1, 2])
def test_an_object_is_taken_by_its_number(path, tmp_path, number) -> None:
    chosen = search(path, tmp_path / str(number), objects=[number])
    histories = [finding.history for finding in search_each(path)]
    assert np.array_equal(chosen.history.features, histories[number - 1].features)


class GuidedDetector(CupDetector):
    """Finds cups of the colour of a picture."""

    example_threshold = 0.6

    def detect_like(self, picture, example):
        colour = np.median(example.reshape(-1, 3), axis=0)
        cup = int(np.argmin(np.abs(np.array(CUPS) - colour).sum(axis=1)))
        rows, columns = np.nonzero(cup_pixels(picture, cup))
        if len(rows) < 20:
            return []
        box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        return [Detection(tuple(map(float, box)), min(len(rows) / 144, 1.0), "")]


@pytest.mark.parametrize("cup", [0, 1])
def test_a_picture_of_the_object_finds_it_instead_of_a_name(path, tmp_path, cup) -> None:
    Image.new("RGB", (20, 30), CUPS[cup]).save(tmp_path / "object.png")
    finding = search(
        path,
        tmp_path / "out",
        GuidedDetector(),
        name=str(tmp_path / "object.png"),
    )
    expected = [cup] * 20 + [None] * 12 + [cup] * 16
    assert tracks(written(tmp_path / "out"), path) == {1: expected}
    assert any("object like the example" in text for text in finding.warnings)
    with refused("cups"):  # which takes names alone
        search(path, tmp_path / "names", name=str(tmp_path / "object.png"))
    for broken in ("none.png", "text.jpg"):
        (tmp_path / "text.jpg").write_text("cup")
        with refused(tmp_path / broken, "object"):
            search(path, None, GuidedDetector(), name=str(tmp_path / broken))


def test_nothing_found_is_a_clear_answer(path, tmp_path) -> None:
    with refused("object", "looked at", "box"):
        search(path, tmp_path, name="kettle")
    assert not (tmp_path / "masks").exists()


@pytest.mark.parametrize("stop", [3, 25])
def test_a_stopped_search_goes_on_and_ends_with_the_same_bytes(path, tmp_path, stop) -> None:
    with pytest.raises(Cancelled):
        search(path, tmp_path / "stopped", tracker=Colour(stop))
    search(path, tmp_path / "stopped")
    search(path, tmp_path / "whole")
    for file in (tmp_path / "whole" / "masks").iterdir():
        assert (tmp_path / "stopped" / "masks" / file.name).read_bytes() == file.read_bytes()


def test_objects_that_look_different_are_not_joined_across_shots(tmp_path) -> None:
    film = Film().shot(10, (0, 20, 30, 10)).shot(10, (1, 20, 30, 10), background=1)
    path = saved(tmp_path, film)
    finding = search(path, tmp_path / "out", examples={"early": [0], "late": [9]})
    assert tracks(written(tmp_path / "out"), path) == {
        1: [0] * 10 + [None] * 10,
        2: [None] * 10 + [1] * 10,
    }
    assert finding.history.source_frames.tolist() == list(range(10))


def test_ingest_finds_objects_by_name_and_gives_the_rows_of_find(path, tmp_path) -> None:
    manifest = tmp_path / "films.csv"
    manifest.write_text(
        "video,object,objects,id,whole,fixed\n"
        f"{path},cup,,best,,\n{path},cup,all,each,,\n{path},kettle,,none,,\n"
        f"{path},cup,,region,no,5 6 25 30\n{path},film,,picture,yes,\n".replace(
            "5 6 25 30", '"5,6,25,30"'
        )
    )
    how = {"encoder": ColourRows(), "detector": CupDetector(), "tracker": Colour(), "workers": 1}
    done = dejacue.ingest(manifest, tmp_path / "store", **how)
    assert [failure.id for failure in done.failed] == ["none"]
    assert "looked at" in done.failed[0].what
    expected = {
        "best": search(path),
        **dict(zip(("each-1", "each-2"), search_each(path), strict=True)),
        "region": search(path, name=None, box=(5, 6, 25, 30), fixed=True),
        "picture": search(path, name=None, whole=True),
    }
    with dejacue.Store.open(tmp_path / "store") as store:
        assert set(store.ids()) == set(expected)
        for id, finding in expected.items():
            assert np.allclose(unit(store[id].features), unit(finding.history.features), atol=1e-3)
            assert np.array_equal(store[id].source_frames, finding.history.source_frames)
    again = dejacue.ingest(manifest, tmp_path / "store", **how)
    assert not again.added
    assert set(again.skipped) == set(expected)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"object": "?"},
        {"object": "c" * 10_000},
        {"whole": "perhaps"},
        {"fixed": "1,2,3"},
        {"whole": "yes", "fixed": "1,2,3,4"},
    ],
)
def test_a_row_that_does_not_say_where_the_object_is_is_refused(path, tmp_path, row) -> None:
    with pytest.raises(SeveralProblems) as refusal:
        dejacue.ingest([{"video": str(path), **row}], tmp_path / "store", encoder=ColourRows())
    assert len(refusal.value.problems) == 1
    assert not (tmp_path / "store").exists()


def random_film(seed: int) -> Film:
    """Two to four shots with one to three cups each, which move, cross, leave and return."""
    random = np.random.default_rng(seed)
    film = Film()
    cups = random.permutation(len(CUPS))[: random.integers(1, 4)]
    for number in range(random.integers(2, 5)):
        inside = [cup for cup in cups if random.random() < 0.8]
        paths = [
            (int(cup), *random.integers(-30, 110, 2).tolist(), 2 + 15 * lane)
            for lane, cup in enumerate(inside)
        ]
        film.shot(int(random.integers(15, 40)), *paths, background=number)
    return film


@pytest.mark.long
def test_the_right_instance_in_random_films(tmp_path) -> None:
    right = frames = 0
    for seed in range(16):
        film = random_film(seed)
        path = write_video(tmp_path / f"{seed}.mp4", film.frames, RATE)
        if not any(film.places):
            continue
        models = {"detector": CupDetector(), "tracker": Colour(), "encoder": ColourRows()}
        masks = dejacue.locate_object(path, name="cup", objects="all", **models)
        for shown in tracks(masks, path).values():
            seen = [cup for cup in shown if cup is not None]
            cup = max(set(seen), key=seen.count)
            truth = [cup if cup in places else None for places in film.places]
            right += sum(one == other for one, other in zip(shown, truth, strict=True))
            frames += len(shown)
    assert right / frames >= 0.95
