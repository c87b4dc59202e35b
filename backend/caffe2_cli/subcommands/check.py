"""``caffe2-bridge check``."""

from __future__ import annotations

import sys
from typing import Any

import click

from caffe2_bridge import load
from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.errors import print_diagnostics, reports_errors
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo


@click.command()
@options.model
@options.init
@options.databases
@options.inputs
@options.outputs
@options.as_json("report")
@reports_errors()
def check(
    model: AnyPath,
    init: AnyPath | None,
    databases: AnyPath | None,
    inputs: dict[str, Any],
    outputs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Report everything in MODEL that does not convert to ONNX.

    Exit code 0: covered, 1: findings, 2: usage.
    """
    from caffe2_frontend import ExportOptions
    from caffe2_frontend import check as check_net

    with progress("checking"):
        loaded = load(model, init, databases=databases)
        report = check_net(loaded, options=ExportOptions(inputs=inputs, outputs=outputs or None))
    if as_json:
        echo(report.to_json())
    else:
        print_diagnostics(report.findings)
        echo(report.summary())
    sys.exit(0 if report.covered else 1)
