from caffe2_compat.predictor_exporter import *  # noqa: F403 - the same names
