"""The command line ``scripts/fuzz``: one subcommand for each fuzzer, imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

# The module that has the command ``main``, and what it searches for.
FUZZERS: Final[Mapping[str, tuple[str, str]]] = {
    "deviations": (
        "fuzz.exact.document",
        "Nothing: writes docs/deviations.md, what `exact` does not count.",
    ),
    "exact": ("fuzz.exact.command", "Operators and small nets that compute something else than in real Caffe2."),
    "guided": ("fuzz.guided.cli", "Input that ends in anything but the project's own errors, by the code it reaches."),
    "robust": ("fuzz.robust.cli", "Malformed input that ends in anything but the project's own errors."),
}


class _Fuzzers(click.Group):
    """The fuzzers, imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(FUZZERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in FUZZERS:
            return None
        command: click.Command = import_module(FUZZERS[cmd_name][0]).main
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Fuzzers"):
            formatter.write_dl([(name, FUZZERS[name][1]) for name in self.list_commands(ctx)])


@click.command(cls=_Fuzzers)
def main() -> None:
    """Search for inputs that break what docs/testing.md promises. Exit status 1 where one is found."""


if __name__ == "__main__":
    main(prog_name="scripts/fuzz")
