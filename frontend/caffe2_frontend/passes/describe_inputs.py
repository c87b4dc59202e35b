"""Infer types and shapes of the net's inputs from the caller's description and from the operators that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.cached import cached_property
from caffe2_bridge.control import all_operators
from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.operators import infer_shapes, is_described
from caffe2_bridge.passes import FunctionalPass
from caffe2_frontend.input_shapes import InferredShapes, infer_input_shapes
from caffe2_frontend.input_types import infer_input_types
from caffe2_frontend.interop.input_hint import generated_name, input_hint
from caffe2_frontend.interop.types import Dim, TensorInfo, onnx_dtype
from caffe2_frontend.lowering.family import Expectation
from caffe2_frontend.ops import expectations
from caffe2_frontend.state import Export

# Operators up to this many operators away from an input still describe it.
_REACH = 8
# The first output of these has the type and shape of their first input.
_TRANSPARENT = frozenset(
    [
        "Copy",
        "CopyFromCPUInput",
        "CopyCPUToGPU",
        "CopyGPUToCPU",
        "Alias",
        "AliasWithName",
        "StopGradient",
        "Relu",
        "Tanh",
        "Sigmoid",
    ]
)


class _Uses:
    """How operators read the blobs of a net; found when it is first asked for."""

    def __init__(self, net: NetView) -> None:
        self._net = net
        self._inferred: dict[tuple[str, int], TensorInfo] = {}

    @cached_property
    def ops(self) -> list[OpView]:
        """The operators of the net and of its bodies, which see the net's blobs under the same names."""
        return list(all_operators(self._net))

    @cached_property
    def by_blob(self) -> Mapping[str, list[tuple[OpView, int]]]:
        """The operators that read each blob, and the index of the operand."""
        uses: dict[str, list[tuple[OpView, int]]] = {}
        for op in self.ops:
            for i, name in enumerate(op.inputs):
                uses.setdefault(name, []).append((op, i))
        return uses

    def inferred(self, name: str, table: Mapping[str, Expectation], reach: int) -> TensorInfo:
        """Return what operators up to ``reach`` operators away expect of a blob; it is the same table in all calls.

        A blob that n operators write in place is reached in n^reach ways, so each distance is followed once.
        """
        known = self._inferred.get((name, reach))
        if known is not None:
            return known
        inferred = TensorInfo()
        for op, index in self.by_blob.get(name, ()):
            expected = None if op.proto.domain else table.get(op.type)
            if expected is not None:
                with suppress(ArgumentError):  # reported by _wrong_arguments
                    inferred = inferred.merged(expected(op, index))
            if op.type in _TRANSPARENT and op.outputs and reach:
                inferred = inferred.merged(self.inferred(op.outputs[0], table, reach - 1))
        self._inferred[name, reach] = inferred
        return inferred


class DescribeInputs(FunctionalPass[Export]):
    """Give every input that the init net does not fill an element type and a shape with named dims.

    What the caller leaves out is inferred from the operators that read the input: a sequence of a RecurrentNetwork has
    three dims, lengths are int32, and what is compared with an int64 is one. An input that nothing describes is float;
    its rank must then be given. What is assumed is explained once the net is lowered (:mod:`.explain_inputs`).
    """

    ensures: ClassVar[frozenset[str]] = frozenset({"inputs"})

    def __call__(self, state: Export) -> Export:
        """Return the state with complete ``inputs``, in the net's order."""
        net = state.net
        uses = _Uses(net)
        made = {*state.init.parameters, *(name for op in state.init.rest for name in op.outputs)}
        results = {blob for _, blob in state.outputs}
        inputs: dict[str, TensorInfo] = {}
        findings: list[Diagnostic] = []
        taken: set[str] = set()  # the names of dims in hints
        names = [name for name in net.external_inputs if name in state.inputs or name not in made]
        inferred = _infer_shapes(state, uses, names)
        told = _infer_types(state, uses, names)
        for name in names:
            given = state.inputs.get(name, TensorInfo())
            if given.dtype is None:
                used = uses.inferred(name, expectations(), _REACH)
                given = given.merged(TensorInfo(told.get(name))).merged(replace(used, shape=None))
                given = given.merged(TensorInfo(ir.DataType.FLOAT))
            info = given
            if name not in state.options.described and name in inferred.shapes:
                info = replace(info, shape=inferred.shapes[name])
            info = info.merged(TensorInfo(shape=inferred.shapes.get(name)))
            if info.shape is None and info.onnx_type is None:
                wanted = name in results or name in uses.by_blob
                findings.append(_unknown_rank(name, Location(net.name), info, taken, wanted=wanted))
                if not wanted:
                    continue
            inputs[name] = replace(info, shape=_named(name, info.shape))
        findings += _wrong_arguments(state)
        return replace(
            state,
            inputs=inputs,
            inferred_types=frozenset(name for name in inputs if state.inputs.get(name, TensorInfo()).dtype is None),
            assumed_ranks=inferred.assumed,
            findings=(*state.findings, *findings),
        )


def _wrong_arguments(state: Export) -> Iterator[Diagnostic]:
    """Report arguments that describe operands and are invalid; a converter might require ranks before it reads them."""
    table = expectations()
    sound: set[tuple[str, int]] = set()  # operators without arguments, by type and number of operands
    for index, op in state.numbered():
        expected = table.get(op.type)
        if op.proto.domain or (expected is None and not is_described(op.type)):
            continue
        kind = (op.type, len(op.inputs))
        if kind in sound and not op.proto.arg:
            continue
        try:
            infer_shapes(op, [None] * len(op.inputs))
            if expected is not None:
                for operand in range(len(op.inputs)):
                    expected(op, operand)
        except ArgumentError as error:
            yield Diagnostic("invalid-argument", str(error), Location(state.predict.name, index, op.type, op.name))
        else:
            if not op.proto.arg:
                sound.add(kind)


def _infer_shapes(state: Export, uses: _Uses, names: Sequence[str]) -> InferredShapes:
    """Infer what the caller leaves open; nothing is computed where every input is described."""
    described = state.options.described or {}
    known = {name: info.shape for name, info in state.inputs.items() if info.shape is not None}
    if all(name in known and (name in described or None not in known[name]) for name in names):
        return InferredShapes(known, {})
    parameters = {name: parameter.shape for name, parameter in state.init.parameters.items() if name not in known}
    typed = {name for name, info in state.inputs.items() if info.onnx_type is not None and info.shape is None}
    return infer_input_shapes(
        uses.ops, [name for name in names if name not in typed], {**parameters, **known}, expectations()
    )


def _infer_types(state: Export, uses: _Uses, names: Sequence[str]) -> Mapping[str, ir.DataType]:
    """Infer the element types that the caller leaves open."""
    described = {name: info.dtype for name, info in state.inputs.items() if info.dtype is not None}
    if all(name in described for name in names):
        return {}
    parameters = {name: onnx_dtype(parameter.dtype) for name, parameter in state.init.parameters.items()}
    return infer_input_types([*state.init.rest, *uses.ops], names, parameters | described)


def _unknown_rank(name: str, location: Location, info: TensorInfo, taken: set[str], *, wanted: bool) -> Diagnostic:
    described = input_hint(name, info, taken)
    if not wanted:
        reason = f"input {name!r} is left out, because no operator reads it and its rank is unknown"
        return Diagnostic(
            "unused-input", reason, location, Severity.NOTE, f"to keep it, describe it, such as {described}"
        )
    return Diagnostic("needs-shape", unknown_rank_reason(name), location, hint=unknown_rank_hint(described))


def unknown_rank_reason(name: str) -> str:
    """Return what is reported of an input of unknown rank."""
    return f"the rank of input {name!r} is unknown"


def unknown_rank_hint(described: str) -> str:
    """Return the hint for an input of unknown rank, with an example that describes it."""
    return f"describe it, such as {described}; a dim is an integer, a name, or '?' (None in Python)"


def _named(name: str, shape: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """Return the shape with names for unknown dims, so that all uses of a dim are equal."""
    if shape is None:
        return None
    return tuple(generated_name(name, i) if dim is None else dim for i, dim in enumerate(shape))
