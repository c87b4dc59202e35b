"""ONNX models run node by node, and step by step through Scan, Loop and If."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from caffe2_backend.runtime import Int8Tensor
from caffe2_bridge.bounds import current_limits
from caffe2_bridge.diagnostics import RunError
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.metadata.origin import OP_KEY, location_of
from caffe2_validation.lockstep.steps import Cut, Point, Points
from caffe2_validation.runtimes import Loaded, Runtime

# Sizes, axes and the like, which some operators require as constants.
_MAX_CONSTANT: Final = 64

Env: TypeAlias = MutableMapping[str, Any]
# Called with each value, and its index if it is a state of a loop; returns the value to go on with.
Observer: TypeAlias = Callable[[Point, int | None], Any]


def keep_own_node(point: Point, _state: int | None) -> Any:
    """Keep the model's own values."""
    return point.value


def onnx_points(
    runtime: Runtime, model: onnx.ModelProto, inputs: MutableMapping[str, Any], observe: Observer = keep_own_node
) -> Points:
    """Run a model node by node, and return every value that was written, in order.

    Raises RunError if a node cannot be run, with its location.
    """
    walker = _Walker(runtime, model, observe)
    plain = {name: v.data if isinstance(v, Int8Tensor) else v for name, v in inputs.items()}
    walker.graph(model.graph, ChainMap(plain), ())
    return walker.points


class _Walker:
    def __init__(self, runtime: Runtime, model: onnx.ModelProto, observe: Observer) -> None:
        self._runtime, self._model, self._watch = runtime, model, observe
        self._loaded: dict[Any, tuple[Loaded, onnx.ModelProto]] = {}
        self._constants: dict[str, Any] = {}
        self.points: Points = []
        self._walks: dict[str, Callable[..., list[Any] | None]] = {
            "If": self._if,
            "Loop": self._loop,
            "Scan": self._scan,
        }

    def graph(self, graph: onnx.GraphProto, env: Env, iterations: tuple[int, ...]) -> None:
        """Run a graph in ``env``, to which its values are added."""
        for tensor in graph.initializer:
            if tensor.name not in env:
                array = self._constants.get(tensor.name)
                if array is None:
                    array = self._constants[tensor.name] = _texts(numpy_helper.to_array(tensor))
                env[tensor.name] = array
        for node in graph.node:
            # A node whose body is stepped through has no cut; if that is impossible (such as a Scan of no steps), the
            # node runs as a whole.
            walk = self._walks.get(node.op_type) if is_standard(node) else None
            values, cut = (walk(node, env, iterations), None) if walk else self._single(node, env)
            if values is None:
                values, cut = self._single(node, env)
            for name, value in zip(node.output, values, strict=False):
                if name:
                    env[name] = self._record(node, iterations, name, value, cut)

    def _record(
        self, node: onnx.NodeProto, iterations: tuple[int, ...], name: str, value: Any, cut: Cut | None,
        state: int | None = None,
    ) -> Any:  # fmt: skip
        if not isinstance(value, np.ndarray):
            return value
        place, op_type = _location(node)
        point = Point(place, op_type, iterations, name, 0, cut is None, value, cut, node.name)
        self.points.append(point)
        return self._watch(point, state)

    def _single(self, node: onnx.NodeProto, env: Env) -> tuple[list[Any], Cut]:
        read = [name for name in dict.fromkeys(_reads(node)) if name in env]
        values = {name: env[name] for name in read if env[name] is not None}
        key = (node.SerializeToString(deterministic=True), *((name, _kind(value)) for name, value in values.items()))
        if key not in self._loaded:
            model = self._model_of(node, values)
            self._loaded[key] = self._runtime.load(model), model
        loaded, model = self._loaded[key]
        outputs = [name for name in node.output if name]
        try:
            found = loaded.run(values, outputs)
        except RunError as error:
            raise RunError(f"{_location(node)[0]}: {error}") from error
        return [found[name] if name else None for name in node.output], Cut(model, values, tuple(outputs))

    def _model_of(self, node: onnx.NodeProto, values: dict[str, Any]) -> onnx.ModelProto:
        """Return a model of the node alone; small constants stay constants, as some operators require."""
        graph = onnx.GraphProto(name="step", node=[node])
        for name, value in values.items():
            if name in self._constants and self._constants[name] is value and value.size <= _MAX_CONSTANT:
                graph.initializer.append(numpy_helper.from_array(value, name))
            else:
                graph.input.append(onnx.ValueInfoProto(name=name, type=_type(value)))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
        return onnx.ModelProto(
            ir_version=self._model.ir_version, graph=graph, opset_import=self._model.opset_import,
            functions=self._model.functions,
        )  # fmt: skip

    def _if(self, node: onnx.NodeProto, env: Env, iterations: tuple[int, ...]) -> list[Any]:
        body = _body(node, "then_branch" if bool(np.asarray(env[node.input[0]]).reshape(-1)[0]) else "else_branch")
        inner = ChainMap[str, Any]({}, env)
        self.graph(body, inner, iterations)
        return [inner[value.name] for value in body.output]

    def _scan(self, node: onnx.NodeProto, env: Env, iterations: tuple[int, ...]) -> list[Any] | None:
        body, count = _body(node, "body"), next(a.i for a in node.attribute if a.name == "num_scan_inputs")
        states = [env[name] for name in node.input[:-count]]
        scanned = [env[name] for name in node.input[-count:]]
        axes, backward = _ints(node, "scan_input_axes", count), _ints(node, "scan_input_directions", count)
        made = len(body.output) - len(states)
        steps = scanned[0].shape[axes[0]]
        if not steps:
            return None
        rows: list[list[Any]] = [[] for _ in range(made)]
        for t in range(steps):
            slices = [
                np.take(value, steps - 1 - t if back else t, axis)
                for value, axis, back in zip(scanned, axes, backward, strict=True)
            ]
            self._record_slices(node, body, slices, (*iterations, t))
            inner = ChainMap[str, Any](dict(zip((v.name for v in body.input), (*states, *slices), strict=True)), env)
            self.graph(body, inner, (*iterations, t))
            found = [inner[value.name] for value in body.output]
            states = [
                self._record(node, (*iterations, t), body.output[i].name, value, None, i)
                for i, value in enumerate(found[: len(states)])
            ]
            for row, value in zip(rows, found[len(states) :], strict=True):
                row.append(value)
        out_axes, reversed_out = _ints(node, "scan_output_axes", made), _ints(node, "scan_output_directions", made)
        stacks = [
            np.stack(row[::-1] if back else row, axis)
            for row, axis, back in zip(rows, out_axes, reversed_out, strict=True)
        ]
        return [*states, *stacks]

    def _record_slices(
        self, node: onnx.NodeProto, body: onnx.GraphProto, slices: Sequence[Any], iterations: tuple[int, ...]
    ) -> None:
        """Record where a body's inputs come from; these points are not compared."""
        place, op_type = _location(node)
        count = len(slices)
        for value, outer, array in zip(body.input[-count:], node.input[-count:], slices, strict=True):
            cut = Cut(None, {outer: array}, (value.name,))
            self.points.append(Point(place, op_type, iterations, value.name, 0, True, array, cut, node.name))  # noqa: FBT003 - a field

    def _loop(self, node: onnx.NodeProto, env: Env, iterations: tuple[int, ...]) -> list[Any] | None:
        body = _body(node, "body")
        most = int(np.asarray(env[node.input[0]]).reshape(-1)[0]) if node.input[0] else current_limits().iterations
        go = bool(np.asarray(env[node.input[1]]).reshape(-1)[0]) if len(node.input) > 1 and node.input[1] else True
        carried = [env[name] if name else None for name in node.input[2:]]
        made = len(body.output) - 1 - len(carried)
        if made and (not go or most <= 0):
            return None
        rows: list[list[Any]] = [[] for _ in range(made)]
        t = 0
        while go and t < most:
            names = [value.name for value in body.input]
            given = [np.array(t, np.int64), np.array(go), *carried]
            inner = ChainMap[str, Any](dict(zip(names, given, strict=True)), env)
            self.graph(body, inner, (*iterations, t))
            found = [inner[value.name] for value in body.output]
            go = bool(np.asarray(found[0]).reshape(-1)[0])
            carried = [
                self._record(node, (*iterations, t), body.output[1 + i].name, value, None, i)
                for i, value in enumerate(found[1 : 1 + len(carried)])
            ]
            for row, value in zip(rows, found[1 + len(carried) :], strict=True):
                row.append(value)
            t += 1
        return [*carried, *(np.stack(row) for row in rows)]


def _location(node: onnx.NodeProto) -> tuple[str, str]:
    known = {prop.key: prop.value for prop in node.metadata_props}
    return location_of(node), known.get(OP_KEY, node.op_type)


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the values that a node reads, including those that its bodies capture."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from _reads(inner)
            yield from (value.name for value in attribute.g.output)


def _body(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return next(attribute.g for attribute in node.attribute if attribute.name == name)


def _ints(node: onnx.NodeProto, name: str, count: int) -> Sequence[int]:
    return next((tuple(a.ints) for a in node.attribute if a.name == name), (0,) * count)


def _texts(array: Any) -> Any:
    return array.astype(object) if array.dtype.kind in "SU" else array


def _kind(value: Any) -> Any:
    return tuple(map(_kind, value)) if isinstance(value, list) else value.dtype.str


def _type(value: Any) -> onnx.TypeProto:
    kind = onnx.TypeProto()
    if isinstance(value, list):
        kind.sequence_type.elem_type.CopyFrom(_type(value[0]) if value else _type(np.zeros(0, np.float32)))
        return kind
    string = value.dtype.kind in "OSU"
    kind.tensor_type.elem_type = (
        onnx.TensorProto.STRING if string else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)  # noqa: TID251 - a table of types, no graph is built
    )
    return kind
