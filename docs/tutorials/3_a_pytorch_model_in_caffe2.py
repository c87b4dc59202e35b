# %% [markdown]
# # Import a PyTorch model into an old Caffe2 service
#
# A service that runs Caffe2 nets is to serve a new model, which PyTorch trained. PyTorch exports ONNX, and this project
# makes a net and an init net of it that real Caffe2 loads: operators that it has always had, and no others.

# %%
import logging
import warnings

import numpy as np
import torch

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
torch.manual_seed(0)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
            torch.nn.BatchNorm2d(8),
            torch.nn.SiLU(),
            torch.nn.AdaptiveAvgPool2d(1),
        )
        self.head = torch.nn.Linear(8, 4)

    def forward(self, image):
        return torch.softmax(self.head(self.body(image).flatten(1)), dim=1)


model = Classifier().eval()
image = torch.rand(2, 3, 32, 32)
torch.onnx.export(
    model, (image,), "classifier.onnx", input_names=["image"], output_names=["odds"],
    dynamic_shapes=({0: torch.export.Dim("N")},), dynamo=True, verbose=False,
)  # fmt: skip

# %% [markdown]
# `to_netdef` reports everything that Caffe2 has no exact combination for, at once; here nothing.

# %%
import caffe2_bridge as c2
from caffe2_backend import Workspace, to_netdef

imported = to_netdef("classifier.onnx")
print([op.type for op in imported.predict_net.op])
c2.save(imported, "classifier")  # predict_net.pb and init_net.pb

# %% [markdown]
# The net computes what PyTorch computes. `Workspace` runs it here; the service loads the two files as ever:
# `workspace.RunNetOnce(init_net)`, `workspace.RunNet(predict_net)`.

# %%
nets = c2.load("classifier")
workspace = Workspace()
workspace.run_net_once(nets.init_net)
workspace.feed("image", image.numpy())
workspace.run_net_once(nets.predict_net)
with torch.no_grad():
    expected = model(image).numpy()
difference = np.abs(workspace.fetch("odds") - expected).max()
assert difference < 1e-5
print("largest difference", difference)

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 2.5))
for row, values in enumerate(expected):
    places = np.arange(len(values)) + 0.5 * row
    axes.bar(places - 0.1, values, width=0.2, color=f"C{row}", label=f"image {row}: PyTorch")
    axes.bar(places + 0.1, workspace.fetch("odds")[row], width=0.2, color=f"C{row}", alpha=0.5, label="Caffe2 net")
axes.set_xticks(np.arange(len(values)) + 0.25, [f"class {index}" for index in range(len(values))])
axes.legend(fontsize=7)
plt.show()

# %% [markdown]
# With real Caffe2 installed (`caffe2-bridge oracle install`), `caffe2-bridge validate classifier.onnx --other
# classifier --against onnxruntime-cpu --against caffe2` proves it there, too ([Validation](../validation.md)).
