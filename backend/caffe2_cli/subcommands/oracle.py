"""``caffe2-bridge oracle``: real Caffe2, to compare with."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from caffe2_cli import options
from caffe2_cli.errors import COULD_NOT_RUN, reports_errors
from caffe2_cli.output.echo import echo


@click.group()
def oracle() -> None:
    """Real Caffe2, to compare with."""


@oracle.command()
@click.argument("folder", required=False, type=options.PATH)
@click.option("--python", metavar="PATH", help="A CPython 3.8; default one on PATH, or one that pyenv has.")
@reports_errors(COULD_NOT_RUN)
def install(folder: Path | None, python: str | None) -> None:
    """Install real Caffe2 (about 0.8 GB) into FOLDER, and print the Python that has it.

    Without FOLDER: $CAFFE2_ORACLE_DIR, else ~/.cache/caffe2-oracle, where every command finds it.
    """
    from caffe2_validation.runtimes.install import install_oracle

    with Console(stderr=True).status("installing real Caffe2"):
        echo(str(install_oracle(folder, python)))
