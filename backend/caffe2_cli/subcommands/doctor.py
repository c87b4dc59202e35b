"""``caffe2-bridge doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import NO, YES
from caffe2_cli.output.echo import echo
from caffe2_cli.output.tables import cell, print_table

if TYPE_CHECKING:  # the command line starts without it
    from caffe2_cli.installation import Installation

_GIB = 1 << 30


@command(
    example="caffe2-bridge doctor", schema=1,
    codes={YES: "Conversions and onnxruntime work.", NO: "They do not."},
)  # fmt: skip
def doctor() -> Outcome:
    """Report versions, GPUs and real Caffe2, what is missing, and the line that installs it."""
    from caffe2_cli.installation import inspect_installation

    found = inspect_installation()
    _print(found)
    return Outcome(found.to_dict(), NO if found.problems else YES)


def _print(found: Installation) -> None:
    echo(f"caffe2-bridge {found.version}, Python {found.python}, {found.platform}")
    table = Table("package", "extra", "version", "supported", "to install")
    for package in found.packages:
        command = "" if package.state == "ok" else package.command
        shown = package.version or "missing"
        table.add_row(*map(cell, (package.name, package.extra, shown, package.wanted, command)))
    print_table(table)
    programs = Table("program", "for", "found", "to install")
    for program in found.programs:
        source = "" if program.path else program.source
        programs.add_row(*map(cell, (program.name, program.purpose, program.path or "missing", source)))
    print_table(programs)
    echo(f"onnxruntime: {', '.join(found.providers) or 'cannot be imported'}")
    for index, gpu in enumerate(found.gpus):
        capability = f"compute capability {gpu['major']}.{gpu['minor']}"
        echo(f"cuda:{index}: {gpu['name']}, {gpu['totalGlobalMem'] / _GIB:.0f} GiB, {capability}")
    if found.no_gpu and found.providers:
        echo(f"GPU: {found.no_gpu}")
    if found.caffe2:
        echo("real Caffe2: " + ", ".join(f"{name} {value}" for name, value in found.caffe2.items()))
    else:
        echo(f"real Caffe2 (optional): {found.no_caffe2}")
    for problem in found.problems:
        echo(f"problem: {problem.reason}\n  {problem.cure}")
    if not found.problems:
        echo("No problems found.")
