"""The passes that make a program of a net: read from top to bottom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf.message import Message

from caffe2_bridge.gradients.forward_steps import insert_forward_operators
from caffe2_bridge.model import Model
from caffe2_bridge.passes import Pass, RaiseErrors, run_passes
from caffe2_bridge.plans import plan_net
from caffe2_bridge.proto.caffe2_pb2 import PlanDef
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
    predict_net: Message | bytes | Model,
    init_net: Message | bytes | None = None,
    *,
    inputs: Iterable[str] = (),
    outputs: Sequence[str] | None = None,
) -> Conversion:
    """Run the passes; the arguments and errors are those of :func:`caffe2_torch.to_torch`."""
    model = insert_forward_operators(cut_readers(_as_model(predict_net, init_net))).with_inputs(inputs)
    asked = None if outputs is None else tuple(dict.fromkeys(outputs))
    return run_passes(PIPELINE, Conversion(model, asked, findings=model.init.findings))


def _as_model(predict_net: Message | bytes | Model, init_net: Message | bytes | None) -> Model:
    """Return the nets as a model; a plan becomes one net."""
    if isinstance(predict_net, Model):
        return predict_net
    if isinstance(predict_net, Message) and type(predict_net).DESCRIPTOR.name == "PlanDef":
        predict_net = plan_net(PlanDef.FromString(predict_net.SerializeToString()))
    return Model.of(predict_net, init_net)
