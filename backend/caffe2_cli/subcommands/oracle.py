"""``caffe2-bridge oracle``: real Caffe2, to compare with."""

from __future__ import annotations

from pathlib import Path

import click

from caffe2_cli import options
from caffe2_cli.command import Command
from caffe2_cli.exit_codes import YES
from caffe2_cli.lazy_group import Group
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo


@click.group(cls=Group)
def oracle() -> None:
    """Real Caffe2, to compare with."""


@oracle.command(cls=Command, example="caffe2-bridge oracle install", codes={YES: "Real Caffe2 is installed."})
@click.argument("folder", required=False, type=options.LOCAL)
@click.option("--python", metavar="PATH", help="A CPython 3.8; default one on PATH, or one that pyenv has.")
def install(folder: Path | None, python: str | None) -> None:
    """Install real Caffe2 (about 0.8 GB) into FOLDER, and print the Python that has it.

    Without FOLDER: $CAFFE2_ORACLE_DIR, else ~/.cache/caffe2-oracle, where every command finds it.
    """
    from caffe2_validation.runtimes.install import install_oracle

    with progress("installing real Caffe2"):
        echo(str(install_oracle(folder, python)))
