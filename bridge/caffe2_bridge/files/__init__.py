"""Reading and writing models: what a file is, its content says, never its name."""

from caffe2_bridge.files.load import load, load_init_net
from caffe2_bridge.files.save import save

__all__ = ["load", "load_init_net", "save"]
