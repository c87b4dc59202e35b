"""Read and write models. The format of a file is detected by its content, never by its name."""

from caffe2_bridge.files.loader import load, load_init_net, load_plan
from caffe2_bridge.files.saver import FORMATS, save
from caffe2_bridge.files.weights import WEIGHT_FORMATS, SavedWeights, load_weights, save_weights

__all__ = [
    "FORMATS", "WEIGHT_FORMATS", "SavedWeights", "load", "load_init_net", "load_plan", "load_weights", "save",
    "save_weights",
]  # fmt: skip
