"""The pages of the site: those of the repository, with links between them."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
# Pages outside of docs/, by their path from the root.
ELSEWHERE: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
_LINK: Final = re.compile(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"^(```.*?^```$)", re.DOTALL | re.MULTILINE)
_PICTURE: Final = re.compile(r"<!-- picture: ([\w-]+), (.+?) -->")


def sources() -> dict[str, str]:
    """Return the pages of the repository: names in the site by paths from the root."""
    docs = {f"docs/{page.name}": page.name for page in sorted((ROOT / "docs").glob("*.md"))}
    return {**docs, **ELSEWHERE}


def write_pages(folder: Path) -> None:
    """Write all pages of the repository, and their assets, into a folder."""
    known = sources()
    for source, name in known.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        (folder / name).write_text(convert(text, source, known), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "assets", folder / "assets", dirs_exist_ok=True)


def convert(text: str, source: str, known: Mapping[str, str]) -> str:
    """Return the text of a page of the site: links lead to pages, or to nothing where the site lacks the file."""
    parts = _FENCE.split(text)
    for index in range(0, len(parts), 2):  # between the fences
        parts[index] = _LINK.sub(lambda match: _link(match, source, known), parts[index])
        parts[index] = _PICTURE.sub(r"![\2](drawings/\1.svg)", parts[index])
    return "".join(parts)


def _link(match: re.Match[str], source: str, known: Mapping[str, str]) -> str:
    image, text, target = match.groups()
    path, mark, anchor = target.partition("#")
    if not path or "://" in target:
        return match[0]
    name = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if name in known:
        shown = _title(name) if text.endswith(".md") else text
        return f"{image}[{shown}]({known[name]}{mark}{anchor})"
    if (ROOT / name).exists() and name.startswith(("docs/assets/", "docs/tutorials/", "docs/try/")):
        return f"{image}[{text}]({_in_site(name)}{mark}{anchor})"
    return text


def _title(name: str) -> str:
    """Return the first heading of a page."""
    return (ROOT / name).read_text(encoding="utf-8").partition("# ")[2].partition("\n")[0]


def _in_site(name: str) -> str:
    """Return a file below docs/, or the page of a tutorial, in the site."""
    return re.sub(r"\.py$", ".md", name.removeprefix("docs/"))


def navigation(layout: list[Mapping[str, list[str]]], folder: Path) -> list[dict[str, list[str]]]:
    """Complete the sections of the site: ``folder/*`` is all its pages; pages of no section form one more."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    sections = [{title: [*_expand(names, found)] for title, names in section.items()} for section in layout]
    named = {name for section in sections for names in section.values() for name in names}
    more = sorted(found - named)
    return [*sections, {"More": more}] if more else sections


def _expand(names: list[str], found: set[str]) -> Iterator[str]:
    for name in names:
        if name.endswith("/*"):
            yield from sorted(page for page in found if posixpath.dirname(page) == name[:-2])
        elif name in found:
            yield name
        else:
            raise FileNotFoundError(f"mkdocs.yml names the page {name}, which does not exist")
