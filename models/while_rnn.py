"""A writer: a While loop that feeds an LSTM its own most probable character.

Writes a model folder, with weights that are not trained: python models/while_rnn.py FOLDER
"""

from __future__ import annotations

import sys

import caffe2_bridge as c2
from caffe2_bridge.builder import LSTMCell, Net, add_while_op, fc
from caffe2_bridge.proto.caffe2_pb2 import TensorProto


def build(vocabulary: int = 30, size: int = 16, *, seed: int = 0) -> Net:
    """``first`` int64 [1, N], the states [1, N, size] and ``steps`` int32 [1] to ``text`` int64 [1 + steps, N]."""
    net = Net("while_rnn", seed=seed)
    net.add_external_input("first", "hidden", "cell", "steps")
    embedding = net.param("embedding", (vocabulary, size))
    states = [net.Copy("hidden", "hidden_now"), net.Copy("cell", "cell_now")]
    net.Copy("first", "last")
    net.Copy("first", "text")
    net.ConstantFill([], "step", shape=[1], value=0, dtype=TensorProto.INT32)

    condition = net.child("condition")
    condition.LT(["step", "steps"], "going_on")

    body = net.child("body")
    lstm = LSTMCell(name="LSTM", input_size=size, hidden_size=size, forget_bias=1.0)
    character = body.Gather([embedding, "last"], "character")
    output, after = lstm.apply(body, character, None, states, "step")
    body.ArgMax(fc(body, output, "logits", size, vocabulary, axis=2), "last", axis=2, keepdims=0)
    longer, _ = body.Concat(["text", "last"], ["longer", "_longer_dims"], axis=0)
    body.Copy(longer, "text")
    for state, now in zip(after, states, strict=True):
        body.Copy(state, now)
    body.ConstantFill([], "one", shape=[1], value=1, dtype=TensorProto.INT32)
    body.Add(["step", "one"], "step")

    add_while_op(net, "going_on", body, condition)
    net.add_external_output("text", *states)
    return net


if __name__ == "__main__":
    c2.save(build().model(), sys.argv[1])
    print(f"wrote {sys.argv[1]}")
