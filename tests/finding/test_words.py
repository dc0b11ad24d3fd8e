"""check_words and ``dejacue words`` report what an encoder makes of the words of a vocabulary."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import yaml
from helpers.errors import refused

from dejacue import History, InputError, Vocabulary, check_words, find, locate
from dejacue.files import write_history, write_vocabulary
from dejacue.finding.request import Lazy
from dejacue.finding.words import MAX_COMPARED, MAX_PAIRS
from dejacue.method import Contrast
from dejacue.method.coordinates import unit_rows
from dejacue.models.encoders import Encoder, siglip
from dejacue.models.encoders.base import spelled
from dejacue.records.words import Spelling, WordsReport
from dejacue_paper import generate
from dejacue_paper.data.rendered import render, write_scene

CUP = {"empty": ["empty cup", "cup with nothing in it"], "full": ["full cup", "filled up cup"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a rendered scene ("cup") and its finding ("finding")."""
    folder = tmp_path_factory.mktemp("words")
    cup = folder / "cup"
    write_scene(cup, render(7, family="cup", topology="three", frames=60))
    finding = find(
        cup / "scene.mp4", cup / "vocabulary.yaml", masks=cup / "Annotations", encoder="mini"
    )
    finding.save(folder / "finding")
    return folder


def vocabulary_of(rows, states, **options) -> Vocabulary:
    return Vocabulary(states, np.array(rows, float), encoder="made", **options)


def axis(k: int, dimension: int = 8) -> np.ndarray:
    return np.eye(dimension)[k]


# features


def phrased(signals) -> Vocabulary:
    """Make two states, each in phrasings 0, 1, …; phrasing k turns by signals[k] between them."""
    rows = [3 * axis(k) + sign * signal for sign in (1, -1) for k, signal in enumerate(signals)]
    names = [f"phrasing {k}" for k in range(len(signals))]
    return vocabulary_of(
        rows, {state: [f"{name}, {state}" for name in names] for state in ("a", "b")}
    )


def test_a_description_agrees_as_far_as_it_tells_the_states_apart_like_the_others():
    same, opposite, other = axis(6), -axis(6), axis(7)
    report = check_words(phrased([same, same, opposite, other]))
    assert [row.agreement for row in report.descriptions[:4]] == pytest.approx(
        [0, 0, -2 / 3, 0], abs=1e-9
    )
    assert '"phrasing 2, a" disagrees with the others about "a" (cosine −0.67)' in repr(report)
    assert '"phrasing 0, a"' not in repr(report)
    report = check_words(phrased([same, opposite]))
    assert (
        '"phrasing 0, a" and "phrasing 1, a" disagree with each other about "a" (cosine −1'
        in repr(report)
    )
    agreeing = check_words(phrased([same, same]))
    assert [row.agreement for row in agreeing.descriptions] == pytest.approx([1] * 4)
    assert agreeing.notes == ()


def test_the_contrast_is_that_of_a_plain_search():
    """Compare with all ways to choose a row for each, none for both."""
    rng = np.random.default_rng(0)
    states = {"a": ["1", "2"], "b": ["3", "4", "5"], "c": ["6", "7"]}
    vocabulary = vocabulary_of(rng.normal(size=(7, 16)), states)
    unit = unit_rows(vocabulary.features)
    beside = np.zeros((2, 16))
    for rows in ([2, 3, 4], [5, 6]):
        best = max(
            permutations(rows, 2),
            key=lambda pair: unit[0] @ unit[pair[0]] + unit[1] @ unit[pair[1]],
        )
        beside += unit[list(best)] / 2
    first, second = unit[:2] - beside
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    rows = check_words(vocabulary).descriptions
    assert [row.agreement for row in rows[:2]] == pytest.approx([cosine, cosine])


def test_phrasings_that_part_two_of_three_states_the_other_way_are_noted():
    first, second, turn = 3 * axis(0), 3 * axis(1), axis(6)
    rows = [first + turn, second - turn, first - turn, second + turn, first, second]
    report = check_words(
        vocabulary_of(rows, {"a": ["1a", "2a"], "b": ["1b", "2b"], "c": ["1c", "2c"]})
    )
    assert [row.agreement for row in report.descriptions] == pytest.approx(
        [-1] * 4 + [0] * 2, abs=0.01
    )
    assert '"1a" and "2a" disagree with each other about "a"' in repr(report)


def test_of_very_many_descriptions_the_first_are_compared_and_of_states_the_most_alike():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(80, 32))
    rows[70] = rows[35]
    report = check_words(vocabulary_of(rows, {s: [f"{s} {k}" for k in range(40)] for s in "ab"}))
    compared = [row.agreement is not None for row in report.descriptions]
    assert compared == ([True] * MAX_COMPARED + [False] * (40 - MAX_COMPARED)) * 2
    assert "only the first 30 descriptions are compared" in repr(report)
    assert '"a 35" and "b 30" are the same to the encoder' in repr(report)
    report = check_words(vocabulary_of(rows, {f"state {k}": [f"text {k}"] for k in range(80)}))
    assert len(report.state_pairs) == MAX_PAIRS
    assert (report.state_pairs[0].first, report.state_pairs[0].second) == ("state 35", "state 70")
    cosines = [pair.cosine for pair in report.state_pairs]
    assert cosines == sorted(cosines, reverse=True)
    assert "of 3,160 pairs of states, the 100 most alike are listed" in repr(report)


def test_states_are_compared_by_means_and_directions():
    rows = [axis(0) + axis(1), axis(0) + axis(1) + 0.1 * axis(2), 2 * axis(0) - axis(3)]
    report = check_words(vocabulary_of(rows, {"a": ["one"], "b": ["two"], "c": ["three"]}))
    near = report.state_pairs[0]
    unit = unit_rows(np.array(rows))
    assert near.similarity == pytest.approx(unit[0] @ unit[1])
    assert near.cosine > 0.5 > report.state_pairs[1].cosine
    assert '"a" and "b" look alike to the encoder' in repr(report)
    assert '"a", "b" and "c" have only one description' in repr(report)
    two = check_words(vocabulary_of(rows[:2], {"a": ["one"], "b": ["two"]}))
    assert two.state_pairs[0].cosine is None  # always −1


def test_descriptions_that_are_the_same_are_named_and_have_no_direction():
    same = vocabulary_of([axis(0)] * 4, {"a": ["one", "two"], "b": ["three", "four"]})
    report = check_words(same, generated(same))
    assert (
        '"one", "two", "three" and "four" are the same to the encoder, so it cannot tell "a" and '
        '"b" apart'
    ) in repr(report)
    assert [row.agreement for row in report.descriptions] == [1] * 4
    assert report.state_pairs[0].similarity == pytest.approx(1)
    json.loads(report.to_json())  # no NaN
    twice = vocabulary_of([axis(0), axis(0), axis(1)], {"a": ["one", "two"], "b": ["three"]})
    assert '"one" and "two" are the same to the encoder, so one of them' in repr(check_words(twice))


def generated(vocabulary: Vocabulary) -> History:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, vocabulary.features.shape[1]))
    return History(rows, range(60), "made", "made")


# on a history


def test_windows_are_those_of_the_readout():
    scene = generate(11, frames=300, signal=0.6, descriptions=3)
    history, vocabulary = scene.history, scene.vocabulary
    report = check_words(vocabulary, history)
    timeline = locate(history, vocabulary, readout=Contrast(pooling=0))
    alone = {row.description: row.window for row in timeline}
    assert {row.text: row.window for row in report.descriptions} == alone
    together = locate(history, vocabulary, readout="contrast")
    assert all(row.state_window == together[row.state][0].window for row in report.descriptions)
    assert report.history == history.id


def test_a_description_that_finds_other_frames_than_its_state_is_named():
    rows = [axis(0) + 3 * axis(1), axis(0) + axis(2), axis(0) + axis(3), axis(0) - axis(3)]
    vocabulary = vocabulary_of(rows, {"a": ["loud", "soft"], "b": ["three", "four"]})
    frames = np.repeat([axis(0), axis(0) + axis(1), axis(0), axis(0) + axis(2)], 20, axis=0)
    report = check_words(vocabulary, History(frames, range(80), "x", "made"))
    loud, soft = report.descriptions[:2]
    assert loud.window & loud.state_window
    assert not soft.window & soft.state_window
    assert f'"soft" alone finds frames {soft.window.start} – {soft.window.end}' in repr(report)
    assert '"loud" alone' not in repr(report)


def test_of_frames_that_all_look_the_same_nothing_is_said():
    scene = generate(3)
    still = replace(scene.history, features=np.ones_like(scene.history.features))
    report = check_words(scene.vocabulary, still)
    assert report.history is None
    assert report.notes[0].severity == "meaningless"
    assert json.loads(report.to_json())["notes"][0] == report.notes[0]
    assert report.descriptions == check_words(scene.vocabulary).descriptions


def test_states_that_get_the_same_frames_are_named():
    """Two of three states mean the same, but for a trace."""
    rng = np.random.default_rng(2)
    rows = [axis(0) + axis(1), axis(0) + axis(1) + 1e-3 * axis(2), axis(0) - axis(1)]
    frames = np.repeat([axis(0) + axis(1), axis(0) - axis(1)], 40, axis=0)
    history = History(frames + 0.05 * rng.normal(size=frames.shape), range(80), "x", "made")
    report = check_words(vocabulary_of(rows, {"a": ["one"], "b": ["two"], "c": ["three"]}), history)
    assert report.state_pairs[0].overlap == 1
    assert '"a" and "b" get mostly the same frames (tIoU 1.00)' in repr(report)


def test_notes_stay_sentences_however_many_and_long_the_descriptions_are():
    rng = np.random.default_rng(4)
    texts = {state: [f"{state} {k} " + "x" * 500 for k in range(12)] for state in ("a", "b")}
    vocabulary = vocabulary_of(rng.normal(size=(24, 8)), texts)
    report = check_words(vocabulary, generated(vocabulary))
    assert any("more like these" in note for note in report.notes)
    assert max(map(len, report.notes)) < 600


# encoders


def test_words_that_mini_does_not_know_are_named():
    report = check_words(
        {"empty": ["empty cup", "grublix cup"], "full": ["full cup " + "very " * 30]},
        encoder="mini",
    )
    spelling = {row.text: row.spelling for row in report.descriptions}
    assert spelling["empty cup"].unknown == ()
    assert spelling["grublix cup"].unknown == ("grublix",)
    assert spelling["full cup " + "very " * 30].cut.split() == ["very"] * 15  # 20 with "a photo of"
    assert 'the encoder does not know "grublix" and "very"; use other words' in report.notes
    raw = check_words(
        Lazy({"empty": ["empty cup"], "full": ["full cup " + "very " * 30]}, {"templates": "raw"}),
        encoder="mini",
    )
    assert raw.descriptions[1].spelling.cut.split() == ["very"] * 12


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Make one that knows few words, whole or in pieces, and has a mark for unknown letters."""
    import tokenizers

    words = ["<pad>", "<eos>", "<unk>", "cup", "empty", "esp", "##res", "##so", "a", "photo", "of"]
    model = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({w: k for k, w in enumerate(words)}, unk_token="<unk>")
    )
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A <eos>", special_tokens=[("<eos>", 1)]
    )
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    model.save(str(path))
    return siglip.Tokenizer(path, length=8)


def test_a_tokenizer_says_what_it_does_not_know_what_falls_apart_and_what_is_cut(tokenizer):
    spelling = tokenizer.spelling("Empty wumpf espresso a cup zzz")
    assert (spelling.unknown, spelling.in_pieces, spelling.cut) == (
        ("wumpf",),
        ("espresso",),
        "zzz",
    )
    assert tokenizer.spelling("empty cup") == Spelling()
    assert tokenizer.spelling("cup " * 9).cut == "cup cup"


def test_a_word_that_is_spelled_in_bytes_is_not_known():
    """SigLIP 2 does so with letters that it has no piece for."""
    import tokenizers

    pieces = ["<unk>", "a", "é", *(f"<0x{byte:02X}>" for byte in range(256))]
    model = tokenizers.Tokenizer(
        tokenizers.models.BPE({p: k for k, p in enumerate(pieces)}, [], byte_fallback=True)
    )
    assert spelled("a aé ø", model.encode("a aé ø")) == Spelling(unknown=("ø",))


# files, examples, errors


def test_a_finding_its_folder_and_its_history_give_the_same(folder):
    from dejacue import Finding
    from dejacue.files import read_history

    words = folder / "cup" / "vocabulary.yaml"
    history = next((folder / "finding").glob("*.history.npz"))
    places = [folder / "finding", Finding.read(folder / "finding"), history, read_history(history)]
    reports = [check_words(words, place).to_json() for place in places]
    assert len(set(reports)) == 1
    assert json.loads(reports[0])["descriptions"][0]["window"][0] >= 0


def test_examples_are_left_out_and_a_vocabulary_of_examples_alone_is_refused():
    scene = generate(3)
    plain = check_words(scene.vocabulary)
    report = check_words(scene.vocabulary.with_examples(empty=[3], filled=[200]))
    assert report.descriptions == plain.descriptions
    assert "only its words are checked" in report.notes[0]
    with pytest.raises(InputError, match='describe "a" and "b"'):
        check_words({"a": {"examples": [1]}, "b": {"examples": [2]}}, encoder="mini")
    with pytest.raises(InputError, match=r'two states or more, all with words.*describe "b"'):
        check_words({"a": "one", "b": {"examples": [2]}}, encoder="mini")
    with pytest.raises(InputError, match="describe another state"):
        check_words({"a": {"words": "one", "examples": [1]}}, encoder="mini")


def test_what_does_not_fit_is_refused_in_one_sentence(folder, tmp_path):
    scene = generate(3)
    vocabulary = replace(scene.vocabulary, encoder="one")
    other = replace(scene.history, encoder="another")
    with pytest.raises(InputError, match='"another", but the vocabulary with "one"'):
        check_words(vocabulary, other)
    with refused("encoder", "mini"):
        check_words(vocabulary, encoder="mini")
    with refused("encoder", "siglip2"):
        check_words(CUP, folder / "finding", encoder="siglip2")
    with refused("encoder", "minni"):
        check_words(CUP, encoder="minni")
    with refused(folder / "cup" / "scene.mp4"):
        check_words(CUP, folder / "cup" / "scene.mp4", encoder="mini")
    with pytest.raises(InputError, match="name the encoder for the words"):
        check_words(CUP, replace(scene.history, encoder=None))
    with pytest.raises(InputError, match="knows none of its words"):
        check_words({"a": ["grublix"], "b": ["wumpf"]}, encoder="mini")


def test_an_encoder_without_words_is_refused():
    class Pictures(Encoder):
        name = identity = "pictures"
        dimension, size, details, has_text = 4, 8, {}, False

        def encode_images(self, crops):
            return np.ones((len(crops), 4), np.float32)

        def encode_texts(self, texts):
            raise AssertionError

    with pytest.raises(InputError, match="pictures has no words"):
        check_words(Vocabulary(CUP).with_examples(empty=[1], full=[2]), encoder=Pictures())


# the command


def test_the_command_shows_tables_and_notes(dejacue, tmp_path):
    path = tmp_path / "cup.yaml"
    path.write_text(yaml.safe_dump({**CUP, "empty": [*CUP["empty"], "grublix [bold] cup"]}))
    ran = dejacue("words", path, "--encoder", "mini")
    assert ran.code == 0, ran.err
    for part in (
        "descriptions",
        "pairs of states",
        'note: the encoder does not know "grublix"',
    ):
        assert part in ran.out
    assert "[bold]" in ran.out
    assert "below 0 it disagrees" in ran.out
    assert "frames" not in ran.out


def test_on_a_history_the_command_shows_windows(dejacue, folder):
    ran = dejacue("words", folder / "cup" / "vocabulary.yaml", folder / "finding")
    assert ran.code == 0, ran.err
    row = check_words(folder / "cup" / "vocabulary.yaml", folder / "finding").descriptions[0]
    assert f"{row.window.start} – {row.window.end}" in ran.out
    assert f"{row.state_window.start} – {row.state_window.end}" in ran.out
    assert "tIoU" in ran.out


def test_no_number_and_no_state_is_broken_where_the_screen_is_narrow(
    dejacue, tmp_path, monkeypatch
):
    states = {
        "partially_peeled": ["partially peeled banana", "banana with part of the peel pulled down"],
        "mostly_peeled": ["mostly peeled banana", "banana with most of the peel pulled down"],
        "peel_initiated": ["peeling initiated", "banana with the peel starting to open"],
    }
    rng = np.random.default_rng(0)
    vocabulary = vocabulary_of(rng.normal(size=(6, 8)), states)
    write_vocabulary(tmp_path / "v.npz", vocabulary)
    write_history(tmp_path / "h.npz", generated(vocabulary))
    monkeypatch.setenv("COLUMNS", "80")
    ran = dejacue("words", tmp_path / "v.npz", tmp_path / "h.npz")
    assert ran.code == 0, ran.err
    rows = [line for line in ran.out.splitlines() if line.startswith("│")]
    assert all(sum(line.count(f" {state} ") for line in rows) == 2 + 2 for state in states)
    for pair in check_words(vocabulary, generated(vocabulary)).state_pairs:
        assert any(line.endswith(f"{pair.overlap:.2f} │") for line in rows)


def test_json_is_the_report(dejacue, tmp_path):
    scene = generate(11, signal=0.6)
    write_history(tmp_path / "x.history.npz", scene.history)
    write_vocabulary(tmp_path / "x.npz", scene.vocabulary)
    ran = dejacue("words", tmp_path / "x.npz", tmp_path / "x.history.npz", "--json")
    assert ran.code == 0, ran.err
    report = check_words(scene.vocabulary, scene.history)
    assert json.loads(ran.out) == json.loads(report.to_json())
    assert json.loads(ran.out)["schema"] == "dejacue.words/1"
    assert isinstance(report, WordsReport)


def test_the_command_refuses_in_one_line(dejacue, tmp_path):
    ran = dejacue("words", tmp_path / "none.yaml", "--encoder", "mini")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
