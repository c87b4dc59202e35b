"""Search for sizes of inputs with which a model runs.

A Flatten before a matrix product, a Reshape to fixed sizes, a window as large as its image: each admits few sizes of
the inputs, which the declared shapes do not show. The search is a hill climb. Its objective is the number of nodes that
onnxruntime runs before one fails; a change of sizes is kept if it increases that number, and all changes are then
tried again on top of it, until the model runs, or no change helps, or the budget is spent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from typing import Final

import onnx

from caffe2_backend.runtime.sessions.failure_text import failed_node
from caffe2_backend.runtime.sessions.model_session import model_session
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_validation.inputs.specs import IMAGE, Case, Layout, make_cases
from caffe2_validation.sizes import Size

# Usual heights and widths of images, the most frequent first.
IMAGES: Final = (224, 227, 28, 64, 299, 256, 112, 96, 128, 160, 192, 320, 384, 416, 512, 8, 16)
_SMALL: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 50, 64, 100, 128)
_LARGEST: Final = 4096
_TRIALS: Final = 300
_ELEMENTS: Final = 1 << 20
_SECONDS: Final = 60.0


@dataclass(frozen=True)
class FoundSizes:
    """Sizes of dims by symbol, None if none were found; ``reason`` is the error of the attempt that got furthest."""

    fixed: Mapping[str, int] | None
    reason: str = ""


class Trial:
    """A model in onnxruntime, without optimizations. Raises RunError if onnxruntime is missing or refuses the model."""

    def __init__(self, model: onnx.ModelProto) -> None:
        # Without optimizations, as fused nodes lose their names.
        options = SessionOptions(threads=1, spinning=False, optimization="none")
        if len({node.name for node in model.graph.node}) < len(model.graph.node):
            model = _named(model)
        self._session = model_session(model, "cpu", options)
        self._order = {node.name: index for index, node in enumerate(_run_order(model.graph), 1)}

    def run(self, case: Case) -> tuple[int, str]:
        """Return the number of nodes that ran before one failed, and its error, empty if none failed."""
        try:
            self._session.run(case.inputs)
        except RunError as error:
            return self._order.get(failed_node(str(error)) or "", 0), str(error)
        return len(self._order) + 1, ""


def _run_order(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return the nodes in onnxruntime's order of execution: depth first, from the last unread node, operands first.

    The search only uses the order as its measure of progress: with a wrong one it would take longer or find less.
    """
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    operands = [sorted({maker[n] for n in _reads(node) if n in maker}) for node in graph.node]
    read = {index for found in operands for index in found}
    stack = [(index, False) for index in range(len(graph.node)) if index not in read]
    order, seen = [], set()
    while stack:
        index, done = stack.pop()
        if done:
            order.append(graph.node[index])
        elif index not in seen:
            seen.add(index)
            stack.append((index, True))
            stack += [(operand, False) for operand in operands[index] if operand not in seen]
    return order


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield what a node reads, with what its bodies capture."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from _reads(inner)


def _named(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with a unique name for each node, to identify the node of an error."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for index, node in enumerate(whole.graph.node):
        node.name = f"node {index}"
    return whole


@dataclass
class _Search:
    """The state of the climb: ``fixed`` are the sizes that got furthest, ``best`` the number of nodes that ran."""

    model: onnx.ModelProto
    net: Model | None
    trial: Trial
    seed: int
    size: Size
    fixed: dict[str, int] = field(default_factory=dict)
    best: int = -1
    reason: str = ""
    left: int = _TRIALS
    until: float = 0.0

    def works(self, change: Mapping[str, int]) -> bool | None:
        """Whether the model runs with a change; None if it does not, but gets further: then the change is kept."""
        fixed = self.fixed | dict(change)
        try:
            shapes = Layout(self.model, self.net, fixed).shapes(self.size)
        except RunError:  # too large to be synthesized
            return False
        if sum(prod(shape) for shape in shapes.values()) > _ELEMENTS:
            return False
        self.left -= 1
        (case,) = make_cases(self.model, self.net, seed=self.seed, sizes=[self.size], fixed=fixed)
        far, reason = self.trial.run(case)
        if reason and far <= self.best:
            return False
        self.best, self.fixed, self.reason = far, fixed, reason
        return None if reason else True

    def over(self) -> bool:
        return self.left <= 0 or time.monotonic() > self.until


def find_sizes(
    model: onnx.ModelProto,
    net: Model | None,
    trial: Trial,
    *,
    seed: int,
    size: Size,
    images: Sequence[tuple[int, int]] = (),
) -> FoundSizes:
    """Find sizes of open dims with which the model runs.

    First the free choice; then the images that the model implies, and other heights and widths of images, all equal;
    then each dim alone, with the numbers that occur in the shapes of the model's weights and in its shape constants.

    Args:
        model: the ONNX model, or the export of ``net``.
        net: the Caffe2 model.
        trial: the same model, ready to run.
        seed: of the values.
        size: of the case.
        images: heights and widths that the model implies.
    """
    search = _Search(model, net, trial, seed, size, until=time.monotonic() + _SECONDS)
    if search.works({}):
        return FoundSizes({})
    layout = Layout(model, net, {})
    sides, symbols, numbers = layout.image_symbols(), layout.symbols(), _numbers(model)
    implied = [layout.image_sides(*image) for image in images]
    improved = True
    while improved and not search.over():
        improved = False
        for change in chain(implied, _changes(sides, symbols, numbers)):
            result = search.works(change)
            if result:
                return FoundSizes(search.fixed)
            if result is None:
                improved = True
                break
            if search.over():
                break
    return FoundSizes(None, search.reason)


def _changes(sides: list[str], symbols: list[str], numbers: list[int]) -> Iterator[dict[str, int]]:
    if sides:
        yield from (dict.fromkeys(sides, side) for side in IMAGES)
    for symbol in symbols:
        yield from ({symbol: number} for number in numbers)
    for number in numbers:
        yield dict.fromkeys(symbols, number)


def _numbers(model: onnx.ModelProto) -> list[int]:
    """Return candidate sizes: dims of the model's weights, elements of its shape constants, and small numbers."""
    numbers = dict.fromkeys(_SMALL[:4])
    for tensor in model.graph.initializer:
        numbers.update(dict.fromkeys(tensor.dims))
        if tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) == 1 and tensor.dims[0] <= 8:
            numbers.update(dict.fromkeys(int(v) for v in onnx.numpy_helper.to_array(tensor)))
    numbers.update(dict.fromkeys(_SMALL))
    return [number for number in numbers if 0 < number <= _LARGEST and number != IMAGE]
