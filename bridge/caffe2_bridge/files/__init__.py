"""Reading and writing models: what a file is, its content says, never its name."""

from caffe2_bridge.files.loader import load, load_init_net, load_plan
from caffe2_bridge.files.saver import FORMATS, save

__all__ = ["FORMATS", "load", "load_init_net", "load_plan", "save"]
