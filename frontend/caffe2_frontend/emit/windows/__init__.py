"""Windows over images: kernels, strides and pads; their sums and maxima; convolutions, regions and resampling."""
