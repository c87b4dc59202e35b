"""data_parallel_model on replicas on the CPU, which compute what one device computes."""

from typing import Any, List

import numpy as np

from caffe2_tests.programs.harness import Figures, caffe2, feed_parameters

STEPS, ROWS = 12, 16


def data_parallel(_: str) -> Figures:
    """Return the losses and weights of one, two and four devices, with parameters of their own and shared ones."""
    figures = {}
    for devices in ([0], [0, 1], [0, 1, 2, 3]):
        for shared in (False, True):
            figures[f"{len(devices)} {'shared' if shared else 'copied'}"] = _trained(devices, shared=shared)
    return figures


def _trained(devices: List[int], *, shared: bool) -> Figures:
    brew, workspace, model_helper = (caffe2(name) for name in ("brew", "workspace", "model_helper"))
    data_parallel_model, optimizer = caffe2("data_parallel_model"), caffe2("optimizer")

    def add_input(model: Any) -> None:
        del model

    def add_forward(model: Any, loss_scale: float) -> List[Any]:
        hidden = brew.relu(model, brew.fc(model, "data", "fc1", 8, 16), "relu1")
        scores = brew.fc(model, hidden, "fc2", 16, 4)
        _, loss = model.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
        return [model.Scale(loss, "scaled_loss", scale=loss_scale)]

    def add_optimizer(model: Any) -> Any:
        return optimizer.build_sgd(model, 0.1, policy="fixed", momentum=0.9)

    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name=f"replicas{len(devices)}")
    data_parallel_model.Parallelize(
        model,
        input_builder_fun=add_input,
        forward_pass_builder_fun=add_forward,
        optimizer_builder_fun=add_optimizer,
        devices=devices,
        cpu_device=True,
        shared_model=shared,
    )
    random = np.random.RandomState(7)
    losses: List[float] = []
    for step in range(STEPS):
        data = random.standard_normal((ROWS, 8)).astype(np.float32)
        labels = random.randint(0, 4, ROWS).astype(np.int32)
        rows = ROWS // len(devices)
        for device in devices:
            part = slice(device * rows, device * rows + rows)
            workspace.FeedBlob(f"cpu_{device}/data", data[part])
            workspace.FeedBlob(f"cpu_{device}/label", labels[part])
        if step == 0:
            data_parallel_model.RunInitNet(model)
            feed_parameters(model.GetParams())
            workspace.CreateNet(model.net, overwrite=True)
        workspace.RunNet(model.net)
        losses.append(float(sum(workspace.FetchBlob(f"cpu_{device}/scaled_loss") for device in devices)))
    return {"losses": losses, "weights": workspace.FetchBlob("cpu_0/fc2_w").ravel().tolist()}
