"""The public function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caffe2_bridge.diagnostics.log import log_diagnostics
from caffe2_bridge.files.model_argument import NetLike
from caffe2_bridge.model import Model
from caffe2_torch.module import NetModule
from caffe2_torch.pipeline import convert


def to_torch(
    predict_net: NetLike | Model,
    init_net: NetLike | None = None,
    *,
    inputs: Mapping[str, Any] | Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> NetModule:
    """Make a PyTorch module of a Caffe2 net.

    The module's parameters have the names of the net's blobs; where PyTorch does not allow a name, ``module.names`` has
    the one that stands for it. Of a net that computes gradients the forward part becomes the module: PyTorch
    differentiates it.

    Args:
        predict_net: a path or URL that ``caffe2_bridge.load`` reads, a loaded model, a NetDef (this project's or
            Caffe2's own class, or its bytes), or a PlanDef.
        init_net: the net that fills the parameters, or its path; not with a loaded model, which has its own.
        inputs: names of blobs that are inputs, also where the init net fills them. A mapping, as
            ``caffe2_frontend.to_onnx`` takes it, is as good: a module takes tensors of any shape.
        outputs: names of the blobs to return; default the net's external outputs, of a training net its losses and
            those of its outputs that are no gradients and no updated parameters.

    Returns:
        The module. Called with a dict of tensors by blob name, it returns one; called with tensors in the order of
        ``module.inputs``, it returns those of ``module.outputs``: one tensor, or a tuple.

    Raises:
        ConversionError: the net cannot be converted; holds every diagnostic, in net order.
        NetFormatError: an argument is not a net, or a file cannot be read.
        OptionError: an option names a blob that the net does not have.
    """
    conversion = convert(predict_net, init_net, inputs=inputs or (), outputs=outputs)
    log_diagnostics(conversion.findings)
    return NetModule(conversion)
