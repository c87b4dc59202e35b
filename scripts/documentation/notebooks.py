"""The tutorials: percent scripts in docs/tutorials, run as notebooks; pages and notebooks with their outputs."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "docs" / "tutorials"
_SECONDS: Final = 120  # of one cell
_SETUP_TAG: Final = "setup"
_CHAR_RNN: Final = "models/char_rnn"
_SETUP: Final = """\
# For a notebook that was downloaded alone: it installs what is missing.
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

clone = Path("caffe2-bridge")  # of the project; made below, if it is needed and not there


def get_clone():
    if not clone.exists():
        subprocess.run(["git", "clone", "--depth", "1", "{repository}", str(clone)], check=True)
    return clone.resolve()


missing = [name for name in {modules} if find_spec(name) is None]
if missing:
    subprocess.run([sys.executable, "-m", "pip", "install", f"{{get_clone()}}[{extras}]", "matplotlib"], check=True)
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
"""
_MODEL: Final = f"""
if not Path("{_CHAR_RNN}").exists():
    shutil.copytree(get_clone() / "{_CHAR_RNN}", "{_CHAR_RNN}")
"""


def tutorials() -> list[Path]:
    """Return the sources, in order."""
    return sorted(SOURCES.glob("*.py"))


def write_tutorials(folder: Path, *, run: bool = True) -> None:
    """Write a page and a notebook for each tutorial; without ``run``, or what it imports, they have no outputs."""
    folder.mkdir()
    for source in tutorials():
        notebook = read_notebook(source)
        if run:
            _execute_if_possible(notebook, source)
        (folder / f"{source.stem}.md").write_text(to_markdown(notebook, source.stem), encoding="utf-8")
        _write(notebook, folder / f"{source.stem}.ipynb")


def missing_modules(source: Path) -> list[str]:
    """Return the modules that a tutorial imports and that are not installed, such as PyTorch's."""
    return sorted(name for name in imported_modules(source) if importlib.util.find_spec(name) is None)


def imported_modules(source: Path) -> set[str]:
    """Return the modules that a tutorial imports, without what is inside of them."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in names}


def _execute_if_possible(notebook: Any, source: Path) -> None:
    if missing := missing_modules(source):
        print(f"{source.name} is not run: {', '.join(missing)} is not installed", file=sys.stderr)
    else:
        execute(notebook)


def read_notebook(source: Path) -> Any:
    """Read a percent script as a notebook."""
    import jupytext  # type: ignore[import-untyped] # it has no types
    from nbformat.v4 import new_code_cell

    notebook = jupytext.read(source, fmt="py:percent")
    notebook.cells.insert(1, new_code_cell(setup_of(source), metadata={"tags": [_SETUP_TAG]}))  # type: ignore[no-untyped-call] # it has few types
    return notebook


def setup_of(source: Path) -> str:
    """Return the cell with which a notebook runs where it was downloaded alone."""
    code = source.read_text(encoding="utf-8")
    modules = sorted(imported_modules(source) - sys.stdlib_module_names)
    extras = "cpu,torch" if "torch" in modules else "cpu"
    text = _SETUP.format(modules=modules, extras=extras, repository=_repository())
    return text + (_MODEL if _CHAR_RNN in code else "")


def _repository() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["urls"]["Repository"])


def execute(notebook: Any) -> None:
    """Run the cells of a notebook in an empty folder with the model char_rnn. Raises CellExecutionError."""
    from nbclient import NotebookClient
    from traitlets.config import Config

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as sockets:
        shutil.copytree(ROOT / "models" / "char_rnn", Path(folder, "models", "char_rnn"))
        client = NotebookClient(
            notebook,
            timeout=_SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            # Sockets of this machine alone.
            config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}}),
        )
        client.execute()


def to_markdown(notebook: Any, name: str) -> str:
    """Return the page of a notebook: its text, its code, and the text and the pictures that the cells have shown."""
    cells = [cell for cell in notebook.cells if _SETUP_TAG not in cell.metadata.get("tags", ())]
    parts = [cell.source if cell.cell_type == "markdown" else _code(cell) for cell in cells]
    parts.insert(1, f"[This tutorial as a notebook]({name}.ipynb){{ download }}, which installs what it needs.")
    return "\n\n".join(parts) + "\n"


def _code(cell: Any) -> str:
    pictures = [_picture(output) for output in cell.get("outputs", ())]
    shown = "".join(_output(output) for output in cell.get("outputs", ()) if not _picture(output))
    parts = [f"```python\n{cell.source}\n```"]
    parts += [f"```{{.text .output}}\n{shown.rstrip()}\n```"] if shown.strip() else []
    return "\n\n".join([*parts, *(f"<figure>{picture}</figure>" for picture in pictures if picture)])


def _picture(output: Any) -> str:
    """Return a picture or a table, for the page itself; empty where there is none."""
    data = output.get("data", {})
    if "text/html" in data:
        return str(data["text/html"]).replace("\n", "&#10;")
    if "image/png" in data:
        return f'<img alt="what the cell shows" src="data:image/png;base64,{data["image/png"].strip()}">'
    return str(data.get("image/svg+xml", "")).replace("\n", "")


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return str(output.get("data", {}).get("text/plain", "")) + "\n"


def _write(notebook: Any, path: Path) -> None:
    import nbformat

    nbformat.write(notebook, path)  # type: ignore[no-untyped-call] # it has few types
