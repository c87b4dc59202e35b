"""Values that depend on random numbers, in models of either form: two runtimes never draw the same."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import onnx

from caffe2_bridge.control import inner_operators
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.fills import RANDOM
from caffe2_bridge.init.random_operators import is_random
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_frontend.interop import operators
from caffe2_frontend.interop.bodies import proto_nodes
from caffe2_frontend.interop.domains import standard_type
from caffe2_validation.runtimes import AnyModel

# The operands and outputs of an operator with those of its bodies, whether outputs depend on values of the operands
# (and not on shapes alone), and whether it draws.
_Step: TypeAlias = tuple[Iterable[str], Iterable[str], bool, bool]


def random_values(model: AnyModel) -> frozenset[str]:
    """Return the values of the outer net that depend on random numbers, by name."""
    found: set[str] = set()
    for reads, writes, by_value, draws in _net_steps(model) if isinstance(model, Model) else _graph_steps(model.graph):
        if draws or (by_value and not found.isdisjoint(reads)):
            found.update(writes)
        else:
            found.difference_update(writes)
    return frozenset(found)


def _net_steps(model: Model) -> Iterator[_Step]:
    for op in (*model.init.rest, *NetView(model.predict_net).ops):
        ops = [op, *inner_operators(op)]
        reads = {name for each in ops for name in each.inputs}
        yield reads, op.outputs, op.type not in operators.MEASURES, any(map(is_random, ops))


def _graph_steps(graph: onnx.GraphProto) -> Iterator[_Step]:
    constant = {tensor.name: bool(onnx.numpy_helper.to_array(tensor).all()) for tensor in graph.initializer
                if tensor.data_type == onnx.TensorProto.BOOL}  # fmt: skip
    for node in graph.node:
        nodes = list(proto_nodes(onnx.GraphProto(node=[node])))
        reads = {name for each in nodes for name in each.input}
        draws = any(standard_type(each) in operators.RANDOM or _is_training(each, constant) for each in nodes)
        yield reads, node.output, standard_type(node) not in operators.MEASURES, draws


def _is_training(node: onnx.NodeProto, constant: Mapping[str, bool]) -> bool:
    """Whether a Dropout drops elements: ``training_mode`` is given and not false."""
    return standard_type(node) == "Dropout" and len(node.input) > 2 and constant.get(node.input[2], bool(node.input[2]))


def draw_fills(model: Model) -> tuple[Model, tuple[str, ...]]:
    """Replace the random fills of an init net by the values that this project draws for them.

    Every runtime then has the same weights; else each would draw its own, and no output could be compared.

    Returns:
        The model, and the names of the parameters whose fills were replaced.
    """
    init = model.init
    if not init.random:
        return model, ()
    written = Counter(name for op in init.operators() for name in op.output)
    drawn = {
        op.output[0]: init.parameters[op.output[0]]
        for op in init.operators()
        if op.type in RANDOM and op.output[0] in init.parameters and written[op.output[0]] == 1
    }
    if not drawn:
        return model, ()

    def serialized() -> Iterator[bytes | memoryview]:
        for op in init.operators():
            name = op.output[0] if op.output else ""
            yield from fill_net([drawn[name]], ()) if name in drawn else fill_net((), [op])

    constant = dataclasses.replace(init, serialized=serialized, random={})
    return Model(model.predict_net, constant, model.source), tuple(drawn)
