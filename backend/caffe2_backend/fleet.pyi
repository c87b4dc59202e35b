from caffe2_fleet import *  # noqa: F403 - the same names
