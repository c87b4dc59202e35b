"""Run Caffe2's own test modules on this project's runtime and in real Caffe2: ``scripts/caffe2-tests``."""
