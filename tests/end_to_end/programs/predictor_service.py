"""A service that loads a predictor database once, and answers requests.

usage: predictor_service.py MODEL.minidb INPUTS.npz
"""
# ruff: noqa: ANN001, ANN201, T201, UP031 - a program of Caffe2's time, as users have it

import json
import sys

import numpy as np
from caffe2.python import workspace
from caffe2.python.predictor import predictor_exporter as pe


def serve(database, requests):
    predict_net = pe.prepare_prediction_net(database, "minidb")
    outputs = list(predict_net.Proto().external_output)
    answers = []
    for request in requests:
        for name, value in request.items():
            workspace.FeedBlob(name, value)
        workspace.RunNet(predict_net.Name())
        answers.append([workspace.FetchBlob(name).tolist() for name in outputs])
    return answers


if __name__ == "__main__":
    with np.load(sys.argv[2]) as arrays:
        count = 1 + max(int(key.split("/", 1)[0]) for key in arrays.files)
        requests = [
            {key.split("/", 1)[1]: arrays[key] for key in arrays.files if key.startswith("%d/" % i)}
            for i in range(count)
        ]
    print(json.dumps(serve(sys.argv[1], requests)))
