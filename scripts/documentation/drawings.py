"""Pictures of the architecture, drawn from the code: the rooms of the packages, and the pipelines."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("cli", "fleet", "validation", "compat", "backend", "frontend", "bridge")  # imports point down
_FOLDERS: Final = {"bridge": "bridge", "frontend": "frontend"}  # the others are in "backend"
_COLOURS: Final = {
    "cli": "#455a64", "fleet": "#ad1457", "validation": "#6a1b9a", "compat": "#5e35b1", "backend": "#3949ab",
    "frontend": "#00897b", "bridge": "#6d4c41",
}  # fmt: skip
_WIDTH: Final = 960
_COLUMNS: Final = 5
_BOX: Final = (180, 50)  # with the gap to the next
_STYLE: Final = (
    "text{font-family:system-ui,sans-serif;fill:#fff}.t{font-size:17px;font-weight:600}.n{font-size:14px}"
    ".s{font-size:11px;opacity:.85}.e{font-size:13px;fill:#888}line,path{stroke:#888;stroke-width:2;fill:none}"
)


class Room(NamedTuple):
    """A folder of a package: what its docstring says, and how many files and lines it has."""

    name: str
    summary: str
    files: int
    lines: int


def write_drawings(folder: Path) -> None:
    """Write all pictures into a folder."""
    from caffe2_backend.pipeline import IMPORT
    from caffe2_frontend.pipeline import EXPORT

    folder.mkdir()
    (folder / "rooms.svg").write_text(draw_rooms(), encoding="utf-8")
    (folder / "export.svg").write_text(draw_pipeline(EXPORT, "frontend"), encoding="utf-8")
    (folder / "import.svg").write_text(draw_pipeline(IMPORT, "backend"), encoding="utf-8")


def package_folder(package: str) -> Path:
    """Return where the code of a package is."""
    return ROOT / _FOLDERS.get(package, "backend") / f"caffe2_{package}"


def find_rooms(package: str) -> list[Room]:
    """Return the rooms of a package, by name."""
    folders = sorted(path.parent for path in package_folder(package).glob("*/__init__.py"))
    return [_room(folder) for folder in folders]


def count_imports() -> Counter[tuple[str, str]]:
    """Return how many modules of one package import from another."""
    return Counter(
        (package, other)
        for package in PACKAGES
        for file in package_folder(package).rglob("*.py")
        for other in _imported(file)
        if other != package
    )


def _room(folder: Path) -> Room:
    files = list(folder.rglob("*.py"))
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    lines = sum(file.read_text(encoding="utf-8").count("\n") for file in files if "_pb2" not in file.name)
    return Room(folder.name, text.partition("\n")[0], len(files), lines)


def _imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found.update(name.partition(".")[0].removeprefix("caffe2_") for name in names)
    return found & set(PACKAGES)


def draw_rooms() -> str:
    """Draw the packages, one above the other, with their rooms, and below each how many of its modules import which."""
    parts, y = [], 10
    imports = count_imports()
    for package in PACKAGES:
        rooms = find_rooms(package)
        height = 44 + _BOX[1] * -(-len(rooms) // _COLUMNS)
        parts.append(_package(package, rooms, y, height))
        y += height
        if package != PACKAGES[-1]:
            counts = [f"{imports[package, other]} {other}" for other in PACKAGES if imports[package, other]]
            parts.append(_arrow(40, y, y + 40, f"modules that import: {', '.join(counts)}"))
            y += 40
    return _svg(y + 10, parts)


def _package(package: str, rooms: Sequence[Room], y: int, height: int) -> str:
    colour = _COLOURS[package]
    parts = [
        f'<rect x="10" y="{y}" width="{_WIDTH - 20}" height="{height}" rx="8" fill="{colour}"/>',
        f'<text class="t" x="24" y="{y + 24}">caffe2_{package}</text>',
    ]
    for index, room in enumerate(rooms):
        x, top = 24 + index % _COLUMNS * (_BOX[0] + 4), y + 36 + index // _COLUMNS * _BOX[1]
        title = f"<title>{escape(room.summary)}</title>"
        parts.append(
            f'<g>{title}<rect x="{x}" y="{top}" width="{_BOX[0] - 6}" height="{_BOX[1] - 8}" rx="5" fill="#ffffff33"/>'
            f'<text class="n" x="{x + 10}" y="{top + 18}">{escape(room.name)}</text>'
            f'<text class="s" x="{x + 10}" y="{top + 34}">{room.files} files, {room.lines:,} lines</text></g>'
        )
    return "".join(parts)


def draw_pipeline(passes: Iterable[object], package: str) -> str:
    """Draw the passes of a pipeline, from top to bottom, each with the summary of its docstring."""
    parts, y = [], 10
    for index, step in enumerate(passes):
        if index:
            parts.append(_arrow(40, y, y + 14))
            y += 14
        summary = (type(step).__doc__ or "").strip().partition("\n")[0]
        parts.append(
            f'<rect x="10" y="{y}" width="{_WIDTH - 20}" height="30" rx="5" fill="{_COLOURS[package]}"/>'
            f'<text class="n" x="22" y="{y + 20}">{escape(type(step).__name__)}</text>'
            f'<text class="s" x="230" y="{y + 20}">{escape(summary)}</text>'
        )
        y += 30
    return _svg(y + 10, parts)


def _arrow(x: int, top: int, bottom: int, label: str = "") -> str:
    text = f'<text class="e" x="{x + 14}" y="{(top + bottom) // 2 + 4}">{escape(label)}</text>' if label else ""
    return f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/><path d="M{x - 5} {bottom - 7}l5 7l5 -7"/>{text}'


def _svg(height: int, parts: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">'
    return f"{head}<style>{_STYLE}</style>{''.join(parts)}</svg>\n"


def table_of_rooms() -> Iterator[str]:
    """Yield a table in Markdown: the rooms of the packages, with the summaries of their docstrings."""
    yield "| package | room | | files | lines |\n|---|---|---|--:|--:|\n"
    for package in PACKAGES:
        for room in find_rooms(package):
            yield f"| `caffe2_{package}` | `{room.name}` | {room.summary} | {room.files} | {room.lines:,} |\n"
