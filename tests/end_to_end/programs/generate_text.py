"""Text from a char_rnn, as Caffe2's example generates it.

usage: generate_text.py FOLDER CHARACTERS    FOLDER holds init_net.pb, predict_net.pb and char_rnn.json
"""
# ruff: noqa: ANN001, ANN201, NPY002, PTH123, T201 - a program of Caffe2's time, as users have it

import json
import sys

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace


def read_net(path):
    net = caffe2_pb2.NetDef()
    with open(path, "rb") as file:
        net.ParseFromString(file.read())
    return net


def generate(folder, num_characters):
    with open(folder + "/char_rnn.json") as file:
        vocabulary = json.load(file)["vocab"]
    hidden_size = 192
    workspace.RunNetOnce(read_net(folder + "/init_net.pb"))
    forward_net = read_net(folder + "/predict_net.pb")

    prepare_state = caffe2_pb2.NetDef()
    prepare_state.name = "prepare_state"
    for source, target in (("hidden_state_last", "hidden_init"), ("cell_state_last", "cell_init")):
        op = prepare_state.op.add()
        op.type = "Copy"
        op.input.append("LSTM/" + source)
        op.output.append(target)
        prepare_state.external_input.append("LSTM/" + source)
        workspace.FeedBlob("LSTM/" + source, np.zeros([1, 1, hidden_size], dtype=np.float32))
    workspace.CreateNet(prepare_state)

    workspace.FeedBlob("seq_lengths", np.array([1], dtype=np.int32))
    workspace.FeedBlob("input_blob", np.zeros([1, 1, len(vocabulary)]).astype(np.float32))
    workspace.RunNet(prepare_state.name)
    workspace.CreateNet(forward_net)

    np.random.seed(2017)
    ch = vocabulary[0]
    text = ch
    probabilities = []
    for _ in range(num_characters):
        workspace.FeedBlob("seq_lengths", np.array([1], dtype=np.int32))
        workspace.RunNet(prepare_state.name)

        character = np.zeros([1, 1, len(vocabulary)]).astype(np.float32)
        character[0][0][vocabulary.index(ch)] = 1

        workspace.FeedBlob("input_blob", character)
        workspace.RunNet(forward_net.name)

        p = workspace.FetchBlob("softmax")[0][0].astype(np.float64)
        ch = vocabulary[np.random.choice(len(vocabulary), p=p / p.sum())]
        text += ch
        probabilities.append(float(p.max()))
    logits = workspace.FetchBlob("logits")
    known = workspace.HasBlob("LSTM/i2h")
    return {"text": text, "probabilities": probabilities, "logits": logits.tolist(), "blobs": known}


if __name__ == "__main__":
    print(json.dumps(generate(sys.argv[1], int(sys.argv[2]))))
