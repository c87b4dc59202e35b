from caffe2_validation import *  # noqa: F403 - the same names
