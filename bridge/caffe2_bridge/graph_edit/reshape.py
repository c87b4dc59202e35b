"""Reshapes whose shape is computed, and those in front of FC operators that need not be there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from google.protobuf.message import Message

from caffe2_bridge.control import all_names
from caffe2_bridge.graph_edit.prune import reads_of
from caffe2_bridge.graph_edit.rows import Rows
from caffe2_bridge.graph_edit.value_numbering import with_ops
from caffe2_bridge.netdef.views import OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import NetEffects, effects_of
from caffe2_bridge.ssa.versions import Ssa, VersionedBlob, get_output_producers, get_ssa

_KEEP: Final = frozenset({"Cast", "Copy", "ExpandDims", "Flatten", "Reshape", "Squeeze", "StopGradient"})


def identify_reshape_sub_graph(net: Message | bytes) -> list[list[int]]:
    """Return for each ``Reshape`` the operators that make its new shape from its data, in net order, and itself.

    Where the shape is an argument, or does not come from the data, there is the Reshape alone.
    """
    proto = as_net_def(net)
    ssa, _ = get_ssa(proto)
    producers = get_output_producers(ssa)
    return [
        [*(_between(ssa, producers, ssa[index][0][0], ssa[index][0][1]) if len(op.input) > 1 else ()), index]
        for index, op in enumerate(proto.op)
        if op.type == "Reshape"
    ]


def _between(
    ssa: Ssa, producers: Mapping[VersionedBlob, int], source: VersionedBlob, target: VersionedBlob
) -> list[int]:
    """Return operators on a path from source to target: found backwards, no further than where the source is made."""
    first = producers.get(source, -1)
    found: set[int] = set()
    pending = [target]
    while pending:
        index = producers.get(pending.pop(), -1)
        if index > first and index not in found:
            found.add(index)
            pending.extend(ssa[index][0])
    reached: set[VersionedBlob] = {source}
    path = []
    for index in sorted(found):
        if not reached.isdisjoint(ssa[index][0]):
            reached.update(ssa[index][1])
            path.append(index)
    return path


def remove_reshape_for_fc(
    predict_net: Message | bytes,
    params: Mapping[str, Any],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[NetDef, dict[str, Any]]:
    """Take out Reshapes that only make data two-dimensional for FC operators, which do that themselves.

    A Reshape goes, with the operators that compute its shape, where all that read its output are FCs (as their data, at
    ``axis`` 1), where it keeps the first dimension, and where nothing else needs what goes. Parameters that only those
    operators read go too.

    It keeps the first dimension where its shape begins with 0 or with the data's own first dimension. The constant
    shapes ``[-1, K]`` and ``[N, K]`` do if the FCs have K columns, according to ``params``, and a row of the data has K
    elements: it is an input of known shape, the output of an FC of K rows, or an image, [N, C, H, W], where C divides
    K. (If H * W of an image is not K / C after all, Caffe2 refuses to run the FC.)

    Args:
        predict_net: the net.
        params: the parameters, arrays by blob.
        input_shapes: the shapes of inputs, by blob.

    Returns:
        A new net, and a new mapping of the parameters that stay.
    """
    predict = as_net_def(predict_net, "predict_net")
    effects = effects_of(predict, "predict")
    flow = _Flow(effects)
    rows = Rows(flow.ops, flow.maker, params, input_shapes or {})
    chains = [chain for chain in identify_reshape_sub_graph(predict) if flow.may_go(chain, params, rows)]
    removed = {index for chain in chains for index in chain}
    result = NetDef()
    result.CopyFrom(predict)
    for *_, reshape in chains:
        for index in flow.readers(flow.ssa[reshape][1][0]):
            result.op[index].input[0] = predict.op[reshape].input[0]
    kept = [op for index, op in enumerate(result.op) if index not in removed]
    result = with_ops(result, kept)
    still = set(all_names(NetDef(op=kept))).union(predict.external_output)
    orphans = {name for index in removed for name in predict.op[index].input if name in params and name not in still}
    result.external_input[:] = [name for name in result.external_input if name not in orphans]
    return result, {name: value for name, value in params.items() if name not in orphans}


class _Flow:
    """Who reads and who overwrites what, bodies included."""

    def __init__(self, effects: NetEffects) -> None:
        self.net = effects.net
        self.ops = [OpView(proto, index) for index, proto in enumerate(effects.net.op)]
        self._has_bodies = [bool(op.bodies) for op in effects.ops]
        self.ssa, versions = get_ssa(effects.net)
        self._outside = {(name, versions.get(name, 0)) for name in effects.net.external_output}
        self._readers: dict[VersionedBlob, list[int]] = {}
        for index, blobs in enumerate(reads_of(effects)):
            for blob in blobs:
                self._readers.setdefault(blob, []).append(index)
        self._writers: dict[str, list[int]] = {}
        for index, (proto, op) in enumerate(zip(effects.net.op, effects.ops, strict=True)):
            for name in dict.fromkeys((*proto.output, *op.writes, *op.updates, *op.merges)):
                self._writers.setdefault(name, []).append(index)

    def readers(self, blob: VersionedBlob) -> list[int]:
        """Return the indices of the operators that read a blob."""
        return self._readers.get(blob, [])

    def maker(self, name: str, reader: int) -> int | None:
        """Return the index of the operator that made what one reads, -1 if none did, None if a body may have."""
        writers = self._writers.get(name, [])
        position = bisect_left(writers, reader)
        if position == 0:
            return -1
        return None if self._has_bodies[writers[position - 1]] else writers[position - 1]

    def may_go(self, chain: list[int], params: Mapping[str, Any], rows: Rows) -> bool:
        """Whether a Reshape, the last of the chain, can be taken out with the operators that make its shape."""
        *makers, reshape = chain
        flat, *others = self.ssa[reshape][1]
        readers = self.readers(flat)
        if not readers or flat in self._outside or not all(self._is_flattening_fc(index, flat) for index in readers):
            return False
        inner = set(chain)
        extra = [*others, *(blob for index in makers for blob in self.ssa[index][1])]
        if any(blob in self._outside or not inner.issuperset(self.readers(blob)) for blob in extra):
            return False
        writers = self._writers.get(self.ssa[reshape][0][0][0], [])
        following = bisect_right(writers, reshape)
        if following < len(writers) and writers[following] < readers[-1]:
            return False
        if _keeps_rows([self.ops[index] for index in chain], params):
            return True
        shape = () if makers else self._constant_shape(self.ops[reshape], params)
        if len(shape) != 2 or shape[0] < -1 or shape[1] < 1:
            return False
        data, size = self.ops[reshape].inputs[0], shape[1]
        columns = {rows.columns(self.ops[index].inputs[1], index) for index in readers}
        return columns == {size} and rows.have(data, reshape, size)

    def _constant_shape(self, reshape: OpView, params: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the shape of a Reshape, where it is an argument or a parameter; else it is empty."""
        if len(reshape.inputs) < 2:
            return tuple(reshape.args.integers("shape", default=()))
        name = reshape.inputs[1]
        return _values(params.get(name)) if self.maker(name, reshape.index) == -1 else ()

    def _is_flattening_fc(self, index: int, flat: VersionedBlob) -> bool:
        op = self.ops[index]
        first, *rest = self.ssa[index][0]
        return op.type == "FC" and first == flat and flat not in rest and op.args.integer("axis", default=1) == 1


def _keeps_rows(chain: list[OpView], params: Mapping[str, Any]) -> bool:
    """Whether the new shape certainly begins with the first dim of the data: it is 0, or computed from it."""
    *makers, reshape = chain
    if len(reshape.inputs) < 2:
        return reshape.args.integers("shape", default=())[:1] == (0,)
    data, shape = reshape.inputs[:2]
    begins: set[str] = set()  # blobs that begin with the first dimension
    for op in makers:
        if op.type == "Shape":
            same = op.inputs[:1] == (data,) and op.args.integers("axes", default=(0,))[:1] == (0,)
        elif op.type == "Slice":
            starts = op.args.integers("starts", default=()) or _first_values(op, params)
            same = op.inputs[0] in begins and starts[:1] == (0,)
        elif op.type == "Gather":
            same = op.inputs[0] in begins and _first_values(op, params)[:1] == (0,)
        elif op.type == "Concat" or op.type in _KEEP:
            same = op.inputs[0] in begins
        else:
            same = False
        begins.difference_update(op.outputs)
        if same:
            begins.add(op.outputs[0])
    return shape in begins or (not makers and _values(params.get(shape))[:1] == (0,))


def _first_values(op: OpView, params: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the values of the second input, where it is a parameter."""
    return _values(params.get(op.inputs[1])) if len(op.inputs) > 1 else ()


def _values(value: Any) -> tuple[int, ...]:
    array = np.asarray(() if value is None else value)
    return tuple(map(int, array.reshape(-1))) if array.dtype.kind in "iu" else ()
