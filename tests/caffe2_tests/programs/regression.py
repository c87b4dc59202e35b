"""The toy regression of Caffe2's tutorials."""

from typing import Any, Dict, Iterator

import numpy as np

from caffe2_tests.programs.harness import Figures, caffe2, feed_parameters, train

STEPS = 50


def toy_regression(_: str) -> Figures:
    """Fit a line to noisy points by stochastic gradient descent, with the operators of the tutorial."""
    core, workspace = caffe2("core"), caffe2("workspace")
    init_net = core.Net("init")
    w_gt = init_net.GivenTensorFill([], "W_gt", shape=[1, 2], values=[2.0, 1.5])
    b_gt = init_net.GivenTensorFill([], "B_gt", shape=[1], values=[0.5])
    one = init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    iteration = init_net.ConstantFill([], "ITER", shape=[1], value=0, dtype=core.DataType.INT64)
    w = init_net.UniformFill([], "W", shape=[1, 2], min=-1.0, max=1.0)
    b = init_net.ConstantFill([], "B", shape=[1], value=0.0)

    train_net = core.Net("train")
    y_gt = train_net.FC(["X", w_gt, b_gt], "Y_gt")
    y_noise = train_net.Add([y_gt, "noise"], "Y_noise")
    y_noise = y_noise.StopGradient([], "Y_noise")
    y_pred = train_net.FC(["X", w, b], "Y_pred")
    dist = train_net.SquaredL2Distance([y_noise, y_pred], "dist")
    loss = train_net.AveragedLoss([dist], ["loss"])
    gradients = train_net.AddGradientOperators([loss])
    train_net.Iter(iteration, iteration)
    rate = train_net.LearningRate(iteration, "LR", base_lr=-0.1, policy="step", stepsize=20, gamma=0.9)
    for param in (w, b):
        train_net.WeightedSum([param, one, gradients[str(param)], rate], param)

    def batches() -> Iterator[Dict[str, Any]]:
        random = np.random.RandomState(1)
        for _ in range(STEPS):
            x = random.standard_normal((64, 2)).astype(np.float32)
            yield {"X": x, "noise": random.standard_normal((64, 1)).astype(np.float32) * np.float32(0.1)}

    data = batches()
    workspace.RunNetOnce(init_net)
    feed_parameters([w])
    for name, value in next(data).items():
        workspace.FeedBlob(name, value)
    workspace.CreateNet(train_net)
    losses = train(train_net, "loss", data)
    fitted = [*map(float, workspace.FetchBlob("W").ravel()), float(workspace.FetchBlob("B")[0])]
    return {"losses": losses, "fitted": fitted}
