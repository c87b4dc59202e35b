"""How a node is written in a range of opsets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import parser

F = np.float32
LAST: Final = min(26, onnx.defs.onnx_opset_version())  # the last opset that onnxruntime loads
Expected = Callable[..., Any]


@dataclass(frozen=True)
class Spelling:
    """How a node is written in opsets ``first`` to ``last``.

    Attributes:
        first: the first opset.
        last: the last one.
        inputs: the declared inputs.
        node: the node, which makes ``y``.
        feed: the values of the inputs.
        head: declarations of initializers.
        expected: computes the output from the inputs, in their order; None where onnxruntime has the operator.
        kind: the type of the output.
    """

    first: int
    last: int
    inputs: str
    node: str
    feed: dict[str, Any]
    head: str = ""
    expected: Expected | None = None
    kind: str = "float"

    @property
    def operator(self) -> str:
        """The operator's type."""
        return self.node.partition("=")[2].replace("<", "(").partition("(")[0].strip()

    def opsets(self) -> list[int]:
        """Return the opsets on each side of every change of the operator, from the first to the last."""
        changes = versions(self.operator)
        sides = {self.first, self.last, *changes, *(change - 1 for change in changes)}
        return sorted(side for side in sides if self.first <= side <= self.last)

    def model(self, opset: int, *, within: str = "") -> onnx.ModelProto:
        """Return the node alone, or in the branch of an If (``within="If"``), or in a function of the model."""
        start = f'<ir_version: 8, opset_import: ["": {opset}, "f": 1]> g ({self.inputs}'
        names = ", ".join(self.feed)
        if within == "If":
            then, other = (self._renamed(branch) for branch in ("then", "else"))
            body = (
                f"y = If(go) <then_branch = a () => ({self.kind} y_then) {{ {then} }}, "
                f"else_branch = b () => ({self.kind} y_else) {{ {other} }}>"
            )
            text = f"{start}, bool go) => ({self.kind} y) {self.head} {{ {body} }}"
        elif within == "function":
            constants = [name for name in self.constants() if name]
            called = ", ".join([names, *constants])
            text = (
                f"{start}) => ({self.kind} y) {self.head} {{ y = f.own({called}) }} "
                f'<domain: "f", opset_import: ["": {opset}]> own ({called}) => (y) {{ {self.node} }}'
            )
        else:
            text = f"{start}) => ({self.kind} y) {self.head} {{ {self.node} }}"
        return parser.parse_model(text)

    def _renamed(self, suffix: str) -> str:
        """Return the node with other names of its outputs."""
        outputs, _, node = self.node.partition(" = ")
        return ", ".join(f"{name}_{suffix}" for name in outputs.split(", ")) + f" = {node}"

    def constants(self) -> list[str]:
        """Return the names of the initializers."""
        return [part.split("=")[0].split()[-1] for part in self.head.strip("<> ").split(", ") if "=" in part]


@cache
def versions(operator: str) -> tuple[int, ...]:
    """Return the opsets in which an operator of ONNX's own domain was defined anew."""
    found = {
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == operator and not schema.domain
    }
    return tuple(sorted(found))


def numbers(*shape: int, seed: int = 0) -> Any:
    """Return random floats."""
    return np.asarray(np.random.default_rng(seed).normal(size=shape), F)


X234: Final = numbers(2, 3, 4)
IMAGE: Final = numbers(1, 2, 4, 5)


def constant(value: Any) -> Expected:
    """Return a result that does not depend on the values of the operands."""
    return lambda *_: value
