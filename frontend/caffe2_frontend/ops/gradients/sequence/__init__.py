"""Converters of the gradients of segments, lengths and recurrent units."""

from caffe2_frontend.lowering.family import Family

FAMILIES: tuple[Family, ...] = ()
