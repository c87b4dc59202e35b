"""The export's front door."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import onnx
import onnx_ir as ir
from google.protobuf.message import Message

from caffe2_bridge.model import Model
from caffe2_bridge.passes import run_passes
from caffe2_bridge.reroll import reroll as rolled_up
from caffe2_frontend.options import Recurrent
from caffe2_frontend.pipeline import EXPORT
from caffe2_frontend.prepare import as_model, begin
from caffe2_frontend.recurrent.stateful import carried_states, mark_states


def to_onnx(
    predict_net: Message | bytes | Model,
    init_net: Message | bytes | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    opset: int | None = None,
    recurrent: Recurrent = "auto",
    stateful: bool = False,
    reroll: bool = False,
) -> onnx.ModelProto:
    """Convert a Caffe2 net to an ONNX model whose graph inputs and outputs are named as the net's blobs.

    Args:
        predict_net: a NetDef (this project's or Caffe2's own class, or its bytes), a PlanDef, or a loaded model.
        init_net: the net that fills the parameters; not with a loaded model, which has its own.
        inputs: what is known of the net's inputs: ``{name: (dtype, shape)}``, where ``dtype`` is a NumPy dtype or a
            type's name, and a dim an int, a name (symbolic) or None (unknown). What is left out follows from how the
            net uses the blob. A blob that the init net fills too is an input if it is named here.
        outputs: names of the blobs to output; default the net's external outputs.
        opset: the ONNX opset of the result; default 20.
        recurrent: the form of recurrent nets: ``auto`` (LSTM, GRU, RNN where provably equal and not slower, else Scan,
            else Loop), ``fused``, ``scan`` or ``loop``.
        stateful: make the initial states of recurrent nets inputs, also those that are parameters, and their last rows
            outputs; the model's metadata ``caffe2.states`` says which output goes into which input of the next call.
        reroll: make loops again of nets that were unrolled over time; the model then serves every T.

    Returns:
        The checked model, with symbolic dims wherever the inputs' are.

    Raises:
        ConversionError: the net cannot be converted; holds every finding, in net order.
        NetFormatError: what is given is no net.
    """
    model = convert(
        predict_net,
        init_net,
        inputs=inputs,
        outputs=outputs,
        opset=opset,
        recurrent=recurrent,
        stateful=stateful,
        reroll=reroll,
    )
    return ir.to_proto(model)


def convert(
    predict_net: Message | bytes | Model,
    init_net: Message | bytes | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    opset: int | None = None,
    recurrent: Recurrent = "auto",
    stateful: bool = False,
    reroll: bool = False,
) -> ir.Model:
    """:func:`to_onnx` up to its last step: a model whose weights are still where they were read from."""
    given, states = dict(inputs or {}), []
    loaded = as_model(predict_net, init_net)
    if reroll:
        loaded = rolled_up(loaded)
    if stateful:
        states = carried_states(loaded)
        given = {state.initial: state.info for state in states} | given
        wanted = loaded.outputs if outputs is None else outputs
        outputs = list(dict.fromkeys([*wanted, *(state.last for state in states)]))
    start = begin(loaded, inputs=given, outputs=outputs, opset=opset, recurrent=recurrent)
    with _collector_paused():
        model = run_passes(EXPORT, start).model
    assert model is not None  # RaiseErrors raised otherwise
    if stateful:
        mark_states(model, states, [blob for _, blob in start.outputs])
    return model


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's cycle collector from walking the growing graph again and again: nothing of it is garbage yet."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
