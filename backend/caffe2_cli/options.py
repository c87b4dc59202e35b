"""Arguments and options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from caffe2_backend.input_text import parse_input
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.storage import AnyPath, locate


class _LocationType(click.ParamType[AnyPath]):
    """A path, or the URL of a file or folder."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AnyPath:
        """Locate the text of an argument."""
        try:
            return locate(value)
        except OptionError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete local paths."""
        del ctx, param
        return [CompletionItem(incomplete, type="file")]


LOCATION: Final = _LocationType()
PATH: Final = click.Path(path_type=Path)  # of what must be local


def parse_inputs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
    """Parse ``NAME=DTYPE[DIMS]``: ``x=float32[T,N,256]``, ``x=[N,?]``, ``x=int64``.

    A scale and zero point may follow, for an Int8 tensor: ``x=uint8[N,3]@0.05,128``.
    """
    described: dict[str, tuple[Any, ...]] = {}
    for value in values:
        parsed = parse_input(value)
        if parsed is None:
            raise click.BadParameter(f"{value!r}: expected NAME=DTYPE[DIM,...], such as data=float32[N,3,224,224]")
        described[parsed[0]] = parsed[1]
    return described


model = click.argument("model", type=LOCATION)
init = click.option(
    "--init", type=LOCATION, help="The init net, or a pickled checkpoint (.pkl), if it is not in the folder of MODEL."
)
databases = click.option(
    "--databases", type=LOCATION, help="The folder of the databases that the init net loads from; by default its own."
)
inputs = click.option(
    "--input", "inputs", multiple=True, callback=parse_inputs, metavar="NAME=DTYPE[DIMS]",
    help="Type and shape of an input; a dim is a size, a name or '?'; @SCALE,ZERO_POINT is added for Int8. Repeatable.",
)  # fmt: skip
outputs = click.option(
    "--output", "outputs", multiple=True, metavar="NAME", help="A blob to output, instead of the net's own. Repeatable."
)
device = click.option(
    "--device",
    help="cpu (ignores device options) or cuda:N; by default operators run where the net says, or on the cpu if this "
    "machine has no GPU.",
)
runtime_device = click.option(
    "--device", help="Where onnxruntime and the workspace run: cpu or cuda:N. Default: cpu, whatever the net says."
)
predictor = click.option("--predictor", metavar="NAME", help="The predictor to read from a database with several.")
recurrent = click.option(
    "--recurrent", type=click.Choice(["auto", "fused", "scan", "loop", "portable", "gpu", "unrolled"]), default="auto",
    show_default=True, help="The form of recurrent nets.",
)  # fmt: skip
_TARGETS: Final = ("onnxruntime", "onnxruntime-web", "openvino", "tract", "opencv", "tensorrt", "coreml")
target = click.option(
    "--for", "for_runtime", default="onnxruntime", show_default=True, metavar="RUNTIME",
    shell_complete=lambda _, __, typed: [name for name in _TARGETS if name.startswith(typed)],
    help="The runtime that the model is for: onnxruntime, onnxruntime-1.N (1.8 or later), onnxruntime-web, openvino, "
    "tract, opencv, tensorrt or coreml. What it does not have is an error.",
)  # fmt: skip
recompute = click.option(
    "--recompute", type=click.Choice(["none", "steps"]), default="none", show_default=True,
    help="What gradients of recurrent nets compute again instead of keeping it from the forward steps. Blobs that the "
    "net lists, or of all steps, which saves memory.",
)  # fmt: skip
runtimes = click.option(
    "--against", "runtimes", multiple=True, metavar="RUNTIME",
    help="A runtime: caffe2, onnxruntime-cpu, onnxruntime-cuda, onnx-reference, pytorch, workspace, openvino, opencv, "
    "tract, onnxruntime-node or onnxruntime-web. Repeatable; the first is the reference. Default: those of caffe2, "
    "onnxruntime-cpu, onnx-reference and pytorch that are installed.",
)  # fmt: skip
random_weights = click.option(
    "--random-weights", is_flag=True, help="Synthesize missing weights with shapes that fit the operators."
)
seed = click.option("--seed", type=int, default=2018, show_default=True, help="Seed of synthesized inputs and weights.")
_NOT_NEGATIVE: Final = click.FloatRange(min=0)


def tolerances(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the options ``--rtol`` and ``--atol``."""
    rtol = click.option(
        "--rtol", type=_NOT_NEGATIVE,
        help="Relative tolerance of floats; by default it depends on the dtype and grows with the depth.",
    )  # fmt: skip
    atol = click.option("--atol", type=_NOT_NEGATIVE, help="Absolute tolerance of floats; the default likewise.")
    return rtol(atol(command))


def as_json(what: str) -> Callable[..., Any]:
    """Return the option ``--json`` of a command that prints a report or a table."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print the {what} as JSON.")
