"""Read and write models. The format of a file is detected by its content, never by its name."""

from caffe2_bridge.files.loader import load, load_init_net, load_plan
from caffe2_bridge.files.saver import FORMATS, save

__all__ = ["FORMATS", "load", "load_init_net", "load_plan", "save"]
