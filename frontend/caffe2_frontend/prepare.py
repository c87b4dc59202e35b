"""The initial state of an export: the nets, with their inputs and outputs declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.files.model_argument import NetLike, as_model
from caffe2_bridge.gradients.forward_steps import insert_forward_operators
from caffe2_bridge.gradients.recompute import recompute_steps
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.model import PLACEHOLDER_SHAPES, Model
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.readers import cut_readers
from caffe2_bridge.reroll import reroll
from caffe2_bridge.ssa.outputs import net_outputs, omitted_outputs
from caffe2_frontend.input_checks.missing_parameters import missing_parameters
from caffe2_frontend.input_checks.not_for_inference import not_for_inference
from caffe2_frontend.interop.metadata.embedded_onnx import (
    is_foreign,
    read_input_quantization,
    read_input_types,
    read_opsets,
)
from caffe2_frontend.interop.types import Quantization, TensorInfo, onnx_dtype, type_info
from caffe2_frontend.lowering.reads import count_reads
from caffe2_frontend.options import ExportOptions
from caffe2_frontend.recurrent.stateful import CarriedState, carried_states
from caffe2_frontend.state import WORKING_OPSET, Export
from caffe2_frontend.training import Training, find_training


def prepare(predict_net: NetLike | Model, init_net: NetLike | None, options: ExportOptions) -> Export:
    """Return the state before the first pass; the arguments are those of :func:`caffe2_frontend.to_onnx`.

    Raises:
        NetFormatError: an argument is not a net.
        OptionError: an option names a blob that the net does not have.
        ConversionError: a plan cannot be converted to one net.
    """
    chosen = None if options.stateful or options.training else options.outputs
    model = insert_forward_operators(cut_readers(as_model(predict_net, init_net))).without_unneeded(chosen)
    if options.recompute == "steps":
        model = replace(model, predict_net=recompute_steps(model.predict_net))
    if options.reroll:
        model = reroll(model)
    states = carried_states(model) if options.stateful else []
    training = find_training(model, options)
    outputs = _wanted_outputs(model, options, states, training)
    stored = _stored_infos(model.predict_net)
    defaults = _defaults(model, options, stored)
    given = {
        **{state.initial: state.info for state in states},
        **dict.fromkeys(defaults, TensorInfo()),
        **training.inputs,
        **options.described,
    }
    given = {name: info.merged(stored.get(name, TensorInfo())) for name, info in given.items()}
    init = model.init.with_inputs(given)
    net = _declare_blobs(model, init, given, outputs)
    inputs = _describe_declared(net, init, given, stored)
    notes = [*training.findings]
    if options.outputs is None:
        notes += omitted_outputs(model.predict_net, model.outputs)
    foreign = is_foreign(model.predict_net)
    opsets = read_opsets(model.predict_net) if foreign else {}
    working = _working_opset(model.predict_net, opsets)
    declared = NetView(net).external_outputs
    return Export(
        NetView(net),
        init,
        options,
        inputs=inputs,
        fills={name: fill for name, fill in init.placeholders.items() if name in inputs.keys() - given.keys()},
        outputs=tuple((name, name) for name in declared),
        implied_outputs=outputs is None and not model.outputs,
        states={state.initial: declared.index(state.last) for state in states},
        updates={name: declared.index(name) for name in training.updated},
        initial={**defaults, **training.initial},
        losses=tuple(declared.index(name) for name in training.losses if name in declared),
        opset=working if options.opset is None else options.opset,
        working_opset=working,
        foreign=foreign,
        domains={domain: version for domain, version in opsets.items() if domain},
        findings=(
            *init.findings,
            *notes,
            *missing_parameters(net, init, inputs, model.source, required=options.require_weights),
            *not_for_inference(net, init),
        ),
    )


def _wanted_outputs(
    model: Model, options: ExportOptions, states: Sequence[CarriedState], training: Training
) -> Sequence[str] | None:
    """Return the outputs the caller asks for, then last rows of carried states and updates; None for the net's own."""
    if not states and not training.updated:
        return options.outputs
    wanted = (training.outputs or model.outputs) if options.outputs is None else options.outputs
    return [*wanted, *(state.last for state in states), *training.updated]


def _stored_infos(net: NetDef) -> dict[str, TensorInfo]:
    """Return the types of inputs that an import stored in the net."""
    infos = {name: type_info(known) for name, known in read_input_types(net).items()}
    for name, how in read_input_quantization(net).items():
        infos[name] = replace(infos[name], quantization=how)
    return infos


def _defaults(model: Model, options: ExportOptions, stored: Mapping[str, TensorInfo]) -> dict[str, Parameter]:
    """Return the parameters that are inputs with defaults: an import described them as inputs, the caller does not."""
    if not options.defaults:
        return {}
    parameters, declared = model.init.parameters, set(model.predict_net.external_input)
    found = {name: parameters[name] for name in stored if name in parameters and name in declared}
    return {name: value for name, value in found.items() if value.scale is None and name not in options.described}


def _describe_declared(
    net: NetDef, init: InitNet, given: Mapping[str, TensorInfo], stored: Mapping[str, TensorInfo]
) -> dict[str, TensorInfo]:
    """Return what is known of the inputs: from the caller, from fills in the init net, and from an import."""
    inputs = dict(given)
    for name, placeholder in init.placeholders.items():
        if name not in inputs and name in net.external_input:
            inputs[name] = _info_of_fill(placeholder)
    for name, info in stored.items():
        if name not in init.parameters and name in net.external_input:
            inputs.setdefault(name, info)
    return inputs


def _info_of_fill(fill: Parameter) -> TensorInfo:
    """Return what an input's fill tells: its rank, and its type unless float32, which exporters write for any type."""
    dtype = None if fill.dtype == np.float32 else onnx_dtype(fill.dtype)
    shape = None if fill.shape in PLACEHOLDER_SHAPES else (None,) * len(fill.shape)
    quantization = None if fill.scale is None else Quantization(fill.scale, fill.zero_point or 0)
    return TensorInfo(dtype, shape, quantization)


def _working_opset(net: NetDef, opsets: Mapping[str, int]) -> int:
    """Return the opset in which the graph is built: that of the ONNX operators in the net, if there are any.

    Raises OptionError where the net's Caffe2 operators need a later one.
    """
    version = opsets.get("", WORKING_OPSET)
    if version < WORKING_OPSET and not all(op.domain for op in net.op):
        raise OptionError(
            f"the net's ONNX operators are of opset {version}, and its Caffe2 operators need {WORKING_OPSET} or later"
        )
    return version


def _declare_blobs(
    model: Model, init: InitNet, given: Mapping[str, TensorInfo], outputs: Sequence[str] | None
) -> NetDef:
    """Return a copy of the net that declares all its inputs and outputs.

    Inputs are the declared ones (without a declaration, blobs that are read before they are written), the blobs that
    the init net fills, and those that the caller describes. Outputs are those of :func:`net_outputs`.
    """
    predict = model.predict_net
    net = NetDef()
    net.CopyFrom(predict)
    view = NetView(predict)
    declared = dict.fromkeys(view.external_inputs or view.read_first)
    filled = [*init.parameters, *(name for op in init.rest for name in op.outputs)]
    known = dict.fromkeys([*declared, *filled, *given])
    undeclared = known.keys() - declared
    unread = undeclared.difference(count_reads(predict)) if undeclared else undeclared
    if not unread.isdisjoint(given):
        raise OptionError(f"no operator reads input {', '.join(repr(name) for name in given if name in unread)}")
    del net.external_input[:]
    net.external_input.extend(name for name in known if name not in unread)
    wanted = net_outputs(predict, model.outputs or None if outputs is None else outputs)
    missing = [] if outputs is None else _unwritten(predict, [name for name in wanted if name not in known])
    if missing:
        raise OptionError(f"no operator writes output {', '.join(map(repr, missing))}")
    del net.external_output[:]
    net.external_output.extend(wanted)
    return net


def _unwritten(net: NetDef, names: Sequence[str]) -> list[str]:
    """Return those of some blobs that no operator of the net writes."""
    missing = set(names)
    for op in reversed(net.op):
        if not missing:
            break
        missing.difference_update(op.output[:])
    return [name for name in names if name in missing]
