"""The public release as it is, and small false ones that must be refused."""

from __future__ import annotations

import json
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from fake_release import FakeRelease, unit
from helpers.errors import refused
from huggingface_hub.errors import LocalEntryNotFoundError

from dejacue import InputError
from dejacue.errors import MissingData
from dejacue.files.npz import read_npz
from dejacue.method import Window
from dejacue_paper import load_release
from dejacue_paper.data.release import (
    ENCODER,
    REPOSITORY,
    NoSuchHistory,
    Release,
    default_folder,
    fetch_release,
)


def groups(release: Release):
    return (*release.vost, *release.seven, *release.development)


# The release itself


@pytest.mark.release
def test_the_release_holds_78_and_7_and_4_histories(release):
    assert [len(g) for g in (release.vost, release.seven, release.development)] == [78, 7, 4]
    assert [entry.id for entry in release.vost] == [f"H{n:03}" for n in range(1, 79)]
    assert [entry.id for entry in release.seven] == [f"S0{n}" for n in range(1, 8)]


@pytest.mark.release
def test_the_development_history_that_is_not_on_disk_is_named(release):
    assert [entry.id for entry in release.development] == ["D02", "D03", "D04", "D05"]
    (missing,) = release.development.missing
    assert missing == "D01: data/learned/development/features/D01/visual_features.npz"
    assert release.vost.missing == release.seven.missing == ()


@pytest.mark.release
def test_every_array_has_its_shape_and_is_read_only(release):
    for entry in groups(release):
        history, vocabulary = entry.history, entry.vocabulary
        assert history.features.shape == (len(history), 768)
        assert vocabulary.features.shape == (len(vocabulary), 768)
        assert history.features.dtype == vocabulary.features.dtype == np.float32
        assert history.encoder == vocabulary.encoder == ENCODER
        assert not history.features.flags.writeable
        assert not vocabulary.features.flags.writeable


@pytest.mark.release
def test_vost_has_312_descriptions_two_for_each_of_two_states(release):
    assert sum(len(entry.vocabulary) for entry in release.vost) == 312
    counts = {tuple(map(len, entry.vocabulary.states.values())) for entry in release.vost}
    assert counts == {(2, 2)}


@pytest.mark.release
def test_references_are_windows_of_the_states_of_the_vocabulary(release):
    for entry in groups(release):
        assert list(entry.references) == list(entry.vocabulary.states)
        for windows in entry.references.values():
            assert windows
            assert all(isinstance(window, Window) for window in windows)
            assert list(windows) == sorted(windows)
    assert release.vost["H001"].references == {
        "pre_unscrew": (Window(43, 49),),
        "post_unscrew": (Window(56, 111),),
    }


@pytest.mark.release
def test_states_keep_the_order_of_the_manifest(release):
    manifest = json.loads((release.folder / "data/seven_history/manifest.json").read_text())
    for row, entry in zip(manifest["histories"], release.seven, strict=True):
        descriptions = {state["state_id"]: tuple(state["descriptions"]) for state in row["states"]}
        assert list(entry.vocabulary.states.items()) == list(descriptions.items())


@pytest.mark.release
def test_s05_to_s07_leave_out_the_state_that_only_their_text_file_holds(release):
    manifest = json.loads((release.folder / "data/seven_history/manifest.json").read_text())
    for row in manifest["histories"][4:]:
        arrays = read_npz(
            release.folder / row["text_features"], ["state_tokens", "state_texts", "text_features"]
        )
        vocabulary = release.seven[row["history_id"]].vocabulary
        assert len(set(arrays["state_tokens"].tolist())) == len(vocabulary.states) + 1
        texts = arrays["state_texts"].tolist()
        rows = [texts.index(text) for text in vocabulary.descriptions]
        assert np.array_equal(vocabulary.features, arrays["text_features"][rows])
    assert list(release.seven["S05"].vocabulary.states) == [
        "nearly_empty",
        "partly_filled",
        "nearly_full",
    ]


@pytest.mark.release
def test_every_vost_history_comes_from_a_video_of_its_own(release):
    assert len({entry.component for entry in release.vost}) == 78
    assert {entry.cohort for entry in release.vost} == {"vost"}
    assert release.vost[0].label == "3511_unscrew_jar"


@pytest.mark.release
def test_four_of_the_seven_are_original_and_three_extend_them(release):
    assert [entry.cohort for entry in release.seven] == ["original"] * 4 + ["extension"] * 3
    assert {entry.cohort for entry in release.development} == {"development"}


@pytest.mark.release
def test_the_original_four_have_two_tracks_each_that_share_the_view(release):
    assert [len(entry.tracks) for entry in release.seven] == [2, 2, 2, 2, 0, 0, 0]
    torso, forearm = release.seven["S01"].tracks
    assert (torso.id, torso.label, torso.history.id) == (1, "person torso", "S01/track-1")
    assert torso.co_visible == {"intact_surface": (Window(0, 28),)}
    assert forearm.co_visible == {"charred_surface": (Window(63, 98),)}
    assert torso.history.dimension == 768
    for entry in release.seven:
        assert all(set(track.co_visible) <= set(entry.references) for track in entry.tracks)


@pytest.mark.release
@pytest.mark.parametrize(("prompts", "row"), [("raw", 0), ("photo", 1), ("definite", 2)])
def test_a_prompt_variant_changes_the_features_but_not_the_words(release, prompts, row):
    entry = release.vost["H001"]
    vocabulary = entry.prompted(prompts)
    path = release.folder / "data/features/siglip2_prompts/H001.npz"
    table = read_npz(path, ["text_features"])["text_features"]
    assert np.array_equal(vocabulary.features, table[row])
    assert vocabulary.states == entry.vocabulary.states
    assert not np.array_equal(vocabulary.features, entry.vocabulary.features)


@pytest.mark.release
def test_the_ensemble_is_the_normalised_mean_of_its_variants(release):
    entry = release.vost["H001"]
    assert entry.prompted("ensemble") is entry.vocabulary
    parts = [entry.prompted(name).features for name in ("raw", "photo", "definite")]
    mean = np.mean(parts, axis=0)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    assert np.abs(mean - entry.vocabulary.features).max() < 1e-5


@pytest.mark.release
def test_unknown_prompts_get_the_nearest_suggested(release):
    with refused("templates", "foto"):
        release.vost[0].prompted("foto")


@pytest.mark.release
def test_only_vost_has_prompt_variants(release):
    with refused("S01: the release has prompt variants"):
        release.seven["S01"].prompted("raw")


@pytest.mark.release
def test_entries_are_found_by_number_slice_and_id(release):
    assert release.vost[0] is release.vost["H001"]
    assert [entry.id for entry in release.vost[76:]] == ["H077", "H078"]
    with refused("history", "S08", kind=NoSuchHistory):
        release.seven["S08"]


@pytest.mark.release
def test_the_release_is_found_through_the_environment(release, monkeypatch):
    monkeypatch.setenv("DEJACUE_DATA", str(release.folder))
    assert load_release().folder == release.folder


# Small false releases


@pytest.fixture
def fake(tmp_path) -> FakeRelease:
    return FakeRelease(tmp_path / "release")


def test_a_release_is_read_with_its_states_in_the_order_of_the_manifest(fake):
    (entry,) = fake.load().vost
    assert entry.vocabulary.states == {"empty": ("empty cup",), "filled": ("full cup",)}
    assert np.array_equal(entry.vocabulary.features, unit(2, 4)[::-1])
    assert entry.references["filled"] == (Window(3, 5), Window(7, 8))
    assert entry.component == "video"
    assert np.array_equal(entry.prompted("raw").features, unit(1, 2, 4)[0])


@pytest.mark.parametrize("key", ["siglip2_visual", "siglip2_text", "siglip2_prompt_text"])
@pytest.mark.parametrize("outside", ["../secret.npz", "data/../../secret.npz", "/etc/passwd"])
def test_a_path_that_leaves_the_folder_is_refused(fake, key, outside):
    np.savez(fake.folder.parent / "secret.npz", **fake.files["visual"])
    fake.row[key] = outside
    with refused(fake.folder, outside):
        _ = fake.load().vost


def test_a_link_that_leaves_the_folder_is_refused(fake):
    release = fake.load()
    outside = fake.folder.parent / "visual.npz"
    (fake.folder / "data" / "visual.npz").rename(outside)
    (fake.folder / "data" / "visual.npz").symlink_to(outside)
    with refused(fake.folder, "data/visual.npz"):
        _ = release.vost


@pytest.mark.parametrize("dtype", [np.complex64, "U3", bool])
def test_features_that_are_no_numbers_are_refused(fake, dtype):
    rows = fake.files["visual"]["visual_features"]
    fake.files["visual"]["visual_features"] = rows.astype(dtype)
    with refused(fake.folder / "data" / "visual.npz", "visual_features"):
        _ = fake.load().vost


@pytest.mark.parametrize(
    ("file", "key"), [("visual", "visual_features"), ("text", "text_features")]
)
@pytest.mark.parametrize("factor", [1.01, 0.5, np.nan])
def test_a_row_that_is_not_of_unit_length_is_refused(fake, file, key, factor):
    fake.files[file][key][1] *= factor
    with refused(fake.folder / "data" / f"{file}.npz", key):
        _ = fake.load().vost


def test_a_signalling_nan_is_refused_without_a_warning(fake):
    rows = fake.files["text"]["text_features"].astype(np.float64)
    rows.view(np.uint64)[1, 0] = 0x7FF0000000000001
    fake.files["text"]["text_features"] = rows
    with refused(fake.folder / "data" / "text.npz", "text_features"):
        _ = fake.load().vost


def test_prompt_variants_are_checked_when_they_are_asked_for(fake):
    prompts = fake.files["prompts"]
    prompts["text_features"] = prompts["text_features"] * 2
    with refused(fake.folder / "data" / "prompts.npz", "text_features"):
        fake.load().vost[0].prompted("raw")
    with refused("templates", "photo"):
        fake.load().vost[0].prompted("photo")
    prompts["state_texts"] = np.array(["full cup", "empty cup"])
    with refused(
        fake.folder / "data" / "prompts.npz", "descriptions differ from those of the ensemble"
    ):
        fake.load().vost[0].prompted("raw")


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("visual", "frame_indices", np.array([0, 1, 1, 3, 4, 5, 6, 7, 8]), "frames are repeated"),
        (
            "visual",
            "frame_indices",
            np.arange(3),
            "there are 9 observed frames",
        ),
        ("visual", "visual_features", np.array(["a"]), "instead of numbers"),
        ("text", "state_ids", np.array(["filled", "empty", "empty"]), "the format of the release"),
        ("text", "state_ids", np.array(["filled", "filled"]), "need two or more"),
    ],
)
def test_a_damaged_file_is_refused(fake, file, key, value, message):
    fake.files[file][key] = value
    with pytest.raises(InputError, match=message):
        _ = fake.load().vost


def test_a_missing_array_is_named(fake):
    del fake.files["visual"]["frame_indices"]
    with refused(fake.folder / "data" / "visual.npz", "frame_indices"):
        _ = fake.load().vost


def test_an_incomplete_entry_is_refused(fake):
    del fake.row["siglip2_text"]
    with refused(fake.folder, "siglip2_text"):
        _ = fake.load().vost


def test_intervals_of_another_convention_are_refused(fake):
    fake.document["interval_convention"] = "half_open"
    with refused("half_open"):
        _ = fake.load().vost


def test_a_manifest_without_histories_is_refused(fake):
    del fake.document["histories"]
    with refused(fake.folder / "data" / "benchmark.json", "histories"):
        _ = fake.load().vost


def test_a_manifest_that_is_no_json_is_refused(fake):
    release = fake.load()
    (fake.folder / "data" / "benchmark.json").write_text("{")
    with refused(fake.folder / "data" / "benchmark.json"):
        _ = release.vost


def test_a_group_that_is_not_there_is_missing_data(fake):
    with refused(fake.folder / "data" / "seven_history" / "manifest.json", kind=MissingData):
        _ = fake.load().seven


# Finding and fetching


def test_a_folder_without_the_release_names_the_remedy(tmp_path):
    with refused(tmp_path, "dejacue data fetch", kind=MissingData):
        load_release(tmp_path)


def test_without_a_path_the_cache_is_where_it_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("DEJACUE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "dejacue" / "release"
    with refused(default_folder(), kind=MissingData):
        load_release()
    FakeRelease(default_folder()).load()
    assert load_release().folder == default_folder().resolve()


@pytest.mark.parametrize(
    "error", [LocalEntryNotFoundError("no connection\nand more"), ConnectionError("no connection")]
)
def test_without_a_connection_fetching_names_the_remedy(tmp_path, monkeypatch, error):
    def offline(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(MissingData, match="no connection") as caught:
        fetch_release(tmp_path / "target")
    assert REPOSITORY in str(caught.value)
    assert str(tmp_path / "target") in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_an_incomplete_download_is_not_taken_for_the_release(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    with refused(tmp_path, kind=MissingData):
        fetch_release(tmp_path)


def test_fetching_asks_for_the_dataset_and_says_where_it_is(tmp_path, monkeypatch):
    asked = []

    def download(repository: str, *, repo_type: str, local_dir: Path) -> None:
        asked.append((repository, repo_type, local_dir))
        FakeRelease(local_dir).load()

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    target = fetch_release(tmp_path / "target")
    assert asked == [(REPOSITORY, "dataset", tmp_path / "target")]
    assert len(load_release(target).vost) == 1


def test_a_manifest_that_is_nested_too_deep_is_one_sentence(tmp_path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "benchmark.json").write_text("[" * 200_000)
    with refused(tmp_path / "data" / "benchmark.json"):
        load_release(tmp_path).vost  # noqa: B018
