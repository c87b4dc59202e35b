"""Converters of the gradients of neural-network layers, losses and regions."""

from caffe2_frontend.lowering.family import Family

FAMILIES: tuple[Family, ...] = ()
