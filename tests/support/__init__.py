"""Helpers of the tests: nets, faults, interpreters and the workers that real Caffe2's own Python runs."""
