"""The command line, ``caffe2-bridge``."""
