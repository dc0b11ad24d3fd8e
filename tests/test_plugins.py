"""Plug-ins: entry points of other packages, and what is said where one is broken or missing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer
from helpers.errors import refused

from dejacue import locate, plugins
from dejacue.errors import MissingExtra
from dejacue.plugins import PAPER, Registry
from dejacue_paper import generate

# As on a machine where only dejacue is installed.
ALONE = """
import importlib.metadata, sys
importlib.metadata.entry_points = lambda **_: importlib.metadata.EntryPoints()
from dejacue.cli import main
for words in sys.argv[1:]:
    sys.argv = ["dejacue", *words.split()]
    try:
        main()
    except SystemExit as end:
        print("exit code", end.code, file=sys.stderr)
"""


@pytest.fixture
def installed(monkeypatch):
    """Return a function that installs entry points (name, value) in every group."""

    def install(*pairs: tuple[str, str]) -> None:
        entries = {name: EntryPoint(name, value, "group") for name, value in pairs}
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries)

    return install


def alone(*commands: str, code: str = ALONE) -> tuple[str, str]:
    """Run commands in one process; return what it prints, and its messages."""
    ran = subprocess.run(
        [sys.executable, "-c", code, *commands], capture_output=True, encoding="utf-8", check=False
    )
    return ran.stdout, ran.stderr


def test_a_command_of_the_paper_names_the_package_where_it_is_missing() -> None:
    out, messages = alone(*(f"{name} main" for name in PAPER["commands"]))
    assert out == ""
    *lines, end = messages.split("exit code 1\n")
    assert end == ""
    for name, line in zip(PAPER["commands"], lines, strict=True):
        assert line.count("\n") == 1
        assert f'"{name}" is part of dejacue-paper' in line


def test_an_unknown_command_stays_unknown_without_the_paper() -> None:
    _, messages = alone("reprodduce")
    assert messages.endswith("exit code 2\n")
    assert "dejacue-paper" not in messages


@pytest.mark.parametrize("name", PAPER["readouts"])
def test_a_readout_of_the_paper_names_the_package_where_it_is_missing(name, installed) -> None:
    installed()
    scene = generate(3, frames=17)
    options = {"kernel": "numpy", "diagnostics": True}
    with refused(name, kind=MissingExtra):
        locate(scene.history, scene.vocabulary, readout=name, **options)


def test_the_paper_adds_the_names_that_are_listed() -> None:
    assert set(plugins.entry_points("readouts")) == set(PAPER["readouts"])


def test_what_is_looked_up_is_ours_first_then_that_of_a_plug_in(installed) -> None:
    installed(("ours", "math:pi"), ("other", "math:e"))
    registry = Registry("readouts", {"ours": 1.0})
    assert list(registry) == ["ours", "other"]
    assert (registry["ours"], round(registry["other"], 3), len(registry)) == (1.0, 2.718, 2)
    assert "third" not in registry
    with pytest.raises(KeyError):
        registry["third"]


def test_a_broken_plug_in_is_named_and_the_others_work(installed) -> None:
    installed(("broken", "math:nothing"), ("missing", "no_such_module"), ("good", "math:e"))
    registry: Registry[float] = Registry("readouts", {})
    with refused("broken", "update or uninstall math"):
        registry["broken"]
    with refused("missing"):
        registry["missing"]
    assert round(registry["good"], 3) == 2.718


def _fails(app: typer.Typer) -> None:
    app.command("half")(lambda: None)
    raise RuntimeError("no commands today")


def _is_annotated_badly(app: typer.Typer) -> None:
    def odd(value: int | str) -> None: ...

    app.command("odd")(odd)


@pytest.mark.parametrize(
    ("bad", "reason"), [(_fails, "no commands today"), (_is_annotated_badly, "Union")]
)
def test_a_plug_in_that_fails_to_add_its_commands_is_left_out(
    installed, monkeypatch, bad, reason
) -> None:
    def good(app: typer.Typer) -> None:
        app.command("hello")(lambda: None)

    monkeypatch.setitem(sys.modules, "bad_plugin", type("bad", (), {"add": staticmethod(bad)}))
    monkeypatch.setitem(sys.modules, "good_plugin", type("good", (), {"add": staticmethod(good)}))
    installed(("bad", "bad_plugin:add"), ("good", "good_plugin:add"))
    app = typer.Typer()
    with pytest.warns(UserWarning, match=f"bad_plugin.*{reason}"):
        plugins.add_commands(app)
    assert [command.name for command in app.registered_commands] == ["hello"]


def test_the_command_line_works_beside_a_broken_plug_in() -> None:
    code = ALONE.replace(
        "importlib.metadata.EntryPoints()",
        "importlib.metadata.EntryPoints([importlib.metadata.EntryPoint('x', 'no_such:add', 'y')])",
    )
    out, messages = alone("--version", code=code)
    assert out.startswith("dejacue ")
    assert messages.endswith("exit code 0\n")
    assert "no_such" in messages
    assert "Traceback" not in messages
