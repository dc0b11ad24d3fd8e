"""The documentation is true: its Python runs, and every command and option in it exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from dejacue.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_in_the_documentation_runs(page, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(page, "python"))
    exec(compile(code, str(page), "exec"), {"__name__": "documentation"})


def test_the_python_that_needs_the_release_runs(release, monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEJACUE_DATA", str(release.folder))
    code = "\n".join(blocks(ROOT / "README.md", "py"))
    exec(compile(code, "README.md", "exec"), {"__name__": "documentation"})
    assert capsys.readouterr().out.count("[") == 4


def commands() -> dict[str, object]:
    root = typer.main.get_command(app)
    found = {}
    for name, command in root.commands.items():
        for sub, inner in getattr(command, "commands", {"": command}).items():
            found[f"{name} {sub}".strip()] = inner
    return found


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    known = commands()
    assert len(known) >= 6
    for name in known:
        assert f"dejacue {name}" in text, name


def test_every_command_line_in_the_documentation_exists() -> None:
    known = commands()
    lines = [
        line.split("#")[0].strip()
        for page in PAGES
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if line.startswith("dejacue ")
    ]
    assert len(lines) >= 7
    for line in lines:
        words = line.split()[1:]
        name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        assert name in known, line
        options = {o for p in known[name].params for o in p.opts}
        for word in words:
            if word.startswith("-"):
                assert word in options, f"{line}: {word}"


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_no_page_for_users_names_a_place_beside_the_checkout() -> None:
    for page in PAGES[:-1]:
        assert "../shared" not in page.read_text(encoding="utf-8"), page.name


def test_make_targets_in_the_documentation_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"\bmake ([a-z]+)\b", page.read_text(encoding="utf-8")):
            if target in {"it", "a", "the", "that"}:
                continue
            assert target in targets, f"{page.name}: make {target}"


def test_the_main_table_in_the_readme_is_the_published_one() -> None:
    from dejacue.experiments.table import published

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for figures in published()["vost_main"].values():
        cells = [f"{100 * figures['mean'][m]:.1f}" for m in ("r1_03", "r1_05", "top1_tiou")]
        plain = " | ".join(cells)
        bold = " | ".join(f"**{cell}**" for cell in cells)
        assert plain in text or bold in text
