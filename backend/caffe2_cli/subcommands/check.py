"""``caffe2-bridge check``."""

from __future__ import annotations

from typing import Any

from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.errors import print_diagnostics
from caffe2_cli.exit_codes import NO, YES
from caffe2_cli.model_source import ModelSource
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo
from caffe2_cli.plugins import plugin


@command(
    example="caffe2-bridge check models/char_rnn", schema=1, findings=NO,
    codes={YES: "All of MODEL converts.", NO: "There are findings."},
)  # fmt: skip
@options.model
@options.inputs
@options.outputs
@plugin
def check(model: ModelSource, inputs: dict[str, Any], outputs: tuple[str, ...]) -> Outcome:
    """Report everything in MODEL that does not convert to ONNX."""
    from caffe2_frontend import ExportOptions
    from caffe2_frontend import check as check_net

    with progress("checking"):
        report = check_net(model.load(), options=ExportOptions(inputs=inputs, outputs=outputs or None))
    print_diagnostics(report.findings)
    echo(report.summary())
    return Outcome(report.to_dict(), YES if report.covered else NO)
