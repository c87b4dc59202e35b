"""Random ONNX models of vectors whose lengths change: in Loops, Ifs and Scans, nested and one after another."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper  # noqa: TID251 - models as others make them

LONGEST: Final = 12  # elements that a body passes on
_DEPTH: Final = 3


class RandomLoops:
    """Draws a model of the inputs x and y (vectors), n (a number of iterations) and go (a condition).

    What bodies declare of their inputs and outputs is a rank and a name at most, as lengths differ from iteration to
    iteration. The lengths of x and y are known to some models.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - models, no secret
        self._count = 0
        self._constants: list[onnx.TensorProto] = []
        nodes: list[onnx.NodeProto] = []
        values = ["x", "y"]
        for _ in range(self._random.randrange(1, 4)):
            self._block(nodes, values, 0)
        self.outputs = [name for name in dict.fromkeys(values[-3:]) if name not in ("x", "y")]
        known: list[int | str] = [3, "N"]
        x = self._random.choice(known)
        self._lengths: dict[str, int | str] = {"x": x, "y": self._random.choice([2, "M", x])}
        inputs = [_vector(name, length) for name, length in self._lengths.items()]
        inputs += [_scalar("n", TensorProto.INT64), _scalar("go", TensorProto.BOOL)]
        outputs = [_vector(name, self._name()) for name in self.outputs]
        graph = helper.make_graph(nodes, "random", inputs, outputs, initializer=self._constants)
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def feeds(self) -> list[dict[str, Any]]:
        """Return inputs for both values of the condition."""
        return [self._feed(go) for go in (True, False)]

    def _feed(self, go: object) -> dict[str, Any]:
        sizes = {name: self._random.choice([1, 2, 4]) for name in ("N", "M")}
        lengths = {name: sizes[length] if isinstance(length, str) else length for name, length in self._lengths.items()}
        vectors = {
            name: np.array([self._random.uniform(-1, 1) for _ in range(length)], np.float32)
            for name, length in lengths.items()
        }
        return {**vectors, "n": np.array(self._random.choice([0, 1, 2])), "go": np.array(go)}

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _constant(self, value: Any, dtype: Any = np.int64) -> str:
        name = self._name()
        self._constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def _emit(self, nodes: list[onnx.NodeProto], kind: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [self._name()], **attributes))
        return str(nodes[-1].output[0])

    def _declared(self, name: str) -> onnx.ValueInfoProto:
        shape = self._random.choice([None, [self._name()]])
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def _block(self, nodes: list[onnx.NodeProto], values: list[str], depth: int) -> None:
        """Add some operators, and what holds more of them."""
        for _ in range(self._random.randrange(1, 5)):
            kind = self._random.random() if depth < _DEPTH else 1.0
            step = (
                self._loop if kind < 0.3 else self._branch if kind < 0.45 else self._scan if kind < 0.5 else self._step
            )
            values += step(nodes, values, depth)

    def _step(self, nodes: list[onnx.NodeProto], values: list[str], _: int) -> list[str]:
        """Return an operator whose result may have another length, or be made of lengths."""
        a, b = self._random.choice(values), self._random.choice(values)
        zero, one = self._constant([0]), self._constant([1])

        def emit(kind: str, *inputs: str, **attributes: Any) -> str:
            return self._emit(nodes, kind, *inputs, **attributes)

        made = [
            lambda: emit("Tanh", a),
            lambda: emit("Concat", a, b, axis=0),
            lambda: emit("Slice", a, zero, self._constant([self._random.choice([1, 2, 5])])),
            lambda: emit("Mul", b, emit("Cast", emit("Size", a), to=TensorProto.FLOAT)),
            lambda: emit("Add", a, emit("ReduceSum", b, zero)),
            lambda: emit("Expand", emit("ReduceMax", a, axes=[0]), emit("Shape", b)),
            lambda: emit("Tile", a, self._constant([2])),
            lambda: emit("Reshape", emit("Unsqueeze", a, one), self._constant([-1])),
            lambda: emit("Pad", a, self._constant([0, 2]), self._constant(0.5, np.float32)),
            lambda: emit("ConstantOfShape", emit("Shape", a), value=numpy_helper.from_array(np.full(1, 2, np.float32))),
            lambda: emit("Cast", emit("Shape", a), to=TensorProto.FLOAT),
        ]
        return [self._random.choice(made)()]

    def _short(self, nodes: list[onnx.NodeProto], value: str) -> str:
        return self._emit(nodes, "Slice", value, self._constant([0]), self._constant([LONGEST]))

    def _loop(self, nodes: list[onnx.NodeProto], values: list[str], depth: int) -> list[str]:
        """Return a Loop of one or two states, and at times of a number from each iteration."""
        initial = [self._random.choice(values) for _ in range(self._random.choice([1, 2]))]
        formals, inner = [self._name() for _ in initial], list[onnx.NodeProto]()
        iteration, going = self._name(), self._name()
        inside = [*formals, *self._random.sample(values, 2)]
        self._block(inner, inside, depth + 1)
        after = [self._short(inner, self._random.choice(inside)) for _ in initial]
        if self._random.random() < 0.3:
            again = self._emit(inner, "Less", self._emit(inner, "Size", formals[0]), self._constant(6))
        else:
            again = self._emit(inner, "Identity", going)
        rows = []
        if self._random.random() < 0.4:
            rows.append(self._emit(inner, "ReduceSum", self._random.choice(inside), self._constant([0])))
        body = helper.make_graph(
            inner,
            "body",
            [_scalar(iteration, TensorProto.INT64), _scalar(going, TensorProto.BOOL), *map(self._declared, formals)],
            [_scalar(again, TensorProto.BOOL), *map(self._declared, after), *(_vector(name, 1) for name in rows)],
        )
        trips = "n" if self._random.random() < 0.3 else self._constant(self._random.choice([0, 1, 2, 3]))
        go = "go" if self._random.random() < 0.2 else self._constant(1, np.bool_)
        finals, stacked = [self._name() for _ in initial], [self._name() for _ in rows]
        nodes.append(helper.make_node("Loop", [trips, go, *initial], [*finals, *stacked], body=body))
        return [*finals, *(self._emit(nodes, "Reshape", name, self._constant([-1])) for name in stacked)]

    def _branch(self, nodes: list[onnx.NodeProto], values: list[str], depth: int) -> list[str]:
        """Return an If whose branches have results of any lengths."""
        sides = []
        for _ in range(2):
            inner, inside = list[onnx.NodeProto](), self._random.sample(values, 2)
            self._block(inner, inside, depth + 1)
            chosen = self._short(inner, self._random.choice(inside))
            sides.append(helper.make_graph(inner, "branch", [], [self._declared(chosen)]))
        return [self._emit(nodes, "If", "go", then_branch=sides[0], else_branch=sides[1])]

    def _scan(self, nodes: list[onnx.NodeProto], values: list[str], _: int) -> list[str]:
        """Return a Scan over the elements of a vector."""
        state, element, inner = self._name(), self._name(), list[onnx.NodeProto]()
        row = self._emit(inner, "Unsqueeze", element, self._constant([0]))
        after = self._emit(inner, "Add", state, row)
        result = self._emit(inner, "Mul", after, row)
        body = helper.make_graph(
            inner,
            "body",
            [_vector(state, 1), _scalar(element, TensorProto.FLOAT)],
            [_vector(after, 1), _vector(result, 1)],
        )
        initial = self._emit(nodes, "ReduceSum", self._random.choice(values), self._constant([0]))
        final, rows = self._name(), self._name()
        scanned = self._random.choice(values)
        nodes.append(helper.make_node("Scan", [initial, scanned], [final, rows], body=body, num_scan_inputs=1))
        return [final, self._emit(nodes, "Reshape", rows, self._constant([-1]))]


def _vector(name: str, length: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [length])


def _scalar(name: str, kind: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, [])
