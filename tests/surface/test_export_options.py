"""The options of an export: described once, in the docstring of to_onnx, of which help and documentation have a part.

The first sentence of an option's description begins its help, and is its row in docs/exporting.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final, get_args

import click
import pytest
from support.paths import ROOT

from caffe2_cli.subcommands.export import export
from caffe2_frontend import ExportOptions, to_onnx
from caffe2_frontend.options import Float16Io, Int8, Recompute
from caffe2_frontend.targets.target import Recurrent

PARAMETERS: Final = {
    name: parameter.default
    for name, parameter in inspect.signature(to_onnx).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY and name not in ("inputs", "outputs")
}
# The command line and to_onnx name this one otherwise.
COMMAND: Final = {
    {"for_runtime": "target"}.get(option.name or "", option.name): option
    for option in export.params
    if isinstance(option, click.Option) and option.name != "target"
}
FORMS: Final[Mapping[str, Any]] = {"recurrent": Recurrent, "recompute": Recompute, "int8": Int8, "fp16_io": Float16Io}


def first_sentence(name: str) -> str:
    """Return the first sentence of an option's description in the docstring of to_onnx."""
    found = re.search(
        rf"^ {{4}}{name}: (.*?)(?=^ {{0,4}}\S|\Z)", inspect.getdoc(to_onnx) or "", re.DOTALL | re.MULTILINE
    )
    assert found is not None, name
    text = " ".join(found[1].split()).partition(". ")[0].rstrip(".") + "."
    text = re.sub(r"``(\w+)``", lambda match: f"--{match[1]}" if match[1] in PARAMETERS else match[1], text)
    return text[0].upper() + text[1:].replace("``", "")


def row(name: str) -> str:
    """Return an option's row in the documentation."""
    option, default = COMMAND[name], PARAMETERS[name]
    spelled = " ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts) if each.startswith("--"))
    return f"| {spelled} | `{name}` | {first_sentence(name)} | {'' if default is None else f'`{default}`'} |"


@pytest.mark.parametrize("name", PARAMETERS)
def test_help_begins_as_the_docstring(name: str) -> None:
    assert (COMMAND[name].help or "").startswith(first_sentence(name))


@pytest.mark.parametrize("name", PARAMETERS)
def test_defaults_and_choices_are_the_same(name: str) -> None:
    option, default = COMMAND[name], PARAMETERS[name]
    parsed = export.make_context("export", ["model", "-o", "model.onnx"]).params[option.name or ""]
    assert parsed == default == inspect.signature(ExportOptions).parameters[name].default
    if isinstance(option.type, click.Choice):
        assert tuple(option.type.choices) == get_args(FORMS[name])


def test_documentation_lists_the_options() -> None:
    lines = (ROOT / "docs" / "exporting.md").read_text(encoding="utf-8").splitlines()
    first = lines.index("| option | argument | meaning | default |") + 2
    assert lines[first : first + len(PARAMETERS)] == [row(name) for name in PARAMETERS]
    assert lines[first + len(PARAMETERS)] == ""
