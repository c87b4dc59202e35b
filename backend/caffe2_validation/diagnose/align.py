"""Alignment of two ONNX models: pairs of values that play the same role.

The models compute almost the same, but names, order and some nodes differ. Seeds are the inputs and outputs, by name,
and then values with equal digests: the digest of a value is a hash of everything it is computed from (a Merkle hash:
operator type, attributes, digests of the operands), without or with the contents of constants. From these pairs the
alignment grows until nothing changes: forwards, to the only node on either side whose operands are paired; backwards,
to the operands of paired nodes, first those that come from nodes of one kind, and one other pair at a time.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.operators import COMMUTATIVE
from caffe2_validation.diagnose.canonical import constant, every_value


@dataclass
class Alignment:
    """Pairs of values other than constants: ``left`` maps values of the first model, ``right`` those of the second."""

    left: dict[ir.Value, ir.Value] = field(default_factory=dict)
    right: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def add(self, one: ir.Value, other: ir.Value) -> bool:
        """Pair two values; return False if either has a partner, or is a constant."""
        if one in self.left or other in self.right or constant(one) is not None or constant(other) is not None:
            return False
        self.left[one], self.right[other] = other, one
        return True


def align_by_name(one: ir.Model, other: ir.Model) -> Alignment:
    """Pair values of equal names, first those from similar nodes: right for two exports of the same tool."""
    found = _interfaces(one, other)
    known = {value.name: value for value in every_value(one.graph)}
    for like in (True, False):  # values of equal names from different nodes come second
        for value in every_value(other.graph):
            partner = known.get(value.name)
            if partner is not None and (_alike(partner, value) or not like):
                found.add(partner, value)
    return found


def align_by_contents(one: ir.Model, other: ir.Model) -> Alignment:
    """Do as :func:`align_by_structure`, but first pair values of equal digests with the contents of constants."""
    return _align(one, other, (True, False))


def align_by_structure(one: ir.Model, other: ir.Model) -> Alignment:
    """Pair values that are computed in the same way, regardless of names.

    First those with equal digests without the contents of constants; then what follows from the pairs so far, from
    operands to results and from results to operands.
    """
    return _align(one, other, (False,))


def _align(one: ir.Model, other: ir.Model, passes: Sequence[bool]) -> Alignment:
    found = _interfaces(one, other)
    for contents in passes:
        left, right = (_by_digest(model, contents=contents) for model in (one, other))
        for digest, values in left.items():
            partners = right.get(digest, [])
            # Values of one digest are computed alike: paired in order if both models have as many, and not at all
            # otherwise, since a wrong pair would lead to others.
            if len(values) == len(partners):
                for value, partner in zip(values, partners, strict=True):
                    found.add(value, partner)
    # Each new pair may decide others, in both directions, so that both are repeated until nothing is found. Pairs of
    # unlike operands are a guess: one at a time, and only where nothing certain is left.
    count = -1
    while count != len(found.left):
        count = len(found.left)
        _forwards(one, other, found)
        _backwards(found, like=True)
        if count == len(found.left):
            _backwards(found, like=False)
    return found


def _interfaces(one: ir.Model, other: ir.Model) -> Alignment:
    """Pair inputs and outputs of the outer graphs, by name."""
    found = Alignment()
    for ours, theirs in ((one.graph.inputs, other.graph.inputs), (one.graph.outputs, other.graph.outputs)):
        known = {value.name: value for value in ours}
        for value in theirs:
            if value.name in known:
                found.add(known[value.name], value)
    return found


def _alike(one: ir.Value, other: ir.Value) -> bool:
    ours, theirs = one.producer(), other.producer()
    if ours is None or theirs is None:
        return ours is theirs
    return _kind(ours) == _kind(theirs) and one.index() == other.index()


def _kind(node: ir.Node) -> tuple[str, str, int]:
    return node.domain, node.op_type, len(node.outputs)


# Digests.


def _by_digest(model: ir.Model, *, contents: bool) -> Mapping[str, list[ir.Value]]:
    digests: dict[ir.Value, str] = {}
    for value in model.graph.inputs:
        digests[value] = _digest("input", str(value.name))
    for value in model.graph.initializers.values():
        digests[value] = _constant_digest(value, contents=contents)
    _digest_graph(model.graph, digests)
    found = defaultdict(list)
    for value, digest in digests.items():
        found[digest].append(value)
    return found


def _digest_graph(graph: ir.Graph, digests: dict[ir.Value, str]) -> None:
    for node in graph:
        operands = ["" if value is None else digests.get(value, "?") for value in node.inputs]
        if standard_type(node) in COMMUTATIVE:
            # Two exports may list the operands of an Add in either order.
            operands.sort()
        parts = [node.domain, node.op_type, *operands]
        for name, attribute in sorted(node.attributes.items()):
            if attribute.type == ir.AttributeType.GRAPH:
                body = attribute.as_graph()
                # The inputs of a body stand for operands of its node, whose digests are part of theirs.
                head = _digest(*parts, name)
                digests.update((formal, _digest(head, str(i))) for i, formal in enumerate(body.inputs))
                _digest_graph(body, digests)
                parts += [name, *(digests.get(value, "?") for value in body.outputs)]
            else:
                parts += [name, str(attribute.value)]
        digests.update((value, _digest(*parts, str(i))) for i, value in enumerate(node.outputs))


def _constant_digest(value: ir.Value, *, contents: bool) -> str:
    tensor = value.const_value
    if tensor is None:
        return _digest("constant", str(value.name))
    shape = str(tensor.shape.numpy()) if isinstance(tensor.shape, ir.Shape) else str(tensor.shape)
    return _digest("constant", str(tensor.dtype), shape, tensor.tobytes().hex() if contents else "")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


# Growth.


def _forwards(one: ir.Model, other: ir.Model, found: Alignment) -> None:
    """Pair nodes whose operands are paired, if each is the only such node of its model."""
    known = defaultdict(list)
    for node in ir.traversal.RecursiveGraphIterator(one.graph):
        known[_signature(node, found, left=True)].append(node)
    theirs = [(node, _signature(node, found, left=False)) for node in ir.traversal.RecursiveGraphIterator(other.graph)]
    counts = Counter(signature for _, signature in theirs)
    for node, signature in theirs:
        partners = known.get(signature, [])
        if signature is not None and len(partners) == 1 and counts[signature] == 1:
            _pair_nodes(partners[0], node, found)


def _signature(node: ir.Node, found: Alignment, *, left: bool) -> tuple[object, ...] | None:
    operands: list[object] = []
    for value in node.inputs:
        if value is None or constant(value) is not None:
            operands.append(0 if value is None else 1)
        elif value in (found.left if left else found.right):
            operands.append(id(value if left else found.right[value]))
        else:
            return None
    if standard_type(node) in COMMUTATIVE:
        operands.sort(key=str)
    return (*_kind(node), *operands)


def _backwards(found: Alignment, *, like: bool) -> None:
    """Pair operands of paired nodes: all that come from similar nodes if ``like``, else the first one possible."""
    waiting = list(found.left.items())
    while waiting:
        one, other = waiting.pop()
        ours, theirs = one.producer(), other.producer()
        if ours is None or theirs is None or _kind(ours) != _kind(theirs) or one.index() != other.index():
            continue
        before = len(found.left)
        _pair_nodes(ours, theirs, found)
        for a, b in _operands(ours, theirs, found):
            if not like and not _alike(a, b) and found.add(a, b):
                return
            if like and _alike(a, b):
                found.add(a, b)
        waiting += list(found.left.items())[before:]


def _pair_nodes(one: ir.Node, other: ir.Node, found: Alignment) -> None:
    """Pair the results of two nodes, and the inputs and outputs of their bodies."""
    for a, b in zip(one.outputs, other.outputs, strict=True):
        found.add(a, b)
    for name, attribute in one.attributes.items():
        partner = other.attributes.get(name)
        if attribute.type != ir.AttributeType.GRAPH or partner is None or partner.type != attribute.type:
            continue
        ours, theirs = attribute.as_graph(), partner.as_graph()
        _pair_formals(one, other, ours, theirs, found)
        if len(ours.outputs) == len(theirs.outputs):
            for a, b in zip(ours.outputs, theirs.outputs, strict=True):
                found.add(a, b)


def _pair_formals(one: ir.Node, other: ir.Node, ours: ir.Graph, theirs: ir.Graph, found: Alignment) -> None:
    if len(ours.inputs) == len(theirs.inputs):
        for a, b in zip(ours.inputs, theirs.inputs, strict=True):
            found.add(a, b)
    elif standard_type(one) == "Scan":  # the number of scanned inputs may differ
        known = dict(zip(other.inputs, theirs.inputs, strict=True))
        for outer, formal in zip(one.inputs, ours.inputs, strict=True):
            partner = known.get(found.left.get(outer)) if outer is not None else None
            if partner is not None:
                found.add(formal, partner)


def _operands(one: ir.Node, other: ir.Node, found: Alignment) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yield candidate pairs of operands: by position; of commutative nodes, among those that are not paired yet."""
    ours: Sequence[ir.Value | None] = one.inputs
    theirs: Sequence[ir.Value | None] = other.inputs
    if standard_type(one) in COMMUTATIVE:
        ours = [value for value in ours if value not in found.left]
        theirs = [value for value in theirs if value not in found.right]
        rest = list(theirs)
        for value in ours:
            partner = next((v for v in rest if v is not None and value is not None and _alike(value, v)), None)
            if value is not None and partner is None and len(ours) == len(rest) == 1:
                partner = rest[0]
            if value is not None and partner is not None:
                rest.remove(partner)
                yield value, partner
        return
    for a, b in zip(ours, theirs, strict=False):
        if a is not None and b is not None:
            yield a, b


def unpaired_nodes(model: ir.Model, pairs: Mapping[ir.Value, ir.Value]) -> int:
    """Return the number of nodes without a paired result; ``pairs`` are those of this model."""
    return sum(
        not any(value in pairs for value in node.outputs) for node in ir.traversal.RecursiveGraphIterator(model.graph)
    )
