"""A command with the conventions of all: shared options, an example, exit codes, errors, and JSON of a known schema."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import click
from click.core import ParameterSource

from caffe2_bridge.bounds import limits_of_processes
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.diagnostics.internal import debug_mode
from caffe2_cli.errors import errors_reported
from caffe2_cli.exit_codes import FAILED, INTERRUPTED, YES
from caffe2_cli.output.echo import message, print_json
from caffe2_cli.settings import settings

# Sections of the help of every command; options that are in none of them stand under "Options".
SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Model": ("--init", "--databases", "--predictor", "--other", "--random-weights"),
    "Inputs and outputs": ("--inputs", "--input", "--random-inputs", "--seed", "--steps", "--output"),
    "Runtimes": ("--against", "--device", "--caffe2-python", "--engine", "--jobs", "--seconds", "--memory"),
    "Conversion": (
        "--to", "--for", "--opset", "--recurrent", "--training", "--stateful", "--full-lengths", "--reroll",
        "--recompute", "--fold-batchnorm", "--no-weights", "--foreign", "--int8", "--fp16", "--fp16-io", "--certify",
        "--plugin",
    ),
    "Comparison": ("--every-blob", "--matrix", "--lockstep", "--find-nan", "--rtol", "--atol"),
    "Options": (),
    "Results": (
        "--out", "--format", "--external-data", "--html", "--profile", "--svg", "--repro", "--report", "--verify",
        "--json",
    ),
    "General": ("--quiet", "--verbose", "--color", "--debug", "--limit", "--help"),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a command returns: the data of its JSON object, and its exit code."""

    data: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int = YES


class Option(click.Option):
    """An option that may have former names: they work, and print a note."""

    def __init__(self, *args: Any, former: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.former = former


class Command(click.Command):
    """A command of the command line.

    Args:
        example: a command line that shows it.
        codes: what the exit codes 0 and 1 say of this command, and 2 if that is more than what it is for all.
        schema: the version of the object that ``--json`` prints, the data of the command's Outcome; 0 for a command
            that reports nothing.
        findings: the exit code for a model that does not convert; NO where that is what the command asks.
        program: whether it runs a program of the user's, whose errors are its own.
        in_place: whether what it writes may replace what it reads.
    """

    def __init__(
        self, *args: Any, example: str, codes: Mapping[int, str], schema: int = 0, findings: int = FAILED,
        program: bool = False, in_place: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **kwargs)
        self.example, self.codes, self.schema = example, codes, schema
        self._findings, self._program, self._in_place = findings, program, in_place
        self.params += [*([_json_option(schema)] if schema else []), *general_options()]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, in which options may have former names; close what one opened if another is wrong."""
        former = {
            name: option.opts[-1] for option in self.params if isinstance(option, Option) for name in option.former
        }
        try:
            return super().parse_args(ctx, list(_renamed(args, former, silent=ctx.resilient_parsing)))
        except click.UsageError:
            ctx.close()
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, report its errors, and print its JSON object if that is asked for."""
        if self._program:
            return super().invoke(ctx)
        with errors_reported(self.name or "", self._findings):
            if settings().schema and settings().piped is not None:
                raise click.UsageError("--json and -o - do not go together: both write standard output")
            if not self._in_place:
                from caffe2_cli.streams import require_other_files  # which --help does not load

                require_other_files(ctx)
            outcome = super().invoke(ctx)
            if isinstance(outcome, Outcome):
                if settings().schema:
                    print_json(outcome.data)
                ctx.exit(outcome.exit_code)
            return outcome

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in sections."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                sections[section_of(option)].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes and the example."""
        del ctx
        codes = {FAILED: "It could not be done.", INTERRUPTED: "Ctrl-C ended it.", **self.codes}
        write_exit_codes(formatter, dict(sorted(codes.items())))
        write_example(formatter, self.example)


command: Final = partial(click.command, cls=Command)


def section_of(option: click.Parameter) -> str:
    """Return the section of the help that an option stands in."""
    return next((title for title, names in SECTIONS.items() if not set(names).isdisjoint(option.opts)), "Options")


def write_exit_codes(formatter: click.HelpFormatter, codes: Mapping[int, str]) -> None:
    """Write exit codes and what they mean."""
    with formatter.section("Exit codes"):
        formatter.write_dl([(str(code), text) for code, text in codes.items()])


def write_example(formatter: click.HelpFormatter, example: str) -> None:
    """Write an example, which is not wrapped."""
    with formatter.section("Example"):
        formatter.write(f"{'':{formatter.current_indent}}{example}\n")


def general_options() -> list[click.Option]:
    """Return the options that the program and all commands have: they may stand before and after the command."""
    return [
        click.Option(
            ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_set_quiet,
            help="Print results, warnings and errors alone.",
        ),
        click.Option(
            ["-v", "--verbose"], is_flag=True, expose_value=False, callback=_set_verbose,
            help="Print how long each stage takes.",
        ),
        click.Option(
            ["--color"], type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
            expose_value=False, is_eager=True, callback=_set_color,
            help="Whether text is colored: auto on terminals, unless NO_COLOR is set.",
        ),
        click.Option(
            ["--debug"], is_flag=True, expose_value=False, callback=_set_debug,
            help="Show the traceback of an internal error.",
        ),
        click.Option(
            ["--limit"], metavar="NAME=NUMBER", multiple=True, expose_value=False, callback=_set_limits,
            help="Raise a bound on what a small model may ask for, such as constant_bytes=4g. Repeatable.",
        ),
    ]  # fmt: skip


def _json_option(schema: int) -> click.Option:
    return click.Option(
        ["--json"], is_flag=True, expose_value=False, callback=partial(_set_schema, schema),
        help=f"Print the result as a JSON object, schema {schema}.",
    )  # fmt: skip


def _set_quiet(_: click.Context, __: click.Parameter, value: bool) -> None:
    settings().quiet |= value


def _set_verbose(_: click.Context, __: click.Parameter, value: bool) -> None:
    settings().verbose |= value


def _set_schema(schema: int, _: click.Context, __: click.Parameter, value: bool) -> None:
    settings().schema = schema if value else 0


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.with_resource(debug_mode())


def _set_limits(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
    if values and not ctx.resilient_parsing:
        try:
            ctx.with_resource(limits_of_processes(",".join(values)))
        except OptionError as error:
            raise click.UsageError(str(error)) from None


def _set_color(ctx: click.Context, option: click.Parameter, value: str) -> None:
    if ctx.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT:
        ctx.color = {"always": True, "never": False}.get(value)
    elif ctx.parent is None and (os.environ.get("NO_COLOR") or os.environ.get("FORCE_COLOR")):
        ctx.color = not os.environ.get("NO_COLOR")


def _renamed(args: Iterable[str], former: Mapping[str, str], *, silent: bool) -> Iterator[str]:
    """Yield the arguments, with former names of options replaced, which a note says."""
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        yield f"{former[name]}{equals}{value}" if name in former else word
        if name in former and not silent:
            message("note", f"{name} is the former name of {former[name]}")
        if word == "--":
            yield from words
