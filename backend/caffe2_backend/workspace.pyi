from caffe2_compat.workspace import *  # noqa: F403 - the same names
