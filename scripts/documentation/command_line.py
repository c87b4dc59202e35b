"""The reference of the command line, from click's tree: a section for each command, and the table of exit codes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from caffe2_cli.actions import CommandWithActions
from caffe2_cli.command import SECTIONS, Command, section_of
from caffe2_cli.commands import main
from caffe2_cli.exit_codes import EXIT_CODES

PROGRAM = "caffe2-bridge"


def command_line_page() -> Iterator[str]:
    """Yield the page."""
    context = click.Context(main, info_name=PROGRAM, **main.context_settings)
    yield f"# Command line\n\n{inspect.cleandoc(main.help or '')}\n"
    yield from _options(main, context)
    yield "## Exit codes\n\nThe same of all commands; each command's section says what 0 and 1 are of it.\n"
    yield "| code | meaning |\n|--:|---|"
    yield from (f"| {code} | {text} |" for code, text in EXIT_CODES.items())
    yield (
        "\n## JSON\n\nWith `--json` standard output has one JSON object alone. Its key `schema` is the version of the "
        "object, which changes when a key is gone or means something else; keys may be added. If the model does not "
        "convert, `findings` lists why.\n"
    )
    yield "## Standard input and output\n"
    yield "`-` is standard input where one file is read, and standard output where one is written. Lines about what was"
    yield "done then go to standard error.\n"
    for name, command in commands(main, context):
        yield from _section(name, command, context)


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, Command]]:
    """Yield the commands of a group by their words, those of its groups and the actions of commands with them."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", each) for inner, each in commands(command, context))
        elif isinstance(command, Command):
            yield name, command
            if isinstance(command, CommandWithActions):
                yield from ((f"{name} {action}", each) for action, each in command.actions.items())


def _section(name: str, command: Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, parent, name)
    yield f"## {name}\n"
    yield f"```text\n{PROGRAM} {name} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    yield f"```sh\n{command.example}\n```\n"
    yield from _options(command, context)
    yield " ".join(f"Exit code {code}: {text}" for code, text in command.codes.items()) + "\n"
    if command.schema:
        yield f"`--json` prints schema {command.schema}.\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield a table of the options, in the order of the sections of the help; those of all commands stand once."""
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    if command is not main:
        options = [option for option in options if section_of(option) != "General" and "--json" not in option.opts]
    records = [record for option in sorted(options, key=_order) if (record := option.get_help_record(context))]
    if records:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| `{names}` | {_cell(text)} |" for names, text in records)
        yield ""


def _order(option: click.Option) -> int:
    return list(SECTIONS).index(section_of(option))


def _cell(text: str) -> str:
    """Return text for a cell; in code a bar separates nothing, and a backslash before it would show."""
    return text.replace("|", "\\|")
