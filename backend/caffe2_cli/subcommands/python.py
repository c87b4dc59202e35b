"""``caffe2-bridge python``."""

from __future__ import annotations

import atexit
import gc
import logging
from pathlib import Path

import click

from caffe2_bridge.diagnostics.log import LOGGER
from caffe2_cli import options
from caffe2_cli.command import command
from caffe2_cli.errors import errors_reported
from caffe2_cli.exit_codes import NO, YES


@command(
    example="caffe2-bridge python -m caffe2.python.examples.char_rnn --train_data text.txt", program=True,
    codes={YES: "PROGRAM ended.", NO: "PROGRAM raised an exception; or any code that it ends with."},
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)  # fmt: skip
@click.option("--caffe2", "copy", type=options.PATH, metavar="DIR",
              help="Where Caffe2's Python files are: the folder that contains caffe2, an environment with torch up to "
              "1.12, or such a wheel. Default: $CAFFE2_PYTHON_SOURCES, else the module search path.")  # fmt: skip
@click.option("-m", "module", is_flag=True, help="PROGRAM is a module, such as caffe2.python.examples.char_rnn.")
@click.option(
    "--device",
    shell_complete=options.complete_device,
    help="Where nets run: cpu, cuda:N or webgpu. Default: as device options say.",
)
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def python(copy: Path | None, module: bool, device: str | None, program: str, arguments: tuple[str, ...]) -> None:
    """Run PROGRAM, a Python program that imports caffe2, on onnxruntime.

    Caffe2's own Python files are read from your copy of them, which is not changed. ARGUMENTS are the program's.
    """
    with errors_reported("python"):
        _prepare(copy, device)
    LOGGER.setLevel(logging.WARNING)  # notes are for who converts nets
    from caffe2_compat.hook.run import run_module, run_program

    atexit.unregister(gc.freeze)  # Python's last search for garbage may close a file that the program leaves open
    if module:
        run_module(program, arguments)
    else:
        run_program(Path(program), arguments)


def _prepare(copy: Path | None, device: str | None) -> None:
    from caffe2_compat import install_caffe2, workspace

    install_caffe2(copy)
    if device is not None:
        workspace.SetDevice(device)
