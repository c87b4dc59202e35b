"""Converters of the gradients of features and embedding tables."""

from caffe2_frontend.lowering.family import Family

FAMILIES: tuple[Family, ...] = ()
