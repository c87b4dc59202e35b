"""The start of an export: which nets, which of their blobs are inputs, which are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import onnx
from google.protobuf.message import Message

from caffe2_bridge.diagnostics import Diagnostic, Location, OptionError, Severity
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.plans import plan_net
from caffe2_bridge.proto.caffe2_pb2 import NetDef, PlanDef
from caffe2_frontend.interop.embedded_onnx import is_foreign, read_input_quantization, read_input_types, read_opsets
from caffe2_frontend.interop.types import TensorInfo, tensor_info, type_info
from caffe2_frontend.lowering.lower import count_reads
from caffe2_frontend.options import Recurrent
from caffe2_frontend.state import WORKING_OPSET, Export

# What the mobile exporter fills inputs with: it says nothing of their shape.
FAKE_SHAPE = (1, 1)


def begin(
    predict_net: Message | bytes | Model,
    init_net: Message | bytes | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    opset: int | None = None,
    recurrent: Recurrent = "auto",
) -> Export:
    """The state before the first pass; the arguments are those of :func:`caffe2_frontend.to_onnx`."""
    if recurrent not in get_args(Recurrent):
        raise OptionError(f"recurrent must be one of {', '.join(get_args(Recurrent))}, not {recurrent!r}")
    newest = onnx.defs.onnx_opset_version()
    if opset is not None and not 1 <= opset <= newest:
        raise OptionError(f"there is no opset {opset}: this onnx knows 1 to {newest}")
    model = as_model(predict_net, init_net)
    given = {name: tensor_info(name, spec) for name, spec in (inputs or {}).items()}
    told = {name: type_info(known) for name, known in read_input_types(model.predict_net).items()}
    for name, how in read_input_quantization(model.predict_net).items():
        told[name] = replace(told[name], quantization=how)
    given |= {name: given[name].merged(info) for name, info in told.items() if name in given}
    carried = read_opsets(model.predict_net) if is_foreign(model.predict_net) else {}
    init = model.init.with_inputs(given)
    net = _outlined(model.predict_net, init, given, outputs)
    findings = list(init.findings)
    for name, placeholder in init.placeholders.items():
        if name not in given and name in net.external_input:
            reason = f"the init net fills input {name!r} too, with a sample of it: its values are not used"
            findings.append(Diagnostic("placeholder", reason, Location(net.name or "net"), Severity.WARNING))
            shape = None if placeholder.shape == FAKE_SHAPE else (None,) * len(placeholder.shape)
            given[name] = TensorInfo(None, shape)
    for name, info in told.items():
        if name not in init.parameters and name in net.external_input:
            given.setdefault(name, info)
    view = NetView(net)
    working = _working_opset(model.predict_net, carried)
    return Export(
        net,
        init,
        inputs=given,
        outputs=tuple((name, name) for name in view.external_outputs),
        recurrent=recurrent,
        opset=working if opset is None else opset,
        working_opset=working,
        domains={domain: version for domain, version in carried.items() if domain},
        findings=tuple(findings),
    )


def _working_opset(net: NetDef, carried: Mapping[str, int]) -> int:
    """The opset of the graph: that of the ONNX operators in the net, where all that it mixes exists in it."""
    version = carried.get("", WORKING_OPSET)
    if version < WORKING_OPSET and not all(op.domain for op in net.op):
        raise OptionError(
            f"the net's ONNX operators are of opset {version}, and its Caffe2 operators need {WORKING_OPSET} or later"
        )
    return version


def as_model(predict_net: Message | bytes | Model, init_net: Message | bytes | None = None) -> Model:
    """What is to be converted, as a model; a plan becomes one net. Raises NetFormatError, or ConversionError."""
    if isinstance(predict_net, Model):
        return predict_net
    if isinstance(predict_net, Message) and type(predict_net).DESCRIPTOR.name == "PlanDef":
        predict_net = plan_net(PlanDef.FromString(predict_net.SerializeToString()))
    return Model.of(predict_net, init_net)


def _outlined(predict: NetDef, init: InitNet, given: Mapping[str, TensorInfo], outputs: Sequence[str] | None) -> NetDef:
    """The net with its inputs and outputs spelled out.

    Inputs are the declared ones (where none are declared, what is read and never made), the blobs that the init net
    makes, and those that the caller describes. Outputs without a declaration are what is written and never read.
    """
    net = NetDef()
    net.CopyFrom(predict)
    view = NetView(predict)
    read = set(count_reads(predict))
    written = {name for op in view.ops for name in op.outputs}
    declared = view.external_inputs or tuple(_read_first(view))
    made = [*init.parameters, *(name for op in init.rest for name in op.outputs)]
    known = dict.fromkeys([*declared, *made, *given])
    unread = [name for name in given if name not in declared and name not in read]
    if unread:
        raise OptionError(f"no operator reads input {', '.join(map(repr, unread))}")
    del net.external_input[:]
    net.external_input.extend(name for name in known if name in read or name in declared)
    wanted = list(dict.fromkeys(outputs)) if outputs is not None else list(view.external_outputs)
    if outputs is None and not wanted:
        wanted = list(dict.fromkeys(name for op in view.ops for name in op.outputs if name not in read))
    missing = [name for name in wanted if name not in written and name not in known]
    if missing and outputs is not None:
        raise OptionError(f"no operator writes output {', '.join(map(repr, missing))}")
    del net.external_output[:]
    net.external_output.extend(wanted)
    return net


def _read_first(net: NetView) -> list[str]:
    """Blobs that are read before the net writes them, in order."""
    written: set[str] = set()
    first: dict[str, None] = {}
    for op in net.ops:
        first.update((name, None) for name in op.inputs if name not in written)
        written.update(op.outputs)
    return list(first)
