"""Changes of an exported model, that leave it a model more often than not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper

from caffe2_frontend.interop.metadata.origin import ORIGIN_KEY, PART_KEY

Mutation = Callable[[onnx.GraphProto, np.random.Generator], str]

_SAME_OPERANDS: Final = (
    ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp", "Floor", "Sign"), ("Add", "Mul", "Sub", "Div", "Max", "Min"),
    ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin"), ("Greater", "Less", "LessOrEqual", "GreaterOrEqual"),
)  # fmt: skip


def mutate(model: onnx.ModelProto, random: np.random.Generator) -> list[str]:
    """Change a model in one to three places, and say how."""
    said = []
    for _ in range(int(random.integers(1, 4))):
        mutation = _MUTATIONS[int(random.integers(0, len(_MUTATIONS)))]
        said.append(mutation(model.graph, random))
    return [text for text in said if text]


def _node(graph: onnx.GraphProto, random: np.random.Generator) -> onnx.NodeProto:
    return graph.node[int(random.integers(0, len(graph.node)))]


def _attribute(graph: onnx.GraphProto, random: np.random.Generator) -> str:
    node = _node(graph, random)
    plain = [attr for attr in node.attribute if attr.type in {attr.INT, attr.FLOAT, attr.INTS}]
    if not plain:
        return ""
    attr = plain[int(random.integers(0, len(plain)))]
    if attr.type == attr.INT:
        attr.i = int(random.choice([0, 1, attr.i + 1, attr.i - 1]))
    elif attr.type == attr.FLOAT:
        attr.f = float(random.choice([0.5, 2 * attr.f, attr.f + 1]))
    elif attr.ints:
        attr.ints[int(random.integers(0, len(attr.ints)))] = int(random.integers(0, 4))
    return f"{attr.name} of {node.op_type} changes"


def _operator(graph: onnx.GraphProto, random: np.random.Generator) -> str:
    node = _node(graph, random)
    group = next((group for group in _SAME_OPERANDS if node.op_type in group), ())
    if not group:
        return ""
    before, node.op_type = node.op_type, str(random.choice(group))
    return f"{before} becomes {node.op_type}"


def _operands(graph: onnx.GraphProto, random: np.random.Generator) -> str:
    node = _node(graph, random)
    if len(node.input) < 2:
        return ""
    first, second = (int(i) for i in random.choice(len(node.input), 2, replace=False))
    node.input[first], node.input[second] = node.input[second], node.input[first]
    return f"{node.op_type} exchanges inputs {first} and {second}"


def _constant(graph: onnx.GraphProto, random: np.random.Generator) -> str:
    if not graph.initializer:
        return ""
    tensor = graph.initializer[int(random.integers(0, len(graph.initializer)))]
    array = numpy_helper.to_array(tensor).copy()
    if not array.size or array.dtype.kind not in "fiu":
        return ""
    flat = array.reshape(-1)
    with np.errstate(over="ignore"):
        flat[int(random.integers(0, array.size))] += 1
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return f"constant {tensor.name} changes"


def _input(graph: onnx.GraphProto, random: np.random.Generator) -> str:
    """Another value of the graph as the input of a node."""
    index = int(random.integers(0, len(graph.node)))
    node = graph.node[index]
    before = [value.name for value in graph.input] + [name for each in graph.node[:index] for name in each.output]
    if not node.input or not before:
        return ""
    place = int(random.integers(0, len(node.input)))
    node.input[place] = str(random.choice(before))
    return f"{node.op_type} reads {node.input[place]} as input {place}"


def _records(graph: onnx.GraphProto, random: np.random.Generator) -> str:
    """What the export wrote beside nodes, exchanged between two of them, copied, or removed."""
    recorded = [
        (node, prop) for node in graph.node for prop in node.metadata_props if prop.key in {ORIGIN_KEY, PART_KEY}
    ]
    if not recorded:
        return ""
    node, prop = recorded[int(random.integers(0, len(recorded)))]
    _, other = recorded[int(random.integers(0, len(recorded)))]
    match int(random.integers(0, 3)):
        case 0:
            prop.value, other.value = other.value, prop.value
            return f"records of {node.op_type} are exchanged"
        case 1:
            _node(graph, random).metadata_props.append(copy.deepcopy(prop))
            return f"a record of {node.op_type} is copied"
        case _:
            node.metadata_props.remove(prop)
            return f"a record of {node.op_type} is removed"


_MUTATIONS: Final[tuple[Mutation, ...]] = (_attribute, _operator, _operands, _constant, _input, _records)
