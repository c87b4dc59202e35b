"""Describe the model for its readers: who made it, from which net, and what its inputs and outputs are."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar, Final

from caffe2_bridge.passes import InPlacePass
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.metadata.origin import NET_KEY
from caffe2_frontend.state import Export

PRODUCER: Final = "caffe2-bridge"
DOMAIN: Final = "ai.caffe2"
# What the export promises of the inputs, as a JSON list; missing where it promises nothing.
PROMISES_KEY: Final = "caffe2.promises"
_SEQUENTIAL: Final = ("RecurrentNetwork", "InferenceLSTM")
OPERATORS_KEY: Final = "caffe2.operators"
PARAMETERS_KEY: Final = "caffe2.parameters"


class DescribeModel(InPlacePass[Export]):
    """Fill the producer, the domain, the doc strings and the metadata of the model.

    Metadata: ``caffe2.net``, the name of the net; ``caffe2.operators`` and ``caffe2.parameters``, the numbers of its
    operators and of the parameters that the init net fills; ``caffe2.promises``, what the inputs must be.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
    ensures: ClassVar[frozenset[str]] = frozenset({"described"})

    def __call__(self, state: Export) -> None:
        """Describe the model."""
        model = state.model
        if model is None:
            return
        net = state.predict
        count = len(net.op)
        model.producer_name, model.producer_version, model.domain = PRODUCER, _version(), DOMAIN
        model.doc_string = f"Caffe2 net {net.name!r}, converted to ONNX by {PRODUCER}."
        model.graph.doc_string = f"Caffe2 net {net.name!r}: {count} operator{'' if count == 1 else 's'}."
        promises = _promises(state)
        if promises:
            model.doc_string += f" It is for {' and '.join(promises)} alone."
            model.metadata_props[PROMISES_KEY] = json.dumps(promises)
        model.metadata_props[NET_KEY] = net.name
        model.metadata_props[OPERATORS_KEY] = str(count)
        model.metadata_props[PARAMETERS_KEY] = str(len(state.init.parameters.keys() - state.inputs.keys()))
        _describe_blobs(state)


def _promises(state: Export) -> list[str]:
    """Return what the caller promises of the inputs of a net with sequences."""
    if not any(op.type in _SEQUENTIAL for op in state.net.ops):
        return []
    steps = ["sequences of at least one step"] if state.options.recurrent == "portable" else []
    return steps + (["rows as long as their sequence"] if state.options.full_lengths else [])


def _describe_blobs(state: Export) -> None:
    """Write the doc strings of inputs and outputs: the operators that first read, and last write, their blobs."""
    readers = _readers(state.predict, {str(value.name) for value in state.graph.inputs})
    writers = _writers(state.predict, {blob for _, blob in state.outputs})
    carried = {**state.states, **state.updates}
    fed = {state.graph.outputs[index].name: initial for initial, index in carried.items()}
    feeds = {initial: name for name, initial in fed.items()}
    for value in state.graph.inputs:
        name = str(value.name)
        reader = readers.get(name)
        text = f"Blob {name!r}" + (f", first read by {reader}" if reader else ", which no operator reads directly")
        value.doc_string = text + (f"; output {feeds[name]!r} feeds it in the next call." if name in feeds else ".")
    for value, (_, blob) in zip(state.graph.outputs, state.outputs, strict=True):
        writer = writers.get(blob)
        text = f"Blob {blob!r}" + (f", written by {writer}" if writer else "")
        value.doc_string = text + (f"; feeds input {fed[value.name]!r} in the next call." if value.name in fed else ".")


def _readers(net: NetDef, wanted: set[str]) -> dict[str, str]:
    """Return the type of the first operator that reads each blob."""
    readers: dict[str, str] = {}
    for op in net.op:
        if len(readers) == len(wanted):
            break
        for blob in wanted.intersection(op.input).difference(readers):
            readers[blob] = op.type
    return readers


def _writers(net: NetDef, wanted: set[str]) -> dict[str, str]:
    """Return the type of the last operator that writes each blob."""
    writers: dict[str, str] = {}
    for op in reversed(net.op):
        if len(writers) == len(wanted):
            break
        for blob in wanted.intersection(op.output).difference(writers):
            writers[blob] = op.type
    return writers


@cache
def _version() -> str:
    """Return the version of the installed distribution; empty where it runs from a bare source tree."""
    try:
        return version(PRODUCER)
    except PackageNotFoundError:
        return ""
