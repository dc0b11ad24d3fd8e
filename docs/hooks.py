"""Pages that are made while the site is built: commands, Python names, notebooks, the files of the
repository's root, and the pages of the paper's package. mkdocs calls the functions named on_…;
nothing here is written to docs/."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import dejacue
from dejacue.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
PAPER = ROOT / "paper"
FROM_ROOT = ["CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"]
TITLES = {
    "finding": "From a video to what was found",
    "records": "Records",
    "method": "Method",
    "video": "Videos",
    "masks": "Masks",
    "models": "Encoders and trackers",
    "corpus": "Many histories",
    "evaluation": "Evaluation",
    "files": "Files",
    "errors": "Errors",
}
FURTHER = (
    "evaluation",
    "method",
    "files",
    "errors",
)  # packages whose own names are documented, too


def on_files(files: Files, config: MkDocsConfig) -> Files:
    made = [("cli.md", commands()), *python_names(), *notebooks(), *from_root(), *paper_pages()]
    for name, text in made:
        files.append(File.generated(config, name, content=text))
    for path in sorted((PAPER / "docs/figures").iterdir()):
        figure = f"paper/figures/{path.name}"
        files.append(File.generated(config, figure, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **kwargs: Any) -> str:
    """Links that name a file, as one reads them in the repository, name the page instead."""
    if page.file.src_uri == "index.md":
        markdown = start_page()
    titles = {page: title for title, page in pages(config.nav)}
    markdown = markdown.replace("](../paper/docs/", "](paper/")
    markdown = markdown.replace("](../paper/README.md)", "](paper/index.md)")
    return re.sub(
        r"\[(?:docs/)?(\w+\.md)\]\((?=\1)",
        lambda link: f"[{titles[link[1]]}](",
        markdown,
    )


def pages(nav: Any) -> Iterator[tuple[str, str]]:
    for entry in nav:
        for title, inner in entry.items():
            yield from [(title, inner)] if isinstance(inner, str) else pages(inner)


def on_post_build(config: MkDocsConfig) -> None:
    """The search from disk, where a page may start no worker of a file; and the sources of the
    pages, which llms.txt names."""
    site = Path(config.site_dir)
    (worker,) = (site / "assets/javascripts/workers").glob("search.*.js")
    source = json.dumps(worker.read_text(encoding="utf-8"))
    (site / config.extra["polyfills"][0]).write_text(
        'if (location.protocol === "file:") {\n'
        f"  const blob = new Blob([{source}]);\n"
        "  const Native = Worker;\n"
        "  window.Worker = function () { return new Native(URL.createObjectURL(blob)); };\n"
        "}\n",
        encoding="utf-8",
    )
    sources = {page.name: page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md")}
    sources["index.md"] = start_page()
    sources |= dict(from_root()) | dict(paper_pages()) | {"cli.md": commands()}
    for name, text in sources.items():
        (site / name).write_text(text, encoding="utf-8")


def start_page() -> str:
    """The README as far as it does not list pages, and then docs/index.md."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Documentation")[0]
    further = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    return readme.replace("](docs/", "](") + further[further.index("## ") :]


def from_root() -> Iterator[tuple[str, str]]:
    for name in FROM_ROOT:
        text = (ROOT / name).read_text(encoding="utf-8")
        for there in FROM_ROOT:
            text = text.replace(f"]({there})", f"]({there.lower()})")
        yield name.lower(), text.replace("](docs/", "](").replace("](paper/docs/", "](paper/")


def paper_pages() -> Iterator[tuple[str, str]]:
    """The pages of paper/docs, and paper/README.md as the first of them."""
    overview = (PAPER / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    yield "paper/index.md", overview.replace("](../README.md)", "](../index.md)")
    for path in sorted((PAPER / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        yield f"paper/{path.name}", text.replace("](../../docs/", "](../")


def notebooks() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        parts = []
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = "".join(cell["source"])
            parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
            for output in cell.get("outputs", ()):
                shown = output.get("data", {})
                plain = "".join(output.get("text") or shown.get("text/plain", ()))
                parts.append("".join(shown.get("text/html", ())) or f"```text\n{plain}\n```")
        parts.insert(1, f"[Download this notebook]({path.name})")
        yield f"notebooks/{path.stem}.md", "\n\n".join(parts) + "\n"


def python_names() -> Iterator[tuple[str, str]]:
    """A page for each package, with the names of ``dejacue`` that it gives."""
    groups: dict[str, list[str]] = {}
    for module, names in sorted(dejacue._NAMES.items()):
        groups.setdefault(module.split(".")[0], []).extend(names.split())
    for group, title in TITLES.items():
        names = groups.get(group, [])
        lines = [f"# {title}", *(f"::: dejacue.{name}" for name in names)]
        if group in FURTHER:
            inner = getattr(importlib.import_module(f"dejacue.{group}"), "__all__", ())
            lines += [f"::: dejacue.{group}.{name}" for name in inner if name not in names]
        yield f"api/{group}.md", "\n\n".join(lines) + "\n"


def commands() -> str:
    """Every command with its arguments and options, as --help has them."""
    root: Any = typer.main.get_command(app)
    parts = ["# Commands", root.help, "Each command prints this with `--help`."]
    for name, command in sorted(root.commands.items()):
        inner = getattr(command, "commands", None)
        if inner is None:
            parts += section(f"## dejacue {name}", f"dejacue {name}", command)
            continue
        parts += [f"## dejacue {name}", prose(command.help)]
        for sub, one in sorted(inner.items()):
            parts += section(f"### dejacue {name} {sub}", f"dejacue {name} {sub}", one)
    return "\n\n".join(parts) + "\n"


def section(heading: str, name: str, command: Any) -> list[str]:
    context = command.context_class(command)
    groups: dict[str, list[str]] = {}
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is None or parameter.name == "help":
            continue
        kind = "argument" if parameter.param_type_name == "argument" else "option"
        title = (parameter.rich_help_panel or kind).lower()
        groups.setdefault(title, []).append(f"| `{cell(record[0])}` | {cell(prose(record[1]))} |")
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    tables = ["\n".join([f"| {title} | |", "|---|---|", *rows]) for title, rows in groups.items()]
    return [heading, prose(command.help), f"    {usage}", *tables]


def prose(text: str | None) -> str:
    """In one line, and nothing in it read as HTML."""
    return re.sub(r"\s+", " ", text or "").strip().replace("<", "&lt;")


def cell(text: str) -> str:
    return text.replace("|", "\\|").strip()
