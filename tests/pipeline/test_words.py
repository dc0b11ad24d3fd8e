"""check_words and ``dejacue words`` report what an encoder makes of the words of a vocabulary."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml
from helpers.errors import refused

from dejacue import History, InputError, Vocabulary, check_words, find, locate
from dejacue.files import read_vocabulary, write_history, write_vocabulary
from dejacue.method import Contrast, evidence
from dejacue.method.coordinates import COORDINATES, query_directions, unit_rows
from dejacue.method.suggestions import object_of, suggest
from dejacue.method.wording import MAX_PAIRS, contrast_weights
from dejacue.pipeline import EncoderOptions
from dejacue.records.words import Spelling, WordsReport
from dejacue.sources.encoders import Encoder, siglip
from dejacue.sources.encoders.base import spelled
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
    finding.write(folder / "finding")
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


def test_descriptions_are_compared_beside_those_that_are_phrased_alike():
    same, opposite, other = axis(6), -axis(6), axis(7)
    report = check_words(phrased([same, same, opposite, other]))
    cosines = {(p.first, p.second): p.cosine for p in report.pairs if p.state == "a"}
    names = [f"phrasing {k}, a" for k in range(4)]
    assert cosines[names[0], names[1]] == pytest.approx(1)
    assert cosines[names[0], names[2]] == pytest.approx(-1)
    assert cosines[names[0], names[3]] == pytest.approx(0, abs=1e-9)
    assert [row.agreement for row in report.descriptions[:4]] == pytest.approx(
        [0, 0, -2 / 3, 0], abs=1e-9
    )
    assert 'phrasing 2, a" disagree about "a" (cosine −1.00)' in repr(report)


def test_phrasings_that_part_two_of_three_states_the_other_way_are_noted():
    first, second, turn = 3 * axis(0), 3 * axis(1), axis(6)
    rows = [first + turn, second - turn, first - turn, second + turn, first, second]
    report = check_words(
        vocabulary_of(rows, {"a": ["1a", "2a"], "b": ["1b", "2b"], "c": ["1c", "2c"]})
    )
    assert report.state_pairs[0].agreement == pytest.approx(-1)
    assert 'descriptions of "a" and "b" disagree on the difference' in repr(report)


def test_the_contrast_is_that_of_a_plain_search():
    """Compare with all ways to choose a row for each, none for both."""
    rng = np.random.default_rng(0)
    unit = unit_rows(rng.normal(size=(7, 16)))
    others = [np.array([2, 3, 4]), np.array([5, 6])]
    beside = np.zeros((2, 16))
    for rows in others:
        best = max(
            ((i, j) for i in rows for j in rows if i != j),
            key=lambda pair: unit[0] @ unit[pair[0]] + unit[1] @ unit[pair[1]],
        )
        beside += unit[list(best)] / 2
    labels = np.array([0, 0, 1, 1, 1, 2, 2])
    for row, weights in enumerate(contrast_weights(unit, labels, np.array([[0, 1]]))):
        assert weights[0] @ unit == pytest.approx(unit[row] - beside[row])


def test_of_very_many_pairs_those_are_compared_that_may_be_wrong():
    """Descriptions of a state that are least alike, and states that are most alike."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, 32)) + 2
    rows[7], rows[150] = -rows[3], rows[20]  # the opposite of another of "a"; the same, elsewhere
    texts = {state: [f"{state} {k}" for k in range(100)] for state in "ab"}
    report = check_words(vocabulary_of(rows, texts))
    assert len(report.pairs) == MAX_PAIRS
    assert ("a 3", "a 7") in {(pair.first, pair.second) for pair in report.pairs}
    assert "of 9,900 pairs of descriptions of a state, only the 2,000" in report.notes[0]
    assert '"a 20" and "b 50" are the same to the encoder' in repr(report)
    names = {f"state {k}": [f"text {k}"] for k in range(200)}
    pairs = check_words(vocabulary_of(rows, names)).state_pairs
    assert len(pairs) == MAX_PAIRS
    assert ("state 20", "state 150") in {(pair.first, pair.second) for pair in pairs}


def test_what_a_description_adds_is_the_turn_of_its_states_direction():
    vocabulary = generate(3, descriptions=3).vocabulary
    report = check_words(vocabulary)
    system = COORDINATES["vocabulary"]
    before = query_directions(vocabulary, system, 1.0).states[0]
    states = dict(vocabulary.states)
    first = next(iter(states))
    fewer = Vocabulary({**states, first: states[first][1:]}, vocabulary.features[1:])
    after = query_directions(fewer, system, 1.0).states[0]
    assert report.descriptions[0].kept == pytest.approx(float(before @ after), abs=1e-6)
    assert report.descriptions[0].kept < 1


def test_states_are_compared_by_means_and_directions():
    rows = [axis(0) + axis(1), axis(0) + axis(1) + 0.1 * axis(2), 2 * axis(0) - axis(3)]
    report = check_words(vocabulary_of(rows, {"a": ["one"], "b": ["two"], "c": ["three"]}))
    near, far, _ = report.state_pairs
    unit = unit_rows(np.array(rows))
    assert near.similarity == pytest.approx(unit[0] @ unit[1])
    assert near.cosine > 0.5 > far.cosine
    assert near.agreement is None
    assert '"a" and "b" point the same way' in repr(report)
    assert '"a", "b" and "c" have only one description' in repr(report)
    norms = query_directions(
        vocabulary_of(rows, {"a": ["1"], "b": ["2"], "c": ["3"]}), COORDINATES["vocabulary"]
    ).residual_norms
    assert [row.residual_norm for row in report.states] == pytest.approx(norms.tolist())


def test_descriptions_that_are_the_same_are_named_and_have_no_direction():
    same = vocabulary_of([axis(0)] * 4, {"a": ["one", "two"], "b": ["three", "four"]})
    report = check_words(same, generated(same))
    assert '"one" and "two" ("a") are the same to the encoder' in repr(report)
    assert '"one" and "three" are the same to the encoder, so it cannot tell "a" and "b"' in repr(
        report
    )
    assert [pair.cosine for pair in report.pairs] == [1, 1]
    assert [row.kept for row in report.descriptions] == [None] * 4
    assert report.state_pairs[0].cosine is None
    json.loads(report.to_json())  # no NaN


def generated(vocabulary: Vocabulary) -> History:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, vocabulary.features.shape[1]))
    return History(rows, range(60), "made", "made")


def test_a_repeated_description_counts_once():
    rows = [axis(0), axis(0), axis(1), axis(2)]
    report = check_words(vocabulary_of(rows, {"a": ["one", "one", "two"], "b": ["three"]}))
    assert [row.text for row in report.descriptions] == ["one", "two", "three"]
    assert report.notes[0] == '"one" appears 2 times in "a"; it counts once'
    assert not any("appears 1 times" in note for note in report.notes)


# on a history


def test_windows_and_evidence_are_those_of_the_readout():
    scene = generate(11, frames=300, signal=0.6, descriptions=3)
    history, vocabulary = scene.history, scene.vocabulary
    report = check_words(vocabulary, history)
    timeline = locate(history, vocabulary, readout=Contrast(pooling=0))
    alone = {row.description: row.window for row in timeline}
    assert [row.window for row in report.descriptions] == list(
        map(alone.get, vocabulary.descriptions)
    )
    together = locate(history, vocabulary, readout="contrast")
    for row in report.states:
        assert row.window == together[row.state][0].window
    pair = report.pairs[0]
    assert pair.overlap == alone[pair.first].iou(alone[pair.second])
    states = dict(vocabulary.states)
    first = next(iter(states))
    fewer = Vocabulary({**states, first: states[first][1:]}, vocabulary.features[1:])
    left = locate(history, fewer, readout="contrast")[first][0].window
    assert report.descriptions[0].without == left.iou(report.states[0].window)
    assert report.history_id == history.id


def test_the_correlation_is_that_of_the_evidence_of_the_contrasts():
    scene = generate(5, signal=0.6)
    history, vocabulary = scene.history, scene.vocabulary
    (pair, *_) = check_words(vocabulary, history).pairs
    unit = unit_rows(vocabulary.features)
    like = unit @ unit.T
    parallel = like[0, 2] + like[1, 3] >= like[0, 3] + like[1, 2]
    rows = [unit[0] - unit[2 if parallel else 3], unit[1] - unit[3 if parallel else 2]]
    plain = Vocabulary({"x": ["x"], "y": ["y"]}, np.array(rows))
    seen = evidence(history, plain, coordinates="absolute", readout=Contrast(pooling=0)).responses
    assert pair.correlation == pytest.approx(np.corrcoef(seen)[0, 1], abs=1e-5)


def test_states_that_get_the_same_frames_are_named():
    """Two of three states mean the same, but for a trace."""
    rng = np.random.default_rng(2)
    rows = [axis(0) + axis(1), axis(0) + axis(1) + 1e-3 * axis(2), axis(0) - axis(1)]
    frames = np.repeat([axis(0) + axis(1), axis(0) - axis(1)], 40, axis=0)
    history = History(frames + 0.05 * rng.normal(size=frames.shape), range(80), "x", "made")
    report = check_words(vocabulary_of(rows, {"a": ["one"], "b": ["two"], "c": ["three"]}), history)
    assert report.state_pairs[0].overlap == 1
    assert '"a" and "b" get the same frames of this history' in repr(report)
    assert '"a" and "b" are hard to tell apart on this history' in repr(report)


def test_a_window_that_hangs_on_one_description_is_named():
    rows = [axis(0) + 3 * axis(1), axis(0) + axis(2), axis(0) + axis(3), axis(0) - axis(3)]
    vocabulary = vocabulary_of(rows, {"a": ["loud", "soft"], "b": ["three", "four"]})
    frames = np.repeat([axis(0), axis(0) + axis(1), axis(0), axis(0) + axis(2)], 20, axis=0)
    report = check_words(vocabulary, History(frames, range(80), "x", "made"))
    assert report.descriptions[0].without == 0
    assert 'the window of "a", frames 21 – 38, depends on "loud"' in repr(report)


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
    assert '"grublix cup": the encoder does not know "grublix"' in report.notes
    raw = check_words(
        {"empty": ["empty cup"], "full": ["full cup " + "very " * 30]},
        encoder="mini",
        encoder_options=EncoderOptions(templates="raw"),
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
    assert json.loads(reports[0])["states"][0]["window"]["start"] >= 0


def test_examples_are_left_out_and_a_vocabulary_of_examples_alone_is_refused():
    scene = generate(3)
    plain = check_words(scene.vocabulary)
    report = check_words(scene.vocabulary.with_examples(empty=[3], filled=[200]))
    assert report.descriptions == plain.descriptions
    assert "covers only its words" in report.notes[0]
    with pytest.raises(InputError, match="only examples, so there are no words to check"):
        check_words({"a": {"examples": [1]}, "b": {"examples": [2]}}, encoder="mini")
    with pytest.raises(InputError, match='state "b" has no words'):
        check_words({"a": "one", "b": {"examples": [2]}}, encoder="mini")


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


# suggestions


def test_suggestions_are_phrased_alike_and_new():
    vocabulary = Vocabulary({"empty": ["empty cup"], "half_full": ["cup, half full"]})
    texts = suggest(vocabulary)
    assert object_of(vocabulary) == "cup"
    assert "cup that is empty, not half full" in texts["empty"]
    assert "close-up of a cup that is half full" in texts["half_full"]
    assert "empty cup" not in texts["empty"]  # it is there
    alike = {text.replace("half full", "*").replace("empty", "*") for text in texts["empty"]}
    assert alike == {t.replace("half full", "*").replace("empty", "*") for t in texts["half_full"]}
    assert len(texts["empty"]) >= 5
    assert object_of(Vocabulary({"on": ["lit"], "off": ["dark"]})) == "object"


def test_what_is_suggested_is_a_vocabulary_and_nothing_is_written(dejacue, tmp_path):
    path = tmp_path / "odd.yaml"
    states = {"yes": ["it's: so", "# not"], "no": ["- none", "émpty “x”"], "a: b\nc": ["3\n\n4"]}
    path.write_text(yaml.safe_dump({"states": states}, sort_keys=False), encoding="utf-8")
    ran = dejacue("words", path, "--suggest")
    assert ran.code == 0, ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["odd.yaml"]
    again = tmp_path / "again.yaml"
    again.write_text(ran.out, encoding="utf-8")
    longer = read_vocabulary(again)
    assert list(longer.states) == list(states)
    for state, texts in states.items():
        assert list(longer.states[state][: len(texts)]) == texts
        assert len(longer.states[state]) >= len(texts) + 5
    assert ran.out.count("# suggested") == len(longer) - 5
    assert "Suggestions to edit" in ran.out
    examples = tmp_path / "examples.yaml"
    examples.write_text("states: {lit: {examples: [3]}, dark: {words: [dark lamp], examples: [9]}}")
    ran = dejacue("words", examples, "--suggest")
    assert "Examples are not repeated here" in ran.out
    assert yaml.safe_load(ran.out)["object"] == "object"  # one description is no ground to guess
    assert len(yaml.safe_load(ran.out)["states"]["lit"]) == 6
    for option in (("--json",), ("--encoder", "mini"), ("x.npz",)):
        assert dejacue("words", path, "--suggest", *option).code == 2


# the command


def test_the_command_shows_tables_and_notes(dejacue, tmp_path):
    path = tmp_path / "cup.yaml"
    path.write_text(yaml.safe_dump({**CUP, "empty": [*CUP["empty"], "grublix [bold] cup"]}))
    ran = dejacue("words", path, "--encoder", "mini")
    assert ran.code == 0, ran.err
    for part in (
        "descriptions",
        "pairs of descriptions of a state",
        "pairs of states",
        "not known: grublix",
    ):
        assert part in ran.out
    assert "[bold]" in ran.out
    assert "note:" in ran.out
    assert "below 0 they disagree" in ran.out  # the legend
    assert "correlation" not in ran.out


def test_on_a_history_the_command_shows_windows(dejacue, folder):
    ran = dejacue("words", folder / "cup" / "vocabulary.yaml", folder / "finding")
    assert ran.code == 0, ran.err
    window = check_words(folder / "cup" / "vocabulary.yaml", folder / "finding").states[0].window
    assert f"{window.start} – {window.end}" in ran.out
    assert "correlation" in ran.out


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
    for state, count in zip(states, (2 + 1 + 1 + 2, 6, 6), strict=True):
        assert sum(line.count(f" {state} ") for line in rows) == count
    overlaps = [
        f"{pair.overlap:.2f} │" for pair in check_words(vocabulary, generated(vocabulary)).pairs
    ]
    assert all(any(line.endswith(text) for line in rows) for text in overlaps)


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
    assert "direction without it" in report._repr_html_()


def test_the_command_refuses_in_one_line(dejacue, tmp_path):
    ran = dejacue("words", tmp_path / "none.yaml", "--encoder", "mini")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
