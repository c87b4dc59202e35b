"""The conventions of the command line hold in every command: a table of all commands, read from click's tree.

``python -m pytest -s -k table tests/surface/test_conventions.py`` prints it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click
import pytest

from caffe2_cli import options
from caffe2_cli.actions import CommandWithActions
from caffe2_cli.command import SECTIONS, Command, Option, section_of
from caffe2_cli.commands import COMMANDS, main
from caffe2_cli.exit_codes import EXIT_CODES, FAILED, INTERRUPTED, YES
from caffe2_cli.streams import OutputType
from caffe2_validation.runtimes import RUNTIMES


def tree(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command of a group, and of the groups in it, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        words = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from tree(command, words)
            continue
        yield words, command
        if isinstance(command, CommandWithActions):
            yield from ((f"{words} {action}", each) for action, each in command.actions.items())


ALL: Final = dict(tree(main))
# Commands that report nothing: one runs a program, the other prints a path.
NOTHING_TO_REPORT: Final = {"python", "oracle install"}
# Commands that take a Caffe2 model have all options about its parts.
PARTS: Final = ("--init", "--databases", "--predictor")


def option(command: click.Command, name: str) -> click.Option | None:
    """Return the option of a command that has this name."""
    return next((each for each in command.params if isinstance(each, click.Option) and name in each.opts), None)


def table() -> Iterator[Mapping[str, Any]]:
    """Yield the row of each command: what it has of the conventions."""
    for name, command in ALL.items():
        out = option(command, "-o")
        yield {
            "command": name,
            "-q -v --color": all(option(command, each) for each in ("-q", "--quiet", "-v", "--verbose", "--color")),
            "--json": getattr(command, "schema", 0),
            "-o": "/".join([*out.opts[1:], *out.former]) if isinstance(out, Option) else "",
            "-o -": out is not None and isinstance(out.type, OutputType),
            "parts": sum(option(command, each) is not None for each in PARTS),
            "--input": option(command, "--input") is not None,
            "--output": option(command, "--output") is not None,
            "--seed": option(command, "--seed") is not None,
            "codes": len(getattr(command, "codes", ())),
            "example": bool(getattr(command, "example", "")),
        }


def test_the_table() -> None:
    rows = list(table())
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    for row in [{key: key for key in rows[0]}, *rows]:
        print("  ".join(f"{row[key]!s:{width}}" for key, width in widths.items()).rstrip())  # noqa: T201 - shown by -s
    assert all(row["-q -v --color"] and row["codes"] and row["example"] for row in rows)
    assert {row["command"] for row in rows if not row["--json"]} == NOTHING_TO_REPORT
    assert {row["-o"].partition("/")[0] for row in rows} == {"", "--out"}


@pytest.mark.parametrize("name", ALL)
def test_one_class_makes_every_command(name: str) -> None:
    assert isinstance(ALL[name], Command)


@pytest.mark.parametrize("name", ALL)
def test_the_same_name_is_the_same_option(name: str) -> None:
    """Check that ``-o`` is a path and ``--output`` a blob, and that a model has all options about its parts."""
    command = ALL[name]
    out, blob = option(command, "-o"), option(command, "--output")
    assert out is None or (isinstance(out, Option) and out.former and "-o" in out.opts and len(out.opts) == 2)
    assert blob is None or (blob.multiple and blob.metavar == "NAME" and blob.name == "outputs")
    given = [option(command, each) is not None for each in PARTS]
    takes_net = any(each.name == "model" for each in command.params) and name != "import"
    assert given == [takes_net] * len(PARTS)
    if isinstance(out, Option) and blob is not None:
        assert "--output" not in out.former


@pytest.mark.parametrize("name", ALL)
def test_the_example_is_a_call_of_the_command(name: str) -> None:
    command = ALL[name]
    assert isinstance(command, Command)
    program, *words = shlex.split(command.example)
    assert [program, *words[: len(name.split())]] == ["caffe2-bridge", *name.split()]
    command.make_context(name, words[len(name.split()) :], resilient_parsing=False).close()


def help_of(name: str, width: int) -> str:
    """Return the help of a command on a terminal of this width; CliRunner has 80 columns, whatever the terminal."""
    context = click.Context(main, info_name="caffe2-bridge", terminal_width=None, **main.context_settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        return ALL[name].get_help(click.Context(ALL[name], context, name)) if name else main.get_help(context)


@pytest.mark.parametrize("width", [60, 160])
@pytest.mark.parametrize("name", ["", *ALL])
def test_help_is_as_wide_as_the_terminal_and_cuts_nothing(name: str, width: int) -> None:
    text = help_of(name, width)
    assert "..." not in text.replace("[ARGS]...", "").replace("[ARGUMENTS]...", "")
    # Examples, and the values of an option, are not wrapped.
    lines = [line for line in text.splitlines() if not line.startswith(("  caffe2-bridge ", "  -"))]
    assert max(map(len, lines)) <= width
    assert width < 80 or any(80 < len(line) <= width for line in text.splitlines())
    codes = re.search(r"^Exit codes:\n((?:  .*\n)+)", text, re.MULTILINE)
    assert codes is not None
    assert [int(line[:5]) for line in codes[1].splitlines() if line[2] != " "] == [
        code
        for code in EXIT_CODES
        if not name or code in {**getattr(ALL[name], "codes", {}), FAILED: "", INTERRUPTED: ""}
    ]
    assert "\nExample:\n  caffe2-bridge " in text


def test_the_list_of_commands_has_whole_sentences() -> None:
    text = " ".join(help_of("", 60).partition("Commands:")[2].split())
    for entry in COMMANDS.values():
        assert entry.summary in text


def test_options_of_long_commands_are_in_sections() -> None:
    for name, command in ALL.items():
        found = [each.opts for each in command.params if isinstance(each, click.Option) and not each.hidden]
        if len(found) > 20:
            others = [o.opts[-1] for o in command.params if isinstance(o, click.Option) and section_of(o) == "Options"]
            assert others == [], name
    names = [each for section in SECTIONS.values() for each in section]
    assert len(names) == len(set(names))


def test_the_codes_are_those_of_the_table() -> None:
    assert list(EXIT_CODES) == [0, 1, 2, 130]
    for command in ALL.values():
        assert isinstance(command, Command)
        assert YES in command.codes
        assert set(command.codes) <= {0, 1, 2}


def test_runtimes_that_help_and_completion_name_exist() -> None:
    assert tuple(RUNTIMES) == options.RUNTIMES
