"""The command line, ``caffe2-bridge``: a group of commands, each in a module of its own."""

from __future__ import annotations

import click

from caffe2_backend.cli.batch import batch
from caffe2_backend.cli.check import check
from caffe2_backend.cli.convert import convert
from caffe2_backend.cli.errors import printed_diagnostics
from caffe2_backend.cli.export import export
from caffe2_backend.cli.import_ import import_
from caffe2_backend.cli.ops import ops
from caffe2_backend.cli.oracle import oracle
from caffe2_backend.cli.profile import profile
from caffe2_backend.cli.python import python
from caffe2_backend.cli.run import run
from caffe2_backend.cli.show import show
from caffe2_backend.cli.train import train
from caffe2_backend.cli.validate import validate
from caffe2_bridge.diagnostics.internal import debug_mode


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="caffe2-bridge", prog_name="caffe2-bridge")
@click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")
@click.pass_context
def main(context: click.Context, *, debug: bool) -> None:
    """Convert Caffe2 nets to ONNX and back, run them on onnxruntime, and compare runtimes.

    MODEL is a folder with a predict net and an init net, a predict net's file, a predictor database, or an .onnx file.
    """
    context.with_resource(printed_diagnostics())
    if debug:
        context.with_resource(debug_mode())


for _command in (batch, check, convert, export, import_, ops, oracle, profile, python, run, show, train, validate):
    main.add_command(_command)
