"""Whole models of the tests: made here, or recorded from real Caffe2."""
