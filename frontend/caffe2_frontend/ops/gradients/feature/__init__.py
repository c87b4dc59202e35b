"""Converters of the gradients of features and embedding tables."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.gradients.feature import merge, sparse, tensor_train

FAMILIES: tuple[Family, ...] = (merge.family, sparse.family, tensor_train.family)
