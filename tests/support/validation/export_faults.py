"""Planted faults between a net and an ONNX model: an export of a damaged net, or an export that was damaged itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from support.paths import MODELS
from support.validation.faults import case_of, every_fault, reader, with_weight

from caffe2_bridge import Model, load
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation.forms import Forms
from caffe2_validation.inputs.specs import Case
from caffe2_validation.runtimes import find_runtime
from caffe2_validation.values import compare

_FUSED = ("lstm", "gru", "gru_linear_before_reset", "basic_rnn_tanh", "basic_rnn_relu", "lstm_two_layers")


@dataclass(frozen=True)
class ExportFault:
    """``places`` are the operators that are equally right, and no other; ``step`` the timestep, where there is one."""

    name: str
    net: Model = field(repr=False)
    make: Callable[[], onnx.ModelProto] = field(repr=False)
    case: Case = field(repr=False)
    places: frozenset[str]
    step: int | None = None

    @cached_property
    def export(self) -> onnx.ModelProto:
        return self.make()


def without_cells(model: Model) -> Model:
    """Return the model without the cell state of every step among its outputs, so that it has a fused form."""
    net = NetDef()
    net.CopyFrom(model.predict_net)
    kept = [name for name in net.external_output if not name.endswith("cell_state_all")]
    del net.external_output[:]
    net.external_output.extend(kept)
    return Model(net, model.init)


def export(model: Model, case: Case, form: str) -> onnx.ModelProto:
    return Forms(model, inputs=case.inputs, export={"recurrent": form}).graph


def _nets() -> Iterator[ExportFault]:
    """Yield exports of the damaged nets of the comparison of like with like, in every form in turn."""
    forms = {"weight": ("scan",), "gates": ("scan", "loop")}
    for fault in every_fault():
        if not isinstance(fault.good, Model):
            continue
        for form in forms.get(fault.name.split()[0], ("auto", "loop") if "step" in fault.name else ("auto",)):
            place = fault.place or f"{fault.good.predict_net.name}[0] RecurrentNetwork > step_net[2] Tanh"
            made = partial(export, fault.bad, fault.case, form)
            yield ExportFault(f"{fault.name}, {form}", fault.good, made, fault.case, frozenset([place]), fault.step)


def _fused_weights() -> Iterator[ExportFault]:
    """Yield one element of each parameter. A fused operator adds the biases of one gate: then either is right."""
    for name in _FUSED:
        model = load(MODELS / name)
        case, good = case_of(model), without_cells(model)
        for weight in model.params:
            place = reader(model.predict_net, weight)
            if not place or weight in case.inputs:
                continue
            for last in (False, True):
                at = -1 if last else 0

                def bump(array: Any, at: int = at) -> Any:
                    array.reshape(-1)[at] += 0.5
                    return array

                made = partial(_damaged_weight, good, weight, bump, case)
                places = frozenset([place, *_added_to(model, weight, at)])
                step = None if " > " not in place or len(places) > 1 else 0
                yield ExportFault(f"{name} {weight}[{at}], fused", good, made, case, places, step)


def _damaged_weight(model: Model, weight: str, change: Callable[[Any], Any], case: Case) -> onnx.ModelProto:
    return export(with_weight(model, weight, change), case, "fused")


def _edited_export(
    model: Model, case: Case, form: str, edit: Callable[[onnx.ModelProto], None]
) -> onnx.ModelProto:  # fmt: skip
    return edited(export(model, case, form), edit)


def _same(model: onnx.ModelProto) -> onnx.ModelProto:
    return model


def _added_to(model: Model, weight: str, at: int) -> list[str]:
    """Return the operators of the biases that the first or last element of a bias is added to.

    An LSTM's and an RNN's recurrent bias is added to the input's of its layer. A GRU's are reset, update, output, and
    the last is only added where the reset comes before the product.
    """
    biases = [name for name in model.params if name.endswith("_b")]
    inputs = next(name for name in biases if name.endswith("i2h_b"))
    if "gru" in model.predict_net.name:
        gates = [name for name in biases if name != inputs]
        added = gates[:2] if "linear_before_reset" in model.predict_net.name else gates
        other = inputs if weight in added else gates[at] if weight == inputs and gates[at] in added else ""
    elif weight.endswith("gates_t_b"):
        own = weight.replace("gates_t_b", "i2h_b")
        other = own if own in biases else inputs
    elif weight in biases:
        own = weight.replace("i2h_b", "gates_t_b")
        other = own if own in biases else next(name for name in biases if name.endswith("gates_t_b"))
    else:
        other = ""
    return [reader(model.predict_net, other)] if other else []


def _step_argument(model: Model, op_type: str, name: str, **value: Any) -> Model:
    bad = NetDef()
    bad.CopyFrom(model.predict_net)
    loop = next(op for op in bad.op if op.type == "RecurrentNetwork")
    step = next(arg.n for arg in loop.arg if arg.name == "step_net")
    op = next(op for op in step.op if op.type == op_type)
    arg = next((arg for arg in op.arg if arg.name == name), None) or op.arg.add(name=name)
    for key, number in value.items():
        setattr(arg, key, number)
    return Model(bad, model.init)


def place_of(name: str, op_type: str) -> str:
    """Return the place of the one operator of a type in the step net of a model."""
    ops = load(MODELS / name).predict_net.op
    at, loop = next((i, op) for i, op in enumerate(ops) if op.type == "RecurrentNetwork")
    step = next(arg.n for arg in loop.arg if arg.name == "step_net")
    (index,) = [i for i, op in enumerate(step.op) if op.type == op_type]
    return f"{name}[{at}] RecurrentNetwork > step_net[{index}] {op_type}"


def _cell_arguments() -> Iterator[ExportFault]:
    """Yield what a cell does beyond a sequence's length, and its forget bias, one of a fused operator's biases."""
    for name, kind, place in (
        ("lstm", "LSTMUnit", "lstm[1] RecurrentNetwork > step_net[2] LSTMUnit"),
        ("gru", "GRUUnit", "gru[1] RecurrentNetwork > step_net[10] GRUUnit"),
        ("lstm_drop_states", "LSTMUnit", "lstm_drop_states[1] RecurrentNetwork > step_net[2] LSTMUnit"),
    ):
        model = load(MODELS / name)
        case, good = case_of(model), without_cells(model)
        late = int(case.inputs["seq_lengths"].min())
        assert 0 < late < len(case.inputs["input"])
        for form in ("scan", "loop", "fused"):
            bad = _step_argument(good, kind, "drop_states", i=0 if "drop" in name else 1)
            made = partial(export, bad, case, form)
            yield ExportFault(f"{name} drop_states, {form}", good, made, case, frozenset([place]), late)
            if name == "lstm":
                made = partial(export, _step_argument(good, kind, "forget_bias", f=0.7), case, form)
                added = [reader(good.predict_net, f"rnn/{bias}") for bias in ("i2h_b", "gates_t_b")]
                places = frozenset([place, *(added if form == "fused" else ())])
                yield ExportFault(f"{name} forget_bias, {form}", good, made, case, places, 0)


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


def edited(model: onnx.ModelProto, edit: Callable[[onnx.ModelProto], None]) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    edit(made)
    onnx.checker.check_model(made)
    return made


def node_of(model: onnx.ModelProto, op_type: str, index: int = 0) -> onnx.NodeProto:
    """Return the n-th node of a type, in the order of the graphs."""
    return [node for graph in graphs(model.graph) for node in graph.node if node.op_type == op_type][index]


def _fused_attributes() -> Iterator[ExportFault]:
    """Yield faults in attributes and operands of the fused operators themselves."""

    def activations(kind: str, *names: str) -> Callable[[onnx.ModelProto], None]:
        def edit(model: onnx.ModelProto) -> None:
            node = node_of(model, kind)
            kept = [attribute for attribute in node.attribute if attribute.name != "activations"]
            del node.attribute[:]
            node.attribute.extend(kept)
            node.attribute.add(
                name="activations", type=onnx.AttributeProto.STRINGS, strings=[n.encode() for n in names]
            )

        return edit

    def clip(model: onnx.ModelProto) -> None:
        node_of(model, "LSTM").attribute.add(name="clip", type=onnx.AttributeProto.FLOAT, f=0.1)

    def no_state(model: onnx.ModelProto) -> None:
        node_of(model, "GRU").input[5] = ""

    def gates(kind: str, operand: int, order: tuple[int, ...]) -> Callable[[onnx.ModelProto], None]:
        def edit(model: onnx.ModelProto) -> None:
            name = node_of(model, kind).input[operand]
            tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
            parts = np.split(numpy_helper.to_array(tensor), len(order), axis=1)
            tensor.CopyFrom(numpy_helper.from_array(np.concatenate([parts[k] for k in order], axis=1), name))

        return edit

    step = "lstm[1] RecurrentNetwork > step_net"
    cells = "gru[1] RecurrentNetwork > step_net"
    faults: list[tuple[str, str, Callable[[onnx.ModelProto], None], list[str], int | None]] = [
        ("lstm", "the gates' activation", activations("LSTM", "Relu", "Tanh", "Tanh"), [f"{step}[2] LSTMUnit"], 0),
        ("lstm", "the cell's activation", activations("LSTM", "Sigmoid", "Relu", "Tanh"), [f"{step}[2] LSTMUnit"], 0),
        ("lstm", "the output's activation", activations("LSTM", "Sigmoid", "Tanh", "Relu"), [f"{step}[2] LSTMUnit"], 0),
        ("lstm", "clipped gates", clip, [f"{step}[2] LSTMUnit"], 0),
        ("lstm", "input gates in another order", gates("LSTM", 1, (2, 1, 0, 3)), ["lstm[0] FC"], None),
        ("lstm", "recurrent gates in another order", gates("LSTM", 2, (0, 2, 1, 3)), [f"{step}[0] FC"], 0),
        ("gru", "the gates' activation", activations("GRU", "Relu", "Tanh"), [f"{cells}[4] Sigmoid"], 0),
        ("gru", "the output's activation", activations("GRU", "Sigmoid", "Relu"), [f"{cells}[10] GRUUnit"], 0),
        ("gru", "no initial state", no_state, ["gru[1] RecurrentNetwork"], 0),
        ("gru", "input gates in another order", gates("GRU", 1, (1, 0, 2)), ["gru[0] FC"], None),
        ("basic_rnn_tanh", "the activation", activations("RNN", "Relu"), [place_of("basic_rnn_tanh", "Tanh")], 0),
    ]
    for name, what, edit, places, at in faults:
        model = without_cells(load(MODELS / name))
        case = case_of(load(MODELS / name))
        made = partial(_edited_export, model, case, "fused", edit)
        yield ExportFault(f"{name}: {what}, fused", model, made, case, frozenset(places), at)


_OTHER = {
    "Sigmoid": "Tanh", "Tanh": "Sigmoid", "Add": "Sub", "Mul": "Add", "Sub": "Add", "Less": "LessOrEqual",
    "Relu": "Abs", "Softmax": "LogSoftmax", "Greater": "GreaterOrEqual", "GreaterOrEqual": "Greater",
}  # fmt: skip


def _scans(first: int, last: int) -> Iterator[ExportFault]:
    """Yield a few nodes of each export, drawn once and for all: another type or operand, or swapped operands."""
    names = (
        "lstm", "gru", "milstm", "attention_regular", "attention_recurrent", "layer_norm_lstm", "layer_norm_milstm",
        "lstm_two_layers", "lstm_no_lengths", "basic_rnn_tanh", "control_if_else", "control_while_if", "control_while",
    )  # fmt: skip
    for name in names:
        model = load(MODELS / name)
        case = case_of(model)
        for form in ("scan", "loop") if "control" not in name else ("auto",):
            yield from islice(damaged_nodes(name, model, case, form, count=last), first, None)


def damaged_nodes(name: str, model: Model, case: Case, form: str, *, count: int) -> Iterator[ExportFault]:
    """Yield nodes of which the export says the operator: not those that are made for a RecurrentNetwork as a whole."""
    draw = random.Random(f"{name} {form}")  # noqa: S311 - a test's
    right = export(model, case, form)
    runtime = find_runtime("onnxruntime-cpu")
    expected = runtime.load(right).run(case.inputs)
    spots = [(g, n) for g, graph in enumerate(graphs(right.graph)) for n in range(len(graph.node))]
    draw.shuffle(spots)
    for g, n in spots:
        if not count:
            return
        made = onnx.ModelProto()
        made.CopyFrom(right)
        graph = list(graphs(made.graph))[g]
        what = _damage(graph, n, draw)
        place = next(prop.value for prop in graph.node[n].metadata_props if prop.key == "caffe2.location")
        if not what or place.endswith("RecurrentNetwork"):
            continue
        try:
            onnx.checker.check_model(made)
            found = runtime.load(made).run(case.inputs)
        except (BridgeError, onnx.checker.ValidationError):
            continue  # not a fault that gives wrong numbers
        if any(not compare(value, found[key], depth=16).agrees for key, value in expected.items()):
            count -= 1
            yield ExportFault(f"{name}, {form}: {what}", model, partial(_same, made), case, frozenset([place]), -1)


def _damage(graph: onnx.GraphProto, n: int, draw: random.Random) -> str:
    node = graph.node[n]
    made = [name for other in graph.node[:n] for name in other.output] + [value.name for value in graph.input]
    kinds = ["type"] * (node.op_type in _OTHER) + ["operand"] * bool(made and node.input)
    kinds += ["order"] * (node.op_type in ("Sub", "Less", "MatMul", "Where", "Greater"))
    kind = draw.choice(kinds) if kinds else ""
    if kind == "type":
        node.op_type = _OTHER[node.op_type]
    elif kind == "operand":
        other, at = draw.choice(made), draw.randrange(len(node.input))
        kind = "" if other in node.input else kind
        node.input[at] = other
    elif kind == "order":
        node.input[-2], node.input[-1] = node.input[-1], node.input[-2]
    return f"another {kind} of {node.op_type} {node.output[0]}" if kind else ""


def _loops() -> Iterator[ExportFault]:
    """Yield a state that is off by one at one step of a Loop and at no other."""
    for name, place in (
        ("lstm", "lstm[1] RecurrentNetwork > step_net[2] LSTMUnit"),
        ("gru", "gru[1] RecurrentNetwork > step_net[10] GRUUnit"),
        ("layer_norm_lstm", place_of("layer_norm_lstm", "LSTMUnit")),
    ):
        model = load(MODELS / name)
        case = case_of(model)
        for at in (0, 2, 5):

            def edit(made: onnx.ModelProto, at: int = at) -> None:
                graph = next(graph for graph in graphs(made.graph) if any(v.name == "iteration" for v in graph.input))
                n, node = next((i, node) for i, node in enumerate(graph.node) if node.op_type == "Where")
                result = node.output[0]
                node.output[0] = "before"
                graph.initializer.append(numpy_helper.from_array(np.array(at, np.int64), "at"))
                rest = list(graph.node[n + 1 :])
                del graph.node[n + 1 :]
                graph.node.add(op_type="Equal", input=["iteration", "at"], output=["hit"])
                cast = graph.node.add(op_type="Cast", input=["hit"], output=["one"])
                cast.attribute.add(name="to", type=onnx.AttributeProto.INT, i=onnx.TensorProto.FLOAT)
                graph.node.add(op_type="Add", input=["before", "one"], output=[result])
                graph.node.extend(rest)

            made = partial(_edited_export, model, case, "loop", edit)
            yield ExportFault(f"{name} off at step {at}, loop", model, made, case, frozenset([place]), at)


def _convolutions() -> Iterator[ExportFault]:
    """Yield faults in attributes of ONNX's nodes in the exports of nets without recurrence."""
    sides: dict[str, tuple[str, Any]] = {
        "Conv": ("pads", [1, 1, 0, 0]), "MaxPool": ("pads", [1, 1, 0, 0]), "AveragePool": ("pads", [1, 1, 0, 0]),
        "SpatialBN": ("epsilon", 0.2), "LRN": ("size", 1), "LeakyRelu": ("alpha", 0.03), "Elu": ("alpha", 0.5),
    }  # fmt: skip
    onnx_types = {"SpatialBN": "BatchNormalization"}
    done = set[str]()
    for fault in every_fault():
        kind = fault.name.split()[-1]
        if not fault.name.startswith("argument") or kind not in sides or kind in done:
            continue
        done.add(kind)
        name, value = sides[kind]

        def edit(made: onnx.ModelProto, kind: str = kind, name: str = name, value: Any = value) -> None:
            attribute = next(a for a in node_of(made, onnx_types.get(kind, kind)).attribute if a.name == name)
            if isinstance(value, list):
                attribute.ints[:] = value
            elif isinstance(value, int):
                attribute.i = value
            else:
                attribute.f = value

        made = partial(_edited_export, fault.good, fault.case, "auto", edit)
        yield ExportFault(f"{kind} {name}, auto", fault.good, made, fault.case, frozenset([fault.place]))


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model as another tool might write it: other names, and nothing that says where a node comes from."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = {value.name for value in (*made.graph.input, *made.graph.output)}
    names: dict[str, str] = {}

    def other(name: str) -> str:
        return name if not name or name in kept else names.setdefault(name, f"v{len(names)}")

    for graph in graphs(made.graph):
        del graph.value_info[:]
        for tensor in graph.initializer:
            tensor.name = other(tensor.name)
        for node in graph.node:
            node.name = ""
            del node.metadata_props[:]
            node.input[:] = [other(name) for name in node.input]
            node.output[:] = [other(name) for name in node.output]
        for value in (*graph.input, *graph.output) if graph is not made.graph else ():
            value.name = other(value.name)
    return made


GROUPS: Mapping[str, Callable[[], Iterator[ExportFault]]] = {
    "nets": _nets, "fused weights": _fused_weights, "cell arguments": _cell_arguments,
    "fused attributes": _fused_attributes, "a node of each": partial(_scans, 0, 1),
    "further nodes of each": partial(_scans, 1, 3), "steps": _loops, "attributes": _convolutions,
}  # fmt: skip
