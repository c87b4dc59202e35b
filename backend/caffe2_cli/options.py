"""Arguments and options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from caffe2_backend.input_text import Spec, parse_inputs
from caffe2_bridge.diagnostics import OptionError
from caffe2_cli.command import Option
from caffe2_cli.model_source import with_source
from caffe2_cli.streams import FolderType, LocationType, OutputType

LOCATION: Final = LocationType()
OUTPUT: Final = OutputType()  # one file
FOLDER: Final = FolderType()
LOCAL: Final = FolderType(local=True)
PATH: Final = click.Path(path_type=Path)  # of what is read, and must be local


def _parse_inputs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, Spec]:
    """Parse ``NAME=DTYPE[DIMS]``: ``x=float32[T,N,256]``, ``x=[N,?]``, ``x=int64``.

    A scale and zero point may follow, for an Int8 tensor: ``x=uint8[N,3]@0.05,128``.
    """
    try:
        return parse_inputs(values)
    except OptionError as error:
        raise click.BadParameter(str(error)) from None


def completing(*values: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what completes one of these values."""
    return lambda _, __, typed: [value for value in values if value.startswith(typed)]


def model(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the argument MODEL, with the options about where its parts are: ``model``, a ModelSource."""
    init = click.option(
        "--init", type=LOCATION, help="The init net, or weights by name (.pkl, .npz), if it is not in MODEL's folder."
    )
    databases = click.option(
        "--databases", type=LOCATION, help="The folder of databases that the init net loads from; by default its own."
    )
    predictor = click.option("--predictor", metavar="NAME", help="The predictor to read from a database with several.")
    return onnx_model(init(databases(predictor(with_source(command)))))


onnx_model = click.argument("model", type=LOCATION)


def out(name: str, what: str, *, former: str = "--output", file: bool = False, **kwargs: Any) -> Callable[..., Any]:
    """Return the option ``-o`` of a command: where it writes.

    Args:
        name: of the command's parameter.
        what: the help.
        former: the long name that the option had.
        file: whether one file is written, which ``-`` sends to standard output.
        kwargs: as for ``click.option``.
    """
    return click.option(
        "-o", "--out", name, cls=Option, former=[former], help=f"{what}{'; - for standard output' if file else ''}.",
        **{"type": OUTPUT if file else FOLDER, **kwargs},
    )  # fmt: skip


given_inputs = click.option(
    "--inputs", "source", type=LOCATION,
    help="An .npz file with an array for each input; without it inputs are synthesized.",
)  # fmt: skip
inputs = click.option(
    "--input", "inputs", multiple=True, callback=_parse_inputs, metavar="NAME=DTYPE[DIMS]",
    help="Type and shape of an input; a dim is a size, a name or '?'; @SCALE,ZERO_POINT is added for Int8. Repeatable.",
)  # fmt: skip
outputs = click.option(
    "--output", "outputs", multiple=True, metavar="NAME", help="A blob to output, instead of the net's own. Repeatable."
)
complete_device: Final = completing("cpu", "cuda:0", "webgpu")
device = click.option(
    "--device", shell_complete=complete_device,
    help="cpu (ignores device options), cuda:N or webgpu; by default operators run where the net says, or on the cpu "
    "if this machine has no GPU.",
)  # fmt: skip
runtime_device = click.option(
    "--device", shell_complete=complete_device,
    help="Where onnxruntime and the workspace run: cpu or cuda:N. Default: cpu, whatever the net says.",
)  # fmt: skip
recurrent = click.option(
    "--recurrent", type=click.Choice(["auto", "fused", "scan", "loop", "portable", "gpu", "unrolled"]), default="auto",
    show_default=True, help="The form of recurrent nets.",
)  # fmt: skip
_TARGETS: Final = ("onnxruntime", "onnxruntime-web", "openvino", "tract", "opencv", "tensorrt", "coreml")
target = click.option(
    "--for", "for_runtime", default="onnxruntime", show_default=True, metavar="RUNTIME",
    shell_complete=completing(*_TARGETS),
    help="The runtime that the model is for: onnxruntime, onnxruntime-1.N (1.8 or later), onnxruntime-web, openvino, "
    "tract, opencv, tensorrt or coreml. What it does not have is an error.",
)  # fmt: skip
recompute = click.option(
    "--recompute", type=click.Choice(["none", "steps"]), default="none", show_default=True,
    help="What gradients of recurrent nets compute again instead of keeping it from the forward steps. Blobs that the "
    "net lists, or of all steps, which saves memory.",
)  # fmt: skip
# The names in caffe2_validation.runtimes, which takes a while to import.
RUNTIMES: Final = (
    "caffe2", "onnxruntime-cpu", "onnxruntime-cuda", "onnx-reference", "pytorch", "workspace", "openvino", "opencv",
    "tract", "onnxruntime-node", "onnxruntime-web",
)  # fmt: skip
runtimes = click.option(
    "--against", "runtimes", multiple=True, metavar="RUNTIME", shell_complete=completing(*RUNTIMES),
    help=f"A runtime: {', '.join(RUNTIMES[:-1])} or {RUNTIMES[-1]}. Repeatable; the first is the "
    "reference. Default: those of caffe2, onnxruntime-cpu, onnx-reference and pytorch that are installed.",
)  # fmt: skip
random_weights = click.option(
    "--random-weights", is_flag=True, help="Synthesize missing weights with shapes that fit the operators."
)
SEED: Final = click.IntRange(min=0)
seed = click.option(
    "--seed", type=SEED, default=2018, show_default=True, help="Seed of synthesized inputs and weights."
)
verify = click.option("--verify", is_flag=True, help="Compare what was written with MODEL, as validate --other does.")
_NOT_NEGATIVE: Final = click.FloatRange(min=0)


def tolerances(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the options ``--rtol`` and ``--atol``."""
    rtol = click.option(
        "--rtol", type=_NOT_NEGATIVE,
        help="Relative tolerance of floats; by default it depends on the dtype and grows with the depth.",
    )  # fmt: skip
    atol = click.option("--atol", type=_NOT_NEGATIVE, help="Absolute tolerance of floats; the default likewise.")
    return rtol(atol(command))
