"""Gradients of pooling, resizing and regions of interest."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family

family = Family("pooling")

family.pattern(
    "X0 Y0 dY0 -> dX0",
    "AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D", "LpPool",
    "MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D",
)  # fmt: skip
family.pattern("X0 dY0 Y1 -> dX0", "MaxPoolWithIndex")
family.pattern("dY0 X0 X1? -> dX0", "ResizeNearest", "UpsampleBilinear")
family.pattern("dY0 X0 -> dX0", "ResizeNearest3D")
family.pattern("X0 X1 dY0 -> dX0", "RoIAlign", "RoIAlignRotated", "SampleAs", "SpatialNarrowAs")
family.pattern("X0 X1 Y1 dY0 -> dX0", "PSRoIPool", "RoIPool", "RoIPoolF")
family.pattern("X0 dY0 -> dX0", "IntegralImage", "UpsampleNearest")
family.pattern("dY0 -> dX0", BatchToSpace="SpaceToBatch", SpaceToBatch="BatchToSpace")
