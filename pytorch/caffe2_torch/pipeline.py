"""The passes that make a program of a net: read from top to bottom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.diagnostics.check_options import require_sequence
from caffe2_bridge.files.model_argument import NetLike, as_model
from caffe2_bridge.gradients.forward_steps import insert_forward_operators
from caffe2_bridge.model import Model
from caffe2_bridge.passes import Pass, RaiseErrors, run_passes
from caffe2_bridge.readers import cut_readers
from caffe2_torch.conversion import Conversion
from caffe2_torch.passes.assemble import Assemble
from caffe2_torch.passes.check_flow import CheckFlow
from caffe2_torch.passes.choose_outputs import ChooseOutputs
from caffe2_torch.passes.find_inputs import FindInputs
from caffe2_torch.passes.initialize import Initialize

PIPELINE: Final[tuple[Pass[Conversion], ...]] = (
    ChooseOutputs(),
    CheckFlow(),
    Assemble(),
    RaiseErrors(),
    FindInputs(),
    Initialize(),
)


def convert(
    predict_net: NetLike | Model,
    init_net: NetLike | None = None,
    *,
    inputs: Iterable[str] = (),
    outputs: Sequence[str] | None = None,
) -> Conversion:
    """Run the passes; the arguments and errors are those of :func:`caffe2_torch.to_torch`."""
    require_sequence("inputs", inputs)
    require_sequence("outputs", outputs)
    inputs = tuple(inputs)
    model = insert_forward_operators(cut_readers(as_model(predict_net, init_net))).with_inputs(inputs)
    unknown = [name for name in inputs if name not in model.inputs]
    if unknown:
        raise OptionError(f"{unknown[0]!r} is neither an input of the net nor one of its parameters")
    asked = None if outputs is None else tuple(dict.fromkeys(outputs))
    return run_passes(PIPELINE, Conversion(model, asked, findings=model.init.findings))
