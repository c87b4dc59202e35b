"""Convolutional nets: LeNet as in the MNIST tutorial, the ResNet of models/resnet.py, nets of convnet_benchmarks.py."""

import importlib
import os
from typing import Any, Dict, Iterator, Tuple

import numpy as np

from caffe2_tests.programs.harness import Figures, caffe2, feed_parameters, norms, train

STEPS = 12
DIGITS, SIDE = 10, 28
Batches = Iterator[Dict[str, Any]]


def _digits(count: int, seed: int) -> Tuple[Any, Any]:
    """Return images in which a bright bar stands for the digit, and the digits."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, DIGITS, count).astype(np.int32)
    images = random.randint(0, 64, (count, 1, SIDE, SIDE)).astype(np.uint8)
    for image, label in zip(images, labels):
        image[0, 2 * label + 2 : 2 * label + 6] += 160
    return images, labels


def _write_digits(path: str) -> None:
    """Write a minidb with one image and label in a record, as the tutorial's databases."""
    core, workspace = caffe2("core"), caffe2("workspace")
    if os.path.exists(path):
        os.remove(path)
    database = workspace.C.create_db("minidb", path, workspace.C.Mode.write)
    transaction = database.new_transaction()
    for i, (image, label) in enumerate(zip(*_digits(256, 1))):
        record = importlib.import_module("caffe2.proto.caffe2_pb2").TensorProtos()
        pixels = record.protos.add()
        pixels.dims.extend(image.shape)
        pixels.data_type = core.DataType.UINT8
        pixels.byte_data = image.tobytes()
        digit = record.protos.add()
        digit.data_type = core.DataType.INT32
        digit.int32_data.append(int(label))
        transaction.put(f"{i:08}", record.SerializeToString())
    del transaction
    del database


def _add_lenet(model: Any, data: Any) -> Any:
    brew = caffe2("brew")
    conv1 = brew.conv(model, data, "conv1", dim_in=1, dim_out=20, kernel=5)
    pool1 = brew.max_pool(model, conv1, "pool1", kernel=2, stride=2)
    conv2 = brew.conv(model, pool1, "conv2", dim_in=20, dim_out=50, kernel=5)
    pool2 = brew.max_pool(model, conv2, "pool2", kernel=2, stride=2)
    fc3 = brew.fc(model, pool2, "fc3", dim_in=50 * 4 * 4, dim_out=500)
    relu3 = brew.relu(model, fc3, "relu3")
    pred = brew.fc(model, relu3, "pred", 500, DIGITS)
    return brew.softmax(model, pred, "softmax")


def _add_input(model: Any, batch_size: int, path: str) -> Tuple[Any, Any]:
    core = caffe2("core")
    pixels, label = model.TensorProtosDBInput(
        [], ["data_uint8", "label"], batch_size=batch_size, db=path, db_type="minidb"
    )
    data = model.Cast(pixels, "data", to=core.DataType.FLOAT)
    data = model.Scale(data, data, scale=float(1.0 / 256))
    return model.StopGradient(data, data), label


def mnist(folder: str) -> Figures:
    """Run the MNIST tutorial: databases, training with accuracy, the test, and the saved and loaded predictor."""
    brew, workspace, model_helper = (caffe2(name) for name in ("brew", "workspace", "model_helper"))
    pe = caffe2("predictor.predictor_exporter")
    path = os.path.join(folder, "digits.minidb")
    _write_digits(path)
    scope = {"order": "NCHW"}
    model = model_helper.ModelHelper(name="mnist_train", arg_scope=scope)
    data, label = _add_input(model, 32, path)
    softmax = _add_lenet(model, data)
    xent = model.LabelCrossEntropy([softmax, label], "xent")
    loss = model.AveragedLoss(xent, "loss")
    brew.accuracy(model, [softmax, label], "accuracy")
    model.AddGradientOperators([loss])
    iteration = brew.iter(model, "iter")
    rate = model.LearningRate(iteration, "LR", base_lr=-0.02, policy="step", stepsize=1, gamma=0.999)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in model.params:
        model.WeightedSum([param, one, model.param_to_grad[param], rate], param)
    test = model_helper.ModelHelper(name="mnist_test", arg_scope=scope, init_params=False)
    data, label = _add_input(test, 64, path)
    brew.accuracy(test, [_add_lenet(test, data), label], "accuracy")
    deploy = model_helper.ModelHelper(name="mnist_deploy", arg_scope=scope, init_params=False)
    _add_lenet(deploy, "data")

    workspace.RunNetOnce(model.param_init_net)
    feed_parameters(model.params)
    workspace.CreateNet(model.net, overwrite=True)
    losses, accuracies = [], []
    for _ in range(STEPS):
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
        accuracies.append(float(workspace.FetchBlob("accuracy")))
    workspace.RunNetOnce(test.param_init_net)
    workspace.CreateNet(test.net, overwrite=True)
    tested = []
    for _ in range(4):
        workspace.RunNet(test.net.Proto().name)
        tested.append(float(workspace.FetchBlob("accuracy")))

    meta = pe.PredictorExportMeta(
        predict_net=deploy.net.Proto(), parameters=[str(b) for b in deploy.params], inputs=["data"], outputs=["softmax"]
    )
    saved = os.path.join(folder, "mnist_model.minidb")
    pe.save_to_db("minidb", saved, meta)
    workspace.ResetWorkspace(folder)
    images, _ = _digits(8, 5)
    workspace.FeedBlob("data", images.astype(np.float32) / 256)
    workspace.RunNet(pe.prepare_prediction_net(saved, "minidb"))
    predicted = workspace.FetchBlob("softmax")
    figures = {"losses": losses, "train": accuracies, "test": tested, "predictions": predicted.ravel().tolist()}
    return {**figures, "digits": predicted.argmax(1).tolist()}


def _random_images(shape: Tuple[int, ...], classes: int, steps: int) -> Batches:
    random = np.random.RandomState(3)
    for _ in range(steps):
        data = random.standard_normal(shape).astype(np.float32)
        yield {"data": data, "label": random.randint(0, classes, shape[0]).astype(np.int32)}


def resnet(_: str) -> Figures:
    """Train the residual net for images of CIFAR's size of models/resnet.py, on random data.

    The rate is small: batch normalization of random features amplifies rounding errors from step to step, so that at a
    rate of 0.001 real Caffe2 itself, started from parameters that differ by 1e-7, has other losses after four steps.
    """
    workspace, model_helper = caffe2("workspace"), caffe2("model_helper")
    optimizer, models = caffe2("optimizer"), caffe2("models.resnet")
    model = model_helper.ModelHelper(name="resnet", arg_scope={"order": "NCHW"})
    softmax = models.create_resnet_32x32(model, "data", 3, num_groups=3, num_labels=10)
    loss = model.AveragedLoss(model.LabelCrossEntropy([softmax, "label"], "xent"), "loss")
    model.AddGradientOperators([loss])
    optimizer.build_multi_precision_sgd(model, 1e-5, momentum=0.9, nesterov=1, policy="fixed")
    shape = (8, 3, 32, 32)
    workspace.RunNetOnce(model.param_init_net)
    feed_parameters(model.GetParams())
    for name, value in next(_random_images(shape, 10, 1)).items():
        workspace.FeedBlob(name, value)
    workspace.CreateNet(model.net)
    return {"losses": train(model.net, "loss", _random_images(shape, 10, STEPS))}


def convnets(_: str) -> Figures:
    """Return losses of two steps, and norms of gradients, of the nets of convnet_benchmarks.py."""
    workspace, benchmarks = caffe2("workspace"), caffe2("convnet_benchmarks")
    figures = {}
    for name in ("MLP", "AlexNet", "Inception"):
        workspace.ResetWorkspace()
        model, size = getattr(benchmarks, name)("NCHW", None)
        model.AddGradientOperators(["loss"])
        benchmarks.AddParameterUpdate(model)
        shape = (1, size) if name == "MLP" else (1, 3, size, size)
        workspace.RunNetOnce(model.param_init_net)
        feed_parameters(model.params)
        for blob, value in next(_random_images(shape, 1000, 1)).items():
            workspace.FeedBlob(blob, value)
        workspace.CreateNet(model.net)
        losses = train(model.net, "loss", _random_images(shape, 1000, 2))
        gradients = norms([model.param_to_grad[param] for param in model.params][:6])
        figures[name] = {"losses": losses, "gradients": list(gradients.values())}
    return figures
