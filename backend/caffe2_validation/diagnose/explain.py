"""Explanation of a divergence between a net and an ONNX model: the operator of the net, and the cause.

The second stage of a lockstep:

1. Export the net afresh, in each form of recurrent nets, and bring the export and the model into canonical form.
2. Align their values, by name, by structure or by contents, and run both in lockstep, node against node. Of all forms
   and alignments the one with the fewest nodes that are unpaired or wrong is taken.
3. The first wrong node differs from its counterpart in its type, an attribute, an operand or a constant. The
   counterpart's recorded location is the operator of the net; a constant is traced back to parameters and arguments by
   changing these in the net and exporting again (see parameter_origins).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir

from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend import Recurrent, to_onnx
from caffe2_frontend.interop.domains import STANDARD_DOMAINS
from caffe2_validation.diagnose.align import (
    Alignment,
    align_by_contents,
    align_by_name,
    align_by_structure,
    unpaired_nodes,
)
from caffe2_validation.diagnose.canonical import canonical, constant, every_value, rename
from caffe2_validation.diagnose.expand_rnn import EXPANDED, STATE
from caffe2_validation.diagnose.node_origins import find_place, first_step, is_inside
from caffe2_validation.diagnose.parameter_origins import ParameterOrigin, differing, find_origins
from caffe2_validation.inputs.specs import Case
from caffe2_validation.lockstep.reference_feeder import PointPair, ReferenceFeeder, points_of
from caffe2_validation.lockstep.steps import Points
from caffe2_validation.report import Divergence
from caffe2_validation.sides import Side
from caffe2_validation.values import Tolerance

_FORMS: Final[tuple[Recurrent, ...]] = ("auto", "scan", "loop", "fused")
_FLOATS: Final = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
_LOOPS: Final = frozenset({"RecurrentNetwork", "While"})
_ALIGNERS: Final = (align_by_name, align_by_structure, align_by_contents)


@dataclass(frozen=True)
class Fresh:
    """A fresh export of the net, aligned with the candidate.

    Attributes:
        form: of recurrent nets in the export.
        export: the export, in canonical form.
        candidate: the model in canonical form, its values renamed to those of their counterparts.
        points: all values of the export.
        wrong: the pairs that disagree, in the export's order.
        score: how many nodes have no counterpart, or compute something else; the alignment with the lowest is used.
        missing: how many of the export's nodes have no counterpart.
    """

    form: Recurrent
    export: ir.Model = field(repr=False)
    candidate: ir.Model = field(repr=False)
    points: Points = field(repr=False)
    wrong: tuple[PointPair, ...] = field(default=(), repr=False)
    score: int = 0
    missing: int = 0

    @property
    def is_conclusive(self) -> bool:
        """Whether the models are similar: at least half of the export's nodes have a counterpart."""
        return 2 * self.missing <= sum(1 for _ in _nodes(self.export))


def explain(
    net: Side, model: Side, case: Case, expected: Points, found: Divergence, tolerances: Mapping[str, Tolerance]
) -> tuple[Divergence, PointPair | None]:
    """Find the operator, the step and the cause of a divergence.

    Args:
        net: the side that is a net.
        model: the side that is an ONNX model.
        case: the inputs.
        expected: the values of the net.
        found: the divergence from the first stage.
        tolerances: by dtype.

    Returns the divergence, and the nodes that differ; ``found`` and None if nothing more precise is found.
    """
    assert isinstance(net.model, Model)
    fresh = _best(net.model, model, case, tolerances)
    if fresh is None or not fresh.is_conclusive:
        return found, None
    if not fresh.wrong:
        if fresh.score:
            return found, None
        return replace(
            found, cause="the model is what an export of the net is: the export or its runtime is at fault"
        ), None
    pair = fresh.wrong[0]
    difference = _compare_nodes(fresh, pair)
    origins = [
        origin
        for name, right, wrong in difference.constants
        for origin in _origins(net.model, model, fresh, name, right, wrong)
    ]
    places = _places(net.model, model, expected, fresh, pair, origins)
    if not places:
        return found, None
    cause = "; ".join(dict.fromkeys([*(origin.what for origin in origins), *difference.words]))
    operator, *others = places
    step = _step(model, case, expected, operator, fresh, found, tolerances)
    return replace(
        found, operator=operator, op_type=_type_of(operator), timestep=step, equally=tuple(others), cause=cause,
        suspects=tuple(places),
    ), pair  # fmt: skip


# Alignment.


def _best(net: Model, model: Side, case: Case, tolerances: Mapping[str, Tolerance]) -> Fresh | None:
    assert isinstance(model.model, onnx.ModelProto)
    best: Fresh | None = None
    seen = set()
    for form in _FORMS:
        export = _export(net, model.model, form)
        data = export.SerializeToString(deterministic=True) if export is not None else b""
        if export is None or data in seen:
            continue
        seen.add(data)
        try:
            ours = canonical(export)
        except RunError:
            return best
        one = Side(model.label, model.runtime, ir.to_proto(ours))
        try:
            points = points_of(one, case.inputs)
        except RunError:
            continue
        for align in _ALIGNERS:
            try:
                theirs = canonical(model.model)
            except RunError:
                return best
            found = _lock_step(Fresh(form, ours, theirs, points), one, align(ours, theirs), case, tolerances)
            if best is None or found.score < best.score:
                best = found
            if best.score <= 1:
                return best
    return best


def _export(net: Model, like: onnx.ModelProto, form: Recurrent) -> onnx.ModelProto | None:
    """Export a net with the inputs, outputs and opset of a model; None if it cannot be exported."""
    weights = {tensor.name for tensor in like.graph.initializer}
    described = {v.name: _described(v) for v in like.graph.input if v.name not in weights and v.name in net.inputs}
    opset = next((known.version for known in like.opset_import if known.domain in STANDARD_DOMAINS), None)
    outputs = [value.name for value in like.graph.output]
    for options in ({"outputs": outputs, "opset": opset}, {"outputs": outputs}, {}):
        try:
            return to_onnx(net, inputs=described, recurrent=form, training=False, **options)
        except BridgeError:
            continue
    return None


def _described(value: onnx.ValueInfoProto) -> tuple[Any, Any]:
    tensor = value.type.tensor_type
    dtype = ir.DataType(tensor.elem_type).numpy() if tensor.elem_type else None
    if not tensor.HasField("shape"):
        return dtype, None
    dims = [
        d.dim_value if d.HasField("dim_value") else (d.dim_param or None) if d.HasField("dim_param") else None
        for d in tensor.shape.dim
    ]
    return dtype, tuple(dims)


def _lock_step(fresh: Fresh, one: Side, found: Alignment, case: Case, tolerances: Mapping[str, Tolerance]) -> Fresh:
    """Run the candidate against the points of the export, which is side ``one``, and return what differs."""
    candidate = fresh.candidate
    missing, alone = unpaired_nodes(fresh.export, found.left), unpaired_nodes(candidate, found.right)
    for i, value in enumerate(every_value(candidate.graph)):
        if value in found.right or not value.name or (value.is_graph_input() and value.graph is candidate.graph):
            continue
        rename(candidate.graph, value, f"candidate {i} {value.name}")
    for value, partner in found.right.items():
        rename(candidate.graph, value, str(partner.name))
    other = Side(one.label, one.runtime, ir.to_proto(candidate))
    feeder = ReferenceFeeder(fresh.points, one.model, other.model, tolerances)
    try:
        points_of(other, case.inputs, feeder)
    except RunError:  # the values before the error count
        alone += 1
    wrong = feeder.wrong()
    score = missing + alone + len({pair.expected.name for pair in wrong})
    return replace(fresh, wrong=tuple(wrong), score=score, missing=missing)


# Differences of the wrong node.


@dataclass
class NodeDifference:
    """How a node differs from its counterpart: constants (name in the export, right, wrong), and the rest in words."""

    constants: list[tuple[str, Array, Array]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def _compare_nodes(fresh: Fresh, pair: PointPair) -> NodeDifference:
    found = NodeDifference()
    ours, theirs = (_producer(model, pair.expected.name) for model in (fresh.export, fresh.candidate))
    if ours is None or theirs is None:
        return found
    if ours.op_type != theirs.op_type:
        found.words.append(f"{theirs.op_type} instead of {ours.op_type}")
        return found
    found.words += _attributes(ours, theirs)
    for position, (a, b) in enumerate(_operands(ours, theirs)):
        right, wrong = constant(a), constant(b)
        if a is not None and right is not None and wrong is not None:
            one, other = right.numpy(), wrong.numpy()
            if one.shape != other.shape or one.dtype != other.dtype or differing(one, other).any():
                found.constants.append((str(a.name), one, other))
                if one.dtype.kind != "f" or one.size == 1:
                    found.words.append(f"operand {position} of {ours.op_type} is {_short(other)}, not {_short(one)}")
        elif _name(a) != _name(b):
            found.words.append(f"operand {position} of {ours.op_type} is {_name(b)}, not {_name(a)}")
    return found


def _operands(ours: ir.Node, theirs: ir.Node) -> list[tuple[ir.Value | None, ir.Value | None]]:
    """Return pairs of operands by position; of commutative operators in the order in which more names are equal."""
    one, other = list(ours.inputs), list(theirs.inputs)
    count = max(len(one), len(other))
    one += [None] * (count - len(one))
    other += [None] * (count - len(other))
    if ours.op_type in ("Add", "Mul") and count == 2:
        straight = sum(_name(a) == _name(b) for a, b in zip(one, other, strict=True))
        if sum(_name(a) == _name(b) for a, b in zip(one, other[::-1], strict=True)) > straight:
            other = other[::-1]
    return list(zip(one, other, strict=True))


def _attributes(ours: ir.Node, theirs: ir.Node) -> Iterator[str]:
    for name in sorted({*ours.attributes, *theirs.attributes}):
        one, other = ours.attributes.get(name), theirs.attributes.get(name)
        if ir.AttributeType.GRAPH in (one.type if one else None, other.type if other else None):
            continue
        right, wrong = (None if a is None else a.value for a in (one, other))
        if str(right) != str(wrong):
            yield f"attribute {name!r} of {ours.op_type} is {wrong}, not {right}"


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    return iter(ir.traversal.RecursiveGraphIterator(model.graph))


def _producer(model: ir.Model, name: str) -> ir.Node | None:
    for node in _nodes(model):
        if any(value.name == name for value in node.outputs):
            return node
    return None


def _name(value: ir.Value | None) -> str:
    if value is None:
        return "missing"
    return "a constant" if constant(value) is not None else repr(value.name)


def _short(array: Array) -> str:
    return np.array2string(array, threshold=8, separator=", ").replace("\n", "")


# The operators of the net.


def _origins(net: Model, model: Side, fresh: Fresh, name: str, right: Array, wrong: Array) -> list[ParameterOrigin]:
    def build(changed: Model) -> Array | None:
        assert isinstance(model.model, onnx.ModelProto)
        export = _export(changed, model.model, fresh.form)
        value = canonical(export).graph.initializers.get(name) if export is not None else None
        return value.const_value.numpy() if value is not None and value.const_value is not None else None

    return find_origins(net, build, right, wrong)


def _places(
    net: Model, model: Side, expected: Points, fresh: Fresh, pair: PointPair, origins: list[ParameterOrigin]
) -> list[str]:  # fmt: skip
    """Return the operators of the net that explain the difference, most likely one."""
    here = pair.expected.place
    whole = [origin for origin in origins if origin.whole] or origins
    found: dict[str, None] = {}
    for origin in whole:
        near = [place for place in origin.places if place == here]
        near = near or [place for place in origin.places if is_inside(place, here)]
        found.update(dict.fromkeys(near or origin.places))
    if found:
        return list(found)
    node = _producer(fresh.export, pair.expected.name)
    before = _replaced_operand(fresh, pair)
    if node is not None and before is not None and is_inside(before, here):
        return [before]
    if node is None or pair.expected.walked or pair.expected.op_type not in _LOOPS:
        return [here]
    made_of = _operators_of_constants(net, model, fresh, node)
    if made_of:
        return made_of
    fused = {str(n.metadata_props.get("caffe2.location")) for n in _nodes(fresh.export) if EXPANDED in n.metadata_props}
    if here not in fused or node.metadata_props.get(EXPANDED) == STATE:
        return [here]
    return [find_place(expected, fresh.points, pair.expected)]


def _replaced_operand(fresh: Fresh, pair: PointPair) -> str | None:
    """Return the location of the operator whose value the node should read if it reads one without counterpart."""
    ours, theirs = (_producer(model, pair.expected.name) for model in (fresh.export, fresh.candidate))
    if ours is None or theirs is None or ours.op_type != theirs.op_type:
        return None
    known = {value.name for value in every_value(fresh.export.graph)}
    for a, b in _operands(ours, theirs):
        maker = a.producer() if a is not None else None
        if maker is not None and b is not None and constant(b) is None and b.name not in known:
            return maker.metadata_props.get("caffe2.location")
    return None


def _operators_of_constants(net: Model, model: Side, fresh: Fresh, node: ir.Node) -> list[str]:
    """Return the operators whose parameters a node reads: the FC of a product, or all whose products were merged."""
    found = dict[str, None]()
    for value in node.inputs:
        tensor = constant(value)
        if value is None or tensor is None or tensor.dtype not in _FLOATS or tensor.size < 2:
            continue
        right = tensor.numpy()
        for origin in _origins(net, model, fresh, str(value.name), right, np.full_like(right, np.nan)):
            found.update(dict.fromkeys(origin.places))
    return list(found)


def _step(
    model: Side, case: Case, expected: Points, operator: str, fresh: Fresh, found: Divergence,
    tolerances: Mapping[str, Tolerance],
) -> int | None:  # fmt: skip
    """Return the first step in which the operator is wrong; None for one outside of loops."""
    outside = all(not point.iterations for point in expected if point.place == operator)
    if outside and _type_of(operator) not in _LOOPS:
        return None
    pair = fresh.wrong[0]
    if pair.expected.iterations:
        return pair.expected.iterations[-1]
    if found.iterations:
        return found.iterations[-1]
    pairs = [(other.expected.value, other.actual.value) for other in fresh.wrong]
    step = first_step(expected, operator, pairs, tolerances)
    if step is None and found.timestep is None:
        last = {point.name: point.value for point in expected if not point.iterations}
        own = model.runtime.load(model.model).run(case.inputs)
        step = first_step(expected, operator, [(last[name], own[name]) for name in own if name in last], tolerances)
    return found.timestep if step is None else step


def _type_of(place: str) -> str:
    return place.rsplit(" > ", maxsplit=1)[-1].partition("] ")[2].partition(" (")[0]
