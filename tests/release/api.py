"""The public API as data: every public callable with its parameters. ``scripts/api`` writes that of a release.

A parameter is its name, ``=`` and its default if it has one; ``*`` begins those that are passed by keyword alone.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from support.paths import ROOT

RELEASED: Final = ROOT / "tests" / "golden" / "api.json"
MODULES: Final = (
    "caffe2_bridge", "caffe2_bridge.builder", "caffe2_bridge.files", "caffe2_bridge.gradients", "caffe2_frontend",
    "caffe2_backend", "caffe2_backend.workspace", "caffe2_backend.predictor_exporter",
    *(["caffe2_torch"] if find_spec("torch") else []),
)  # fmt: skip
# Classes whose instances only this project makes: their attributes are public, their constructors are not.
_RESULTS: Final = {"Report", "ValidationReport"}
# What passes from one function to another, and the attributes of it that are public.
_OPAQUE: Final = {"Export": ("findings", "model")}

Api = Mapping[str, Sequence[str]]


def current_api() -> dict[str, list[str]]:
    """Return the parameters of public functions, classes and methods, by qualified name; of an enum the members."""
    return dict(sorted(pair for name in MODULES for pair in _of_module(name, importlib.import_module(name))))


def read_api() -> dict[str, list[str]]:
    """Return the API of the release."""
    found: dict[str, list[str]] = json.loads(RELEASED.read_text(encoding="utf-8"))
    return {name: found[name] for name in found if find_spec("torch") or not name.startswith("caffe2_torch.")}


def incompatibilities(released: Api, current: Api) -> list[str]:
    """Return why code that was written for one API does not run with another, a line each. Additions are compatible."""
    faults = [f"{name} is gone" for name in released if name not in current]
    for name in released.keys() & current.keys():
        faults += [f"{name}: {reason}" for reason in _differences(released[name], current[name])]
    return sorted(faults)


def _differences(released: Sequence[str], current: Sequence[str]) -> Iterator[str]:
    positional = [text for text in released if not text.startswith("*")]
    begin = [text for text in current if not text.startswith("*")]
    for index, text in enumerate(positional):
        if begin[index : index + 1] != [text]:
            yield f"positional parameter {index} was {text!r}"
    # A parameter that was passed by keyword alone may have become positional.
    accepted = {*current, *(f"*{text}" for text in begin)}
    yield from (f"{text!r} is gone or changed" for text in released if text.startswith("*") and text not in accepted)
    added = [text.lstrip("*") for text in current if text not in released and f"*{text}" not in released]
    names = {text.partition("=")[0] for text in released}
    for text in added:
        if "=" not in text and text not in {"args", "kwargs"} and text not in names:
            yield f"{text!r} is new and has no default"


def _of_module(public: str, module: ModuleType) -> Iterator[tuple[str, list[str]]]:
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.isclass(value):
            yield from _of_class(f"{public}.{name}", value)
        elif callable(value):
            yield f"{public}.{name}", _parameters(value)


def _of_class(name: str, found: type) -> Iterator[tuple[str, list[str]]]:
    if issubclass(found, enum.Enum):
        yield name, [f"*{member.name}" for member in found]
        return
    if found.__name__ in _OPAQUE:
        yield name, []
        yield from ((f"{name}.{attribute}", []) for attribute in _OPAQUE[found.__name__])
        return
    if found.__name__ in _RESULTS:
        yield name, []
        yield from ((f"{name}.{field.name}", []) for field in fields(found))  # type: ignore[arg-type] # dataclasses
    elif "__init__" in vars(found) or not issubclass(found, Exception):
        yield name, _parameters(found)
    for key, value in inspect.getmembers_static(found):
        if key.startswith("_") or not _is_ours(found, key):
            continue
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if inspect.isfunction(function):
            yield f"{name}.{key}", _parameters(function)
        elif isinstance(function, property):
            yield f"{name}.{key}", []


def _is_ours(found: type, name: str) -> bool:
    """Whether a class has a member from this project, and not from a base of Python's own."""
    owner = next(base for base in found.__mro__ if name in vars(base))
    return owner.__module__.partition(".")[0].startswith("caffe2_")


def _parameters(function: Any) -> list[str]:
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:  # written in C, or without a signature
        return []
    return [_text(each) for each in found if each.name not in {"self", "cls"}]


def _text(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
    star: dict[int, str] = {parameter.KEYWORD_ONLY: "*", parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    return f"{star.get(parameter.kind, '')}{parameter.name}{default}"


def _default(value: Any) -> str:
    """Return a default as text: ``...`` for an object, whose class may gain attributes."""
    return repr(value) if value is None or isinstance(value, bool | int | float | str) or value == () else "..."


def main() -> int:
    """Write the API of the release; with ``--check`` compare it."""
    if "--check" not in sys.argv[1:]:
        rows = (f"{json.dumps(name)}: {json.dumps(parameters)}" for name, parameters in current_api().items())
        RELEASED.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
        return 0
    faults = incompatibilities(read_api(), current_api())
    print(*faults, sep="\n")  # noqa: T201 - the output
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
