"""Caffe2 models, sketched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from caffe2_backend.picture.edges import DrawnNet, DrawnOperator, Flow
from caffe2_backend.picture.shape_labels import Known, ModelTypes, Types, types_of
from caffe2_backend.picture.sketch import LONGEST_TEXT, MOST_ITEMS, Sketch, Type, extent, listed, shortened, size_text
from caffe2_bridge.control import StepOperator, control_of, nets_run_by
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, DeviceOption
from caffe2_bridge.ssa.objects import makes_object, objects_of
from caffe2_bridge.ssa.outputs import net_outputs

# What DeviceOption calls its types: TypeProto's numbers. CPU and MKLDNN have no index.
_DEVICES: Final = {0: "CPU", 1: "CUDA", 2: "MKLDNN", 3: "OpenGL", 4: "OpenCL", 5: "IDEEP", 6: "HIP", 7: "FPGA"}
_ONE_OF_A_KIND: Final = {0, 2, 5}
# Arguments worth their room in a picture.
_SHOWN: Final = (
    "kernel", "kernels", "kernel_h", "kernel_w", "stride", "strides", "stride_h", "stride_w", "pad", "pads", "dilation",
    "dilations", "group", "axis", "axes", "shape", "dims", "to", "k",
)  # fmt: skip
_MAX_ARGUMENTS: Final = 4
_LONGEST_STATE: Final = 26
_MAX_ITEMS: Final = 6


def sketch_model(model: Model, types: ModelTypes | None = None) -> Sketch:
    """Return a picture of a model's predict net; blobs that its init net makes are lines of their readers.

    Objects, such as the workspaces that Do operators keep, are left out: no data flows through them. Without ``types``
    the export finds them.
    """
    view = NetView(model.predict_net)
    parameters = {name: _size(p) for name, p in model.init.parameters.items()}
    parameters.update((name, "") for op in model.init.rest for name in op.outputs)
    known = types or types_of(model)
    reader = _Reader(frozenset(objects_of(model.predict_net)))
    flow = Flow(_title(model, view), parameters, known.given)
    inputs = [name for name in model.inputs if name not in parameters]
    outputs = net_outputs(model.predict_net)
    operators = tuple(reader.operators(view, known.operators, None, Location(view.name)))
    flow.draw(DrawnNet(view.name, operators, inputs, outputs))
    return flow.sketch


def _title(model: Model, view: NetView) -> str:
    total = sum(p.size * p.dtype.itemsize for p in model.init.parameters.values())
    weights = f", {len(model.init.parameters)} parameters ({size_text(total)})" if total else ""
    return f"{view.name}: {len(view.ops)} operators{weights}"


def _size(parameter: Parameter) -> str:
    kind = "" if parameter.dtype == "float32" else f" {'text' if parameter.dtype == object else parameter.dtype.name}"
    return f"{extent(parameter.shape)}{kind}"


@dataclass(frozen=True)
class _Reader:
    """Converts nets to what is drawn of them: without ``objects`` and the operators that make those."""

    objects: frozenset[str]

    def operators(
        self, net: NetView, types: Types, outer: DeviceOption | None, location: Location
    ) -> Iterator[DrawnOperator]:
        device = net.proto.device_option if net.proto.HasField("device_option") else outer
        for op in net.ops:
            if makes_object(op.proto):
                continue
            here = Location(location.net, op.index, op.type, op.name, location.path)
            own = op.proto.device_option if op.proto.HasField("device_option") else device
            known = types.get(op.index, Known([Type()] * len(op.outputs)))
            outputs = [pair for pair in zip(op.outputs, known.outputs, strict=True) if pair[0] not in self.objects]
            yield DrawnOperator(
                op.type,
                self._without_objects(op.inputs),
                [name for name, _ in outputs],
                [found for _, found in outputs],
                _arguments(op),
                op.name,
                _device(own),
                tuple(self._bodies(op, known.bodies, own, here)),
                str(here),
                tuple((arg.name, _text(arg)) for arg in op.proto.arg if not (arg.HasField("n") or arg.nets)),
            )

    def _bodies(
        self, op: OpView, types: Mapping[str, Types], device: DeviceOption | None, here: Location
    ) -> Iterator[DrawnNet]:
        for name, net in nets_run_by(op):
            if not net.op:
                continue
            view = NetView(net)
            results = self._without_objects(net_outputs(net))
            operators = tuple(self.operators(view, types.get(name, {}), device, here.enter(name)))
            rows, result_rows = _links(op)
            yield DrawnNet(name, operators, (), results, rows, result_rows)

    def _without_objects(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self.objects]


def _device(option: DeviceOption | None) -> str:
    number = 0 if option is None else option.device_type
    name = _DEVICES.get(number, f"device type {number}")
    return name if number in _ONE_OF_A_KIND or option is None else f"{name}:{option.device_id}"


def _arguments(op: OpView) -> tuple[str, ...]:
    """Return the arguments that say most, in one line."""
    by_name = {arg.name: arg for arg in op.proto.arg}
    texts = [f"{name} {text}" for name in _SHOWN if name in by_name and (text := _value(by_name[name]))]
    return (", ".join(texts[:_MAX_ARGUMENTS]),) if texts else ()


def _value(arg: Argument) -> str:
    if arg.HasField("i"):
        return str(arg.i)
    if arg.HasField("s"):
        return shortened(arg.s.decode("utf-8", "replace"), 12)
    return str(list(arg.ints)) if 0 < len(arg.ints) <= _MAX_ITEMS else ""


def _text(arg: Argument) -> str:
    """Return the value of any argument but a net."""
    if arg.HasField("f"):
        return f"{arg.f:g}"
    if arg.floats:
        return listed([f"{number:g}" for number in arg.floats[:MOST_ITEMS]], len(arg.floats))
    if arg.strings:
        texts = [shortened(text.decode("utf-8", "replace")) for text in arg.strings[:MOST_ITEMS]]
        return listed(texts, len(arg.strings))
    if arg.HasField("s"):
        return shortened(arg.s[:LONGEST_TEXT].decode("utf-8", "replace"), LONGEST_TEXT)
    return str(arg.i) if arg.HasField("i") else listed(map(str, arg.ints[:MOST_ITEMS]), len(arg.ints))


def _links(op: OpView) -> tuple[dict[str, str], dict[str, str]]:
    """Return notes on the blobs of a step net, by name: rows of which sequences and states they are, at a time ``t``.

    The first of those that are rows at ``t``, the second of those that are written to rows after it.
    """
    control = control_of(op)
    rows: dict[str, str] = {}
    results: dict[str, str] = {}
    if not isinstance(control, StepOperator):
        return rows, results
    try:
        links = control.step_links
    except ArgumentError:  # the picture of a damaged net lacks its notes
        return rows, results
    for link in links:
        if link.offset == 0:
            rows[link.internal] = f"= {shortened(link.external, _LONGEST_STATE)}[t]"
        else:
            results[link.internal] = f"= {shortened(link.external, _LONGEST_STATE)}[t + {link.offset}]"
    return rows, results
