"""Sizes that a model fixes without saying so: found by trying, with onnxruntime's error as the last word.

A Flatten before a matrix product, a Reshape to fixed sizes, a window as large as its image: each leaves few sizes of
the inputs, and none of them is written at the inputs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final

import onnx

from caffe2_backend.runtime.session_options import SessionOptions
from caffe2_backend.runtime.sessions import Session
from caffe2_backend.validation.inputs.specs import IMAGE, Case, Layout, Size, make_cases
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model

# Sides of images that nets are made for, the usual ones first.
IMAGES: Final = (224, 227, 28, 64, 299, 256, 112, 96, 128, 160, 192, 320, 384, 416, 512, 8, 16)
_SMALL: Final = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 50, 64, 100, 128)
_LARGEST: Final = 4096
_TRIALS: Final = 300
_ELEMENTS: Final = 1 << 20
_SECONDS: Final = 60.0
_FAILED_AT: Final = re.compile(r"while running \S+ node\. Name:'([^']*)'")


@dataclass(frozen=True)
class Found:
    """What a search came to: sizes of dims by symbol, None where nothing runs; ``reason`` is the furthest error."""

    fixed: Mapping[str, int] | None
    reason: str = ""


class Trial:
    """A model in onnxruntime, run as it stands. Raises RunError where onnxruntime is missing or takes no such model."""

    def __init__(self, model: onnx.ModelProto) -> None:
        # Without optimizations, as fused nodes lose their names.
        options = SessionOptions(threads=1, spinning=False, silent=True, optimization="none")
        if len({node.name for node in model.graph.node}) < len(model.graph.node):
            model = _named(model)
        self._session = Session(model.SerializeToString(), "cpu", options=options)
        self._order = {node.name: index for index, node in enumerate(_run_order(model.graph), 1)}

    def run(self, case: Case) -> tuple[int, str]:
        """How many nodes ran before one failed, and why it did; an empty reason where none failed."""
        try:
            self._session.run(case.inputs)
        except RunError as error:
            found = _FAILED_AT.search(str(error))
            return (self._order.get(found[1], 0) if found else 0), str(error)
        return len(self._order) + 1, ""


def _run_order(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes as onnxruntime runs them: depth first, from the last node that nothing reads, each after its operands.

    Were it to run them in another order, a search would take longer or find less, and nothing would be wrong.
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
    """What a node reads, with what its bodies take from around them."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from _reads(inner)


def _named(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a name of its own for each node, by which an error tells it."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for index, node in enumerate(whole.graph.node):
        node.name = f"node {index}"
    return whole


@dataclass
class _Search:
    """A climb: what gets further along the graph than anything before is kept, and varied."""

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
        """Whether it runs with a change; None where it does not, but gets further: then the change stays."""
        fixed = self.fixed | dict(change)
        shapes = Layout(self.model, self.net, fixed).shapes(self.size)
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


def find_sizes(model: onnx.ModelProto, net: Model | None, trial: Trial, *, seed: int, size: Size) -> Found:
    """Sizes of open dims with which the model runs.

    The free choice comes first. Then sides of images are tried, all alike; then each dim by itself, against the numbers
    that the model's own weights and shapes have.

    Args:
        model: the ONNX model, or the export of ``net``.
        net: the Caffe2 model.
        trial: the same model, ready to run.
        seed: of the values.
        size: the case that is tried.
    """
    search = _Search(model, net, trial, seed, size, until=time.monotonic() + _SECONDS)
    if search.works({}):
        return Found({})
    layout = Layout(model, net, {})
    sides, symbols, numbers = layout.image_symbols(), layout.symbols(), _numbers(model)
    further = True
    while further and not search.over():
        further = False
        for change in _changes(sides, symbols, numbers):
            result = search.works(change)
            if result:
                return Found(search.fixed)
            if result is None:
                further = True
                break
            if search.over():
                break
    return Found(None, search.reason)


def _changes(sides: list[str], symbols: list[str], numbers: list[int]) -> Iterator[dict[str, int]]:
    if sides:
        yield from (dict.fromkeys(sides, side) for side in IMAGES)
    for symbol in symbols:
        yield from ({symbol: number} for number in numbers)
    for number in numbers:
        yield dict.fromkeys(symbols, number)


def _numbers(model: onnx.ModelProto) -> list[int]:
    """Sizes that the model itself speaks of, the dims of its weights and what its shapes hold, and small ones."""
    numbers = dict.fromkeys(_SMALL[:4])
    for tensor in model.graph.initializer:
        numbers.update(dict.fromkeys(tensor.dims))
        if tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) == 1 and tensor.dims[0] <= 8:
            numbers.update(dict.fromkeys(int(v) for v in onnx.numpy_helper.to_array(tensor)))
    numbers.update(dict.fromkeys(_SMALL))
    return [number for number in numbers if 0 < number <= _LARGEST and number != IMAGE]
