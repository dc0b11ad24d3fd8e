"""The eight decoders: what they compute, what they learn, and what they refuse."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")


from by_description import by_description  # noqa: E402
from helpers.errors import refused  # noqa: E402

from dejacue.errors import DejaCueError, InputError, MissingData  # noqa: E402
from dejacue.method.localization import locate  # noqa: E402
from dejacue.records import History, Window  # noqa: E402
from dejacue_paper.data.synthetic import Generated, generate  # noqa: E402
from dejacue_paper.learn.decoders import DECODERS, model, uvcom  # noqa: E402
from dejacue_paper.learn.decoders import layers as la  # noqa: E402
from dejacue_paper.learn.decoders.batches import epoch_of, schedule  # noqa: E402
from dejacue_paper.learn.decoders.checkpoint import load, resume, save  # noqa: E402
from dejacue_paper.learn.decoders.losses import set_loss  # noqa: E402
from dejacue_paper.learn.decoders.matcher import assign  # noqa: E402
from dejacue_paper.learn.decoders.reading import frames_of, predict, scores_of  # noqa: E402
from dejacue_paper.learn.decoders.readout import Decoder  # noqa: E402
from dejacue_paper.learn.decoders.records import records_of, windows_of  # noqa: E402
from dejacue_paper.learn.decoders.training import Settings, Stepper, Training  # noqa: E402

MILLIONS = {
    "moment": 4.36,
    "qd": 7.12,
    "eatr": 6.40,
    "cg": 12.22,
    "uvcom": 17.73,
    "tr": 7.85,
    "taskweave": 7.32,
    "sim": 10.28,
}
# The published models hold a table of 32 text positions and its norm, which nothing reads.
UNREAD = 32 * 256 + 2 * 256
# Parameters without a gradient: the first layer has no content to look at, one key needs no
# question, a shift of all saliencies changes no difference.
NO_CONTENT = {f"decoder.layers.0.own.{name}.weight" for name in "qkv"}
STILL = {
    "moment": {"decoder.0.own.v.weight", "salient.bias"},
    "qd": NO_CONTENT,
    "cg": NO_CONTENT,
    "tr": NO_CONTENT,
    "taskweave": NO_CONTENT,
    "sim": set(),
    "eatr": {
        "salient.bias",
        "decoder.asking.q.weight",
        "decoder.asking.q.bias",
        "decoder.asking.k.weight",
    },
    "uvcom": {"of_text.rows"},
}
STILL_PUBLISHED = {
    **STILL,
    "taskweave": NO_CONTENT | {"for_spans.weight", "for_spans.bias", "expert.taps"},
}
SEE_PADDING = ("tr", "sim", "taskweave")  # as published


pytestmark = pytest.mark.usefixtures("one_thread")


def few(count: int = 3) -> list[Generated]:
    return [generate(seed, frames=12, dimension=8, gaps=[(6, 2)]) for seed in range(count)]


def begun(
    name: str, seeds=(1,), *, as_published=False, epochs=2, count=3, family="unique"
) -> Training:
    settings = Settings(name, seeds, epochs, as_published=as_published, clip=True, family=family)
    return Training(settings, few(count), "cpu")


def first_batch(training: Training, *, ragged: bool = False):
    """Return a batch; ``ragged``: its second record is of a shorter run than the others."""
    plan = schedule(training.records, "unique", training.settings.seeds, range(1), False)
    rows, *others = Stepper(training, plan).now
    if ragged:
        length = training.records.length[training.records.run]
        rows[:, 1] = int(np.flatnonzero(length < length.max())[0])
    return training.data.batch(rows, *others)


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_have_as_many_weights_as_published(name) -> None:
    parameters = sum(p.numel() for p in model(name, 1, 768).parameters())
    assert f"{(parameters + UNREAD) / 1e6:.2f}" == f"{MILLIONS[name]:.2f}"


@pytest.mark.parametrize(("queries", "targets"), [(5, 1), (5, 3), (4, 4), (3, 5)])
def test_matching_is_the_cheapest_of_all(queries, targets) -> None:
    random = np.random.default_rng(queries * 10 + targets)
    cost = random.normal(size=(40, queries, targets))
    there = random.random((40, targets)) < 0.8
    match = assign(torch.tensor(cost), torch.tensor(there)).numpy()
    for costs, real, chosen in zip(cost, there, match, strict=True):
        columns = np.flatnonzero(real)
        size = min(len(columns), queries)
        small, large = (
            (columns, range(queries)) if len(columns) <= queries else (range(queries), columns)
        )
        totals = [
            sum(
                costs[q, t] if len(columns) <= queries else costs[t, q]
                for t, q in zip(small, order, strict=True)
            )
            for order in permutations(large, size)
        ]
        assert chosen.sum() == size
        assert (chosen.sum(axis=0) <= 1).all()
        assert (chosen.sum(axis=1) <= real).all()
        assert np.isclose((chosen.T * costs).sum(), min(totals, default=0.0))


@pytest.mark.parametrize("as_published", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", DECODERS)
def test_padding_other_records_and_the_order_of_siblings_change_nothing(name, as_published) -> None:
    training = begun(name, as_published=as_published)
    plain = first_batch(training, ragged=True)
    assert plain.frames.sum(2).tolist()[0][:2] == [6, 4]

    def read(batch):
        with torch.no_grad():
            output = training.model.eval()(batch)
        seen = output.saliency[:, :, :6].masked_fill(~batch.frames[:, :, :6], 0)
        return output.spans[-1], training.model.scores(output), seen

    def same(batch, expected) -> bool:
        pairs = zip(read(batch), expected, strict=True)
        return all(torch.allclose(first, other, atol=1e-5) for first, other in pairs)

    known = read(plain)
    assert known[0].shape[:2] == plain.weight.shape
    assert ((known[0] > 0) & (known[0] < 1)).all()
    siblings = [0, *range(plain.words.shape[2] - 1, 0, -1)]
    assert same(replace(plain, words=plain.words[:, :, siblings]), known)
    for k in range(2):  # alone, as long as in the batch
        fields = {
            name: tensor[:, k : k + 1] for name, tensor in vars(plain).items() if name != "same"
        }
        alone = replace(plain, **fields, same=plain.same[:, k : k + 1, k : k + 1])
        assert same(alone, [tensor[:, k : k + 1] for tensor in known])
    pad = torch.nn.functional.pad
    wide = replace(
        plain,
        video=pad(plain.video, (0, 0, 0, 3)),
        frames=pad(plain.frames, (0, 3)),
        inside=pad(plain.inside, (0, 3)),
        words=pad(plain.words, (0, 0, 0, 2)),
        spoken=pad(plain.spoken, (0, 2)),
    )
    wide.video[~wide.frames], wide.words[~wide.spoken] = 3.0, 3.0
    assert same(wide, known) == (not as_published or name not in SEE_PADDING)


@pytest.mark.parametrize("as_published", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", DECODERS)
def test_gradients_reach_every_parameter_that_learns(name, as_published) -> None:
    training = begun(name, as_published=as_published)
    moved: set[str] = set()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        training.flat.values.add_(0.02 * torch.randn_like(training.flat.values))
        training.model.train()
        batch = first_batch(training)
        for phase in range(len(training.model.turns) + 1):
            loss = training.model.loss(batch, training.model(batch, phase), phase)
            assert loss.shape == (1,)
            gradients = torch.autograd.grad(loss.sum(), training.flat.parameters, allow_unused=True)
            names = [n for n, _ in training.model.named_parameters()]
            moved |= {
                n
                for n, g in zip(names, gradients, strict=True)
                if g is not None and g.abs().max() > 1e-9
            }
    # a shift of all keys changes no attention, and one of all saliencies no comparison of them:
    # what gradient there is comes from rounding, which differs between processors
    shifts = re.compile(r"(\.k(_place)?|^shine)\.bias$")
    still = {n for n, _ in training.model.named_parameters() if not shifts.search(n)} - moved
    assert still == (STILL_PUBLISHED if as_published else STILL)[name]


def test_members_begin_and_learn_as_if_they_were_alone() -> None:
    both, alone = begun("qd", (1, 2), count=2), begun("qd", (2,), count=2)
    assert torch.equal(both.flat.values[1:], alone.flat.values)
    for training in (both, alone):
        training.model.eval()  # dropout is drawn for all members together
    pair, single = first_batch(both), first_batch(alone)
    loss = both.model.loss(pair, both.model(pair), 0)
    gradient = both.flat.gradient(loss)
    expected = alone.flat.gradient(alone.model.loss(single, alone.model(single), 0))
    assert torch.allclose(gradient[1:], expected, atol=1e-6)


def test_the_walk_over_words_inverts_as_it_says() -> None:
    random = torch.Generator().manual_seed(0)
    x, y = (torch.randn(1, 1, n, 256, generator=random, dtype=torch.float64) for n in (7, 5))
    there = torch.ones(1, 1, 7, dtype=torch.bool)
    z = (5 * la.cosine(y, x)).softmax(-2)[0, 0]
    a = z.T @ (z / z.sum(-1, keepdim=True))
    mixed = 0.5 * z.T @ y[0, 0] + x[0, 0]
    identity = torch.eye(7, dtype=torch.float64)
    inverted = 0.5 * torch.linalg.inv(identity - a / 4) @ mixed
    assert torch.allclose(uvcom.walked(x, there, y, False)[0, 0], inverted, atol=1e-8)
    assert torch.allclose(uvcom.walked(x, there, y, True)[0, 0], 0.5 * (identity - a / 4) @ mixed)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "left"),
    [("moment", 0.4), ("qd", 0.5), ("eatr", 0.6), ("tr", 0.4), ("taskweave", 0.6), ("sim", 0.6)],
)
def test_one_batch_is_learned_by_heart(name, left) -> None:
    training = begun(name, count=2)
    training.model.eval()  # without dropout
    batch, rate, losses = first_batch(training), torch.tensor(5e-4), []
    for _ in range(12):
        output = training.model(batch)
        loss = set_loss(output, batch, focal=training.model.focal)
        losses.append(float(loss.detach()))
        training.flat.step(training.flat.gradient(loss), rate)
    assert losses[-1] < left * losses[0]


@pytest.mark.long
def test_the_same_seeds_give_the_same_bits_and_a_stopped_training_goes_on(tmp_path) -> None:
    whole = begun("taskweave", (1, 2), epochs=2, count=1, family="balanced")
    whole.run()
    stopped = begun("taskweave", (1, 2), epochs=2, count=1, family="balanced")
    stopped.run(until=1)
    save(stopped, tmp_path / "model", resumable=True)
    again = begun("taskweave", (1, 2), epochs=2, count=1, family="balanced")
    resume(again, tmp_path / "model")
    again.run()
    assert torch.equal(again.flat.values, whole.flat.values)
    assert again.losses == whole.losses
    save(again, tmp_path / "model")
    again.final()
    loaded, about = load(tmp_path / "model", seed=2)
    ours = dict(again.model.state_dict())
    assert all(
        torch.equal(tensor[0], ours[name][1]) for name, tensor in loaded.state_dict().items()
    )
    assert about.epoch == 2
    rows = predict(again.model, few(1))[1]
    entry = few()[0]
    answer = locate(entry.history, entry.vocabulary, readout=Decoder.read(tmp_path / "model", 2))
    windows = frames_of(few(1), rows)[0]
    found = [[m.start, m.end] for m in by_description(answer)]
    assert found == windows.tolist()
    with pytest.raises(InputError, match="training run is already complete"):
        resume(begun("taskweave", (1, 2), epochs=2, count=1, family="balanced"), tmp_path / "model")


def test_windows_stay_in_their_run_and_the_earliest_of_equals_wins() -> None:
    spans = np.array([[[0.5, 1.4], [0.1, 0.0]], [[0.5, 0.5], [0.5, 0.5]]])
    bounds = np.array([0, 4, 10])
    assert windows_of(spans, np.array([[0.2, 0.1], [0.1, 0.1]]), bounds)[:2] == (0, 3)
    assert windows_of(spans, np.array([[0.0, 0.2], [0.2, 0.2]]), bounds)[:2] == (0, 0)
    # 0.25 · 6 = 1.5 and 0.75 · 6 = 4.5 go to the even neighbours
    assert windows_of(spans, np.array([[0.0, 0.0], [0.2, 0.2]]), bounds)[:2] == (6, 7)


def test_families_of_batches_keep_their_promises() -> None:
    entries = [generate(s, frames=30, dimension=8, recurrences=1 + s) for s in range(3)]
    records = records_of(entries)
    positive = set(records.positive.tolist())
    for family in ("once", "cycle", "unique"):
        batches = epoch_of(records, family, 5)
        assert positive == {row for batch in batches for row in batch.tolist()}
        again = epoch_of(records, family, 5)
        assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    for batch in epoch_of(records, "unique", 5):
        assert len(set(records.history[batch])) == len(batch) >= 2
    for batch in epoch_of(records, "cycle", 5):
        assert (records.history[batch] != np.roll(records.history[batch], 1)).all()
    only = epoch_of(records, "once", 5, np.array([1]))
    assert {int(records.history[row]) for batch in only for row in batch} == {1}


def test_negative_runs_are_records_without_targets() -> None:
    records = records_of(few(), clip=True)
    assert len(records.negative) > 0
    rows = np.concatenate(epoch_of(records, "balanced", 1))
    assert (records.targets[rows] == 0).sum() == min(len(records.negative), len(records.positive))
    assert not records.inside[records.negative].any()


def test_what_cannot_be_learned_from_is_refused() -> None:
    entry = few(1)[0]
    with pytest.raises(InputError, match="no histories"):
        Training(Settings("qd"), [])
    with pytest.raises(InputError, match="no history has labelled moments"):
        Training(Settings("qd"), [replace(entry, references={})])
    references = {"empty": entry.references["empty"]}
    with pytest.raises(InputError, match="only one state"):
        Training(Settings("qd"), [replace(entry, references=references)])
    other = {**entry.references, "broken": (Window(0, 1),)}
    with refused("broken"):
        Training(Settings("qd"), [replace(entry, references=other)])
    with pytest.raises(InputError, match="crosses a gap"):
        Training(Settings("qd"), [entry])
    with refused("decoder", "detr"):
        Training(Settings("detr", clip=True), [entry])
    with refused("seeds", ()):
        Settings("qd", seeds=())


def test_a_loss_that_is_no_number_stops_the_training_and_says_where(tmp_path) -> None:
    training = begun("moment", (1, 9), epochs=1, count=1)
    training.flat.values[1, :100] = torch.nan
    with pytest.raises(DejaCueError, match=r"moment, seed 9: the loss is nan in epoch 1, step 1"):
        training.run()


def test_checkpoints_that_do_not_fit_are_refused(tmp_path) -> None:
    with refused(tmp_path, kind=MissingData):
        Decoder.read(tmp_path)
    training = begun("moment")
    save(training, tmp_path / "model")
    readout = Decoder.read(tmp_path / "model")
    entry = few(1)[0]
    features = entry.history.features
    strange = History(features, entry.history.frames, "strange", "another")
    words = replace(entry.vocabulary, encoder="another")
    with refused(tmp_path / "model", "encoder", "another"):
        locate(strange, words, readout=readout)
    with refused(tmp_path / "model", 5):
        Decoder.read(tmp_path / "model", seed=5)
    with refused(tmp_path / "model", "settings"):
        resume(begun("moment", epochs=3), tmp_path / "model")
    path = tmp_path / "model" / "settings.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "version": 2}))
    with refused(path, "version", 2):
        Decoder.read(tmp_path / "model")
    path.write_text("{}")
    with refused(path, "does not contain the settings of a decoder"):
        Decoder.read(tmp_path / "model")
    settings = about["settings"]
    changes = [
        ("dimension -6", {"dimension": -6}),
        (f"dimension {10**12}", {"dimension": 10**12}),
        ("losses 3", {"losses": 3}),
        ("settings.decoder", {"settings": {**settings, "decoder": ["moment"]}}),
        ("settings.seeds[0]", {"settings": {**settings, "seeds": [[3]]}}),
        ("settings: seeds ()", {"settings": {**settings, "seeds": []}}),
    ]
    for fact, change in changes:
        path.write_text(json.dumps(about | change))
        with refused(path, fact):
            Decoder.read(tmp_path / "model")
    path.write_text(json.dumps(about))
    weights = tmp_path / "model" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with refused(weights):
        Decoder.read(tmp_path / "model")


LENGTH = 8


def stories(seeds: range) -> list[Generated]:
    """Return histories of one object: its two states in either order, for any share of the
    frames."""
    scenes = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        first = int(random.integers(2, LENGTH - 1))
        states = ["empty", "filled"] if random.random() < 0.5 else ["filled", "empty"]
        episodes = list(zip(states, (first, LENGTH - first), strict=True))
        scene = generate(
            3, episodes=episodes, dimension=64, signal=6, noise=0.3, drift=0.1, descriptions=1
        )
        noise = 0.05 * random.normal(size=scene.history.features.shape)
        rows = scene.history.features + noise.astype(np.float32)
        history = History(rows, scene.history.frames, f"story-{seed}", "generated")
        scenes.append(replace(scene, history=history))
    return scenes


@pytest.mark.long
def test_a_decoder_that_sees_enough_learns_to_use_the_words(monkeypatch) -> None:
    """Without dropout, so that 52 steps are enough."""
    monkeypatch.setattr(la.F, "dropout", lambda x, *_: x)
    asked = stories(range(100, 120))
    training = Training(Settings("moment", (1,), 26, rate=3e-4), stories(range(20)), "cpu")
    training.run()
    learned = scores_of(asked, frames_of(asked, predict(training.model, asked)[0]))
    constant = max(
        scores_of(asked, [np.array([[start, end]] * 2)] * len(asked))["mean"][2]
        for start in range(LENGTH)
        for end in range(start, LENGTH)
    )  # the best window that looks at nothing, chosen on what is asked
    assert learned["mean"][2] > constant + 0.1
    assert learned["same"] < 0.5
