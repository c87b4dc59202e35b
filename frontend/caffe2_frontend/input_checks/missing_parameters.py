"""Report parameters that have no value: an init net that was not found, or does not fill them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.files.init_search import init_nets_by_content
from caffe2_bridge.files.loader import load_init_net
from caffe2_bridge.files.pairing import init_net_beside, init_net_stems
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.init.parameter_blobs import parameter_blobs
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.operators.parameters import data_blobs, is_weight_operand
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.storage import source_path

_NAMED: Final = 3
_STEMS: Final = 4


def missing_parameters(
    net: NetDef, init: InitNet, described: Collection[str], source: str, *, required: bool = False
) -> list[Diagnostic]:
    """Report inputs that are parameters without a value, and nets whose init net leaves them without inputs.

    Args:
        net: the predict net, with its inputs declared.
        init: the init net.
        described: the inputs that are described: these are inputs on purpose.
        source: the path of the predict net; empty if it was not read from a file.
        required: whether weights without a value are an error; else a warning.
    """
    view = NetView(net)
    filled = {*init.parameters, *(name for op in init.rest for name in op.outputs)}
    inputs = [name for name in view.external_inputs if name in described or name not in filled]
    if inputs:
        unfilled = [name for name in inputs if name not in described]
        missing = parameter_blobs(view, unfilled) if unfilled else []
        return [_missing(view, missing, len(inputs), init, source, required=required)] if missing else []
    data = data_blobs(view.ops) if filled else set()
    return [_no_inputs(view, name) for name in view.external_inputs if name in data and name in filled][:1]


def _missing(net: NetView, names: list[str], inputs: int, init: InitNet, source: str, *, required: bool) -> Diagnostic:
    if init.parameters or init.rest:
        cause = "the init net does not fill them"
    elif source:
        cause = _not_found(net, source)
    else:
        cause = "no init net was given"
    reason = f"{len(names)} of {inputs} inputs are parameters without a value ({listed(names, _NAMED)}): {cause}"
    hint = "give the init net: --init FILE, or init_net=...; without it the ONNX model has the parameters as inputs"
    refused = bool(parameter_blobs(net, names, is_weight_operand))
    severity = Severity.ERROR if required and refused else Severity.WARNING
    hint += ", and export needs --no-weights" if refused else ""
    return Diagnostic("missing-parameters", reason, Location(net.name), severity, hint)


def _not_found(net: NetView, source: str) -> str:
    where = source_path(source) or Path(source)
    fitting = init_nets_by_content(Model(net.proto, source=source), load_init_net)
    if fitting:
        return f"several files in {where.parent} fill them: {', '.join(file.name for file, _ in fitting)}"
    beside = init_net_beside(where) if where.exists() else None
    if beside is not None:
        return f"the init net {beside.name} is empty"
    stems = init_net_stems(where.stem)[:_STEMS]
    return f"no init net was found in {where.parent} (looked for {', '.join(stems)}, and for a file that fills them)"


def _no_inputs(net: NetView, name: str) -> Diagnostic:
    reason = f"the model has no inputs: the init net writes {name!r} and everything else that the net reads"
    hint = f"to set it in each run, describe it: --input '{name}=float32', or inputs={{{name!r}: ('float32', None)}}"
    return Diagnostic("no-inputs", reason, Location(net.name), Severity.WARNING, hint)
