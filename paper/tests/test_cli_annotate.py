"""annotate at the command line."""

from __future__ import annotations

import json
import re


def labelled(path, *runs):
    """Fill in a template with runs (last frame, label) …"""
    document = json.loads(path.read_text(encoding="utf-8"))
    start, filled = document["runs"][0]["start"], []
    for end, label in runs:
        filled.append({"start": start, "end": end, "label": label})
        start = end + 1
    path.write_text(json.dumps({**document, "runs": filled}), encoding="utf-8")


def test_two_passes_lead_to_references(dejacue, tmp_path):
    first, second = tmp_path / "ann.json", tmp_path / "bob.json"
    for path in (first, second):
        words = ("annotate", "start", "--frames", "0:29", "--id", "cup", "-a", path.stem)
        assert dejacue(*words, "-o", path).code == 0
    labelled(first, (9, "pre"), (14, "transition"), (29, "post"))
    labelled(second, (10, "pre"), (14, "transition"), (29, "post"))
    decide, agreed = tmp_path / "decide.json", tmp_path / "consensus.json"
    ran = dejacue("annotate", "consensus", first, second, "-o", decide)
    assert ran.code == 0
    assert len(re.findall(r"30 │ +29 │ +0.967 │ +0.394 │ +0.945", ran.out)) == 2  # all, observed
    document = json.loads(decide.read_text(encoding="utf-8"))
    assert [(row["start"], row["end"]) for row in document["decisions"]] == [(10, 10)]
    document["decisions"][0]["label"] = "pre"
    decide.write_text(json.dumps(document), encoding="utf-8")
    ran = dejacue("annotate", "consensus", first, second, "-d", decide, "-o", agreed)
    assert ran.code == 0
    assert ran.out.endswith(f"continue with: dejacue annotate events {agreed}\n")
    truth = tmp_path / "truth.json"
    words = ("annotate", "events", agreed, "-o", truth, "--pre", "empty", "--post", "filled")
    assert dejacue(*words, "--component", "kitchen").code == 0
    (history,) = json.loads(truth.read_text(encoding="utf-8"))["histories"]
    assert history["states"] == {"empty": [[0, 10]], "filled": [[15, 29]]}
    assert history["component"] == "kitchen"
    ran = dejacue(*words)
    assert (ran.code, ran.out) == (2, "")
    assert f"{truth}: already exists" in ran.err
    assert dejacue(*words, "--force").code == 0
    ran = dejacue("annotate", "events", agreed, "--minimum", 12)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"dejacue: {agreed}: no event qualifies: before the transition [11, 14], the pre run "
        "[0, 10] has 11 frames, but 12 are needed\n"
    )
