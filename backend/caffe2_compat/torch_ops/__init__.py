"""Caffe2's operators on torch tensors, ``torch.ops._caffe2``."""
