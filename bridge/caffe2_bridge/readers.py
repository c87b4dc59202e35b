"""Cut the database readers at the head of a net: what they would read becomes inputs of the net.

Training and test nets of Caffe2 read their examples themselves: a reader or a queue that the init net creates
(`CreateDB`), and an operator that takes the next batch from it (`TensorProtosDBInput`, `ImageInput`). The net computes
the same from batches that are fed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Final

from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.init.needed import with_rest
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.replace import with_operators
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.ssa.objects import makes_object

# Operators that take batches from a reader, a queue or a cursor, which is their first input.
READERS: Final = frozenset({
    "DequeueBlobs", "ImageInput", "ReadNextBatch", "ReadRandomBatch", "TensorProtosDBInput", "TextFileReaderRead",
    "VideoInput",
})  # fmt: skip


def cut_readers(model: Model) -> Model:
    """Make the batches that a net reads from databases, files and queues inputs of the net.

    A reader is cut if no operator but those that create its source writes one of its operands, and no earlier operator
    uses one of its outputs. A note in the ``findings`` of the init net names the inputs. The model itself is not
    changed, and returned if it has no readers.
    """
    if READERS.isdisjoint(model.op_types):
        return model
    net = NetView(model.predict_net)
    cut = _heads(net)
    if not cut:
        return model
    makers = _unused_makers(net, cut)
    left_out = {op.index for op in (*cut, *makers)}
    kept = [op for op in net.ops if op.index not in left_out]
    result = with_operators(model.predict_net, (op.proto for op in kept))
    used = {name for op in kept for name in op.inputs}.union(net.external_outputs)
    made = [name for op in cut for name in op.outputs if name in used]
    sources = {name for op in cut for name in op.inputs}.difference(used)
    inputs = [name for name in net.external_inputs if name not in sources]
    del result.external_input[:]
    result.external_input.extend(dict.fromkeys([*made, *inputs]))
    notes = [_note(net, op, [name for name in op.outputs if name in used]) for op in cut]
    return dataclasses.replace(model, predict_net=result, init=_without(model.init, sources, made, notes))


def _heads(net: NetView) -> list[OpView]:
    """Return the readers of a net that can be replaced by inputs, in order."""
    found: list[OpView] = []
    written: set[str] = set()
    used: set[str] = set()
    for op in net.ops:
        is_head = op.type in READERS and written.isdisjoint(op.inputs) and used.isdisjoint(op.outputs)
        if is_head:
            found.append(op)
        elif not makes_object(op.proto):
            written.update(op.outputs)
        used.update((*op.inputs, *op.outputs))
    return found


def _unused_makers(net: NetView, cut: Iterable[OpView]) -> list[OpView]:
    """Return the operators of the net that make the sources of readers that are cut, and nothing else."""
    reads = Counter(name for op in net.ops for name in op.inputs)
    sources = Counter(name for op in cut for name in op.inputs)
    return [op for op in net.ops if makes_object(op.proto) and 0 < sources[op.outputs[0]] == reads[op.outputs[0]]]


def _note(net: NetView, op: OpView, names: list[str]) -> Diagnostic:
    named = ", ".join(map(repr, names)) or "none of them, because no operator reads one"
    reason = f"the batches that {op.type} reads from {op.inputs[0]!r} become inputs of the net: {named}"
    location = Location(net.name or "net", op.index, op.type, op.name)
    return Diagnostic("cut-reader", reason, location, Severity.NOTE, "feed them")


def _without(init: InitNet, sources: set[str], made: list[str], notes: list[Diagnostic]) -> InitNet:
    """Return the init net without operators that make the sources alone; blobs that are inputs now are placeholders."""
    rest = [op for op in init.rest if not (makes_object(op.proto) and sources.issuperset(op.outputs))]
    found = dataclasses.replace(init, findings=(*init.findings, *notes))
    return with_rest(found, rest).with_inputs(made)
