"""The API reference: a page for each public module, an entry for each of its names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

MODULES: Final = (
    "caffe2_bridge", "caffe2_bridge.builder", "caffe2_bridge.files", "caffe2_bridge.gradients", "caffe2_frontend",
    "caffe2_backend", "caffe2_backend.workspace", "caffe2_backend.predictor_exporter",
    *(["caffe2_torch"] if find_spec("torch") else []),
)  # fmt: skip


def write_reference(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir()
    described: dict[str, str] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        (folder / f"{name}.md").write_text("\n".join(_page(name, module, described)), encoding="utf-8")


def _page(public: str, module: ModuleType, described: dict[str, str]) -> Iterator[str]:
    yield f"# {public}\n"
    yield f"{inspect.getdoc(module)}\n"
    for name in sorted(module.__all__, key=str.lower):
        yield from _entry(f"{public}.{name}", getattr(module, name), described)


def _entry(public: str, value: Any, described: dict[str, str]) -> Iterator[str]:
    """Yield the entry of a name; ``described`` has the pages of what other entries describe."""
    module, _, name = public.rpartition(".")
    defined = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}"
    if defined in described:
        yield f"## {name}\n\nThe same as [`{described[defined]}.{name}`]({described[defined]}.md#{defined}).\n"
        return
    if inspect.isclass(value) or inspect.isfunction(value):
        described[defined] = module
        yield f"::: {defined}\n    options:\n      heading_level: 2\n      heading: {name}\n"
        return
    yield f"## {name}\n"
    if inspect.ismodule(value):
        yield f"{inspect.getdoc(value) or 'A module.'}\n"
    else:
        yield f"`{type(value).__name__}`: `{_short(value)}`\n"


def _short(value: object) -> str:
    text = repr(value).replace("`", "'")
    return text if len(text) <= 100 else f"{text[:97]}..."
