"""The documentation is true: its Python runs, and every command and option in it exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main
from helpers.still_tracker import Still

from dejacue.cli.app import app
from dejacue.demo import write_demo
from dejacue.models.trackers.propagate import TRACKERS

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAPER = [ROOT / "paper/README.md", *sorted((ROOT / "paper/docs").glob("*.md"))]
FOR_USERS = [*PRODUCT, *PAPER]
AROUND = [ROOT / f"{name}.md" for name in ("CONTRIBUTING", "CODE_OF_CONDUCT", "SECURITY")]
PAGES = [*FOR_USERS, *AROUND]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_in_the_documentation_runs(page, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(TRACKERS.built_in, "sam2", Still)  # its weights are not here
    code = "\n".join(blocks(page, "python"))
    if "out/demo" in code:  # what make demo has written
        write_demo("out/demo/scene")
    exec(compile(code, str(page), "exec"), {"__name__": "documentation"})


def test_the_python_that_needs_the_release_runs(release, monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEJACUE_DATA", str(release.folder))
    pages = [page for page in PAGES if blocks(page, "py")]
    assert [page.name for page in pages] == ["evaluation.md", "README.md"]
    for page in pages:
        code = "\n".join(blocks(page, "py"))
        exec(compile(code, str(page), "exec"), {"__name__": "documentation"})
    assert capsys.readouterr().out.count("[") >= 2  # an occurrence of each state


def commands() -> dict[str, object]:
    root = typer.main.get_command(app)
    return {
        f"{name} {sub}".strip(): inner
        for name, command in root.commands.items()
        for sub, inner in getattr(command, "commands", {"": command}).items()
    }


def test_every_command_is_in_the_list_of_commands() -> None:
    text = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
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


def anchors(page: Path) -> set[str]:
    """Return what GitHub and the site call the headings of a page; code blocks have none."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("http")]


def test_links_between_pages_lead_somewhere_and_to_a_heading_that_is_there() -> None:
    pages = [*PAGES, ROOT / "CHANGELOG.md"]
    assert sum("#" in link for page in pages for link in links(page)) >= 20
    for page in pages:
        for link in links(page):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_listed_for_language_models() -> None:
    listed = set(re.findall(r"\]\(([^)]+)\)", (ROOT / "docs/llms.txt").read_text(encoding="utf-8")))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= listed
    assert {f"paper/{page.name}" for page in (ROOT / "paper/docs").glob("*.md")} <= listed


def test_the_overview_of_the_paper_leads_to_each_of_its_pages() -> None:
    pages = {f"docs/{page.name}" for page in (ROOT / "paper/docs").glob("*.md")}
    assert pages <= set(links(ROOT / "paper/README.md"))


def test_the_glossary_has_every_command_at_the_top_in_a_row() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", text.partition("## Commands")[2], re.MULTILINE)
    assert sorted(rows) == sorted(typer.main.get_command(app).commands)


def test_the_count_of_reproduced_values_is_the_one_that_the_command_printed() -> None:
    form = r"\d+ of \d+ published values reproduced; \d+ more within our draws \(≈\); \d+ not \(✗\)"
    printed = re.search(form, (ROOT / "paper/docs/reproduce.md").read_text(encoding="utf-8"))
    assert printed
    assert printed[0] in (ROOT / "docs/results.md").read_text(encoding="utf-8")


def test_the_results_in_the_readme_are_those_of_the_page_of_results() -> None:
    rows = re.findall(r"^\|.*\d\d\.\d.*\|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 6
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    for row in rows:
        assert row in page, row


def test_files_that_the_page_on_architecture_names_exist() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", text))
    assert len(paths) >= 20
    roots = [ROOT, ROOT / "src", ROOT / "src/dejacue", ROOT / "paper/src/dejacue_paper"]
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []


def test_no_page_for_users_names_a_place_beside_the_checkout() -> None:
    for page in FOR_USERS:
        assert "../shared" not in page.read_text(encoding="utf-8"), page.name


def test_make_targets_in_the_documentation_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"\bmake ([a-z]+)\b", page.read_text(encoding="utf-8")):
            if target in {"it", "a", "the", "that"}:
                continue
            assert target in targets, f"{page.name}: make {target}"


def test_the_main_table_in_the_results_is_the_published_one() -> None:
    from dejacue_paper.experiments.table import published

    text = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    for figures in published()["vost_main"].values():
        cells = [f"{100 * figures['mean'][m]:.1f}" for m in ("r1_03", "r1_05", "top1_tiou")]
        plain = " | ".join(cells)
        bold = " | ".join(f"**{cell}**" for cell in cells)
        assert plain in text or bold in text
