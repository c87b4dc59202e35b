"""Operators through which no gradient flows: fills, counts, quantization, queues and readers."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family

family = Family("constant")

family.constant(
    # fills
    "ConstantFill", "DiagonalFill", "Float16ConstantFill", "Float16UniformFill", "GaussianFill",
    "GivenTensorBoolFill", "GivenTensorByteStringToUInt8Fill", "GivenTensorDoubleFill", "GivenTensorFill",
    "GivenTensorInt16Fill", "GivenTensorInt64Fill", "GivenTensorIntFill", "GivenTensorStringFill",
    "LengthsRangeFill", "MSRAFill", "Range", "RangeFill", "UniformFill", "UniformIntFill", "UniqueUniformFill",
    "XavierFill",
    # to and from few bits
    "FloatToFused2BitFakeRowwiseQuantized", "FloatToFused2BitRowwiseQuantized",
    "FloatToFused4BitFakeRowwiseQuantized", "FloatToFused4BitRowwiseQuantized", "FloatToFused8BitRowwiseQuantized",
    "FloatToFused8BitRowwiseQuantizedHalfScaleBias", "FloatToFusedRandRowwiseQuantized",
    "FloatToRowwiseQuantized8Bits", "Fused2BitRowwiseQuantizedToFloat", "Fused2BitRowwiseQuantizedToHalf",
    "Fused4BitRowwiseQuantizedToFloat", "Fused4BitRowwiseQuantizedToHalf",
    "Fused8BitRowwiseQuantizedHalfScaleBiasToFloat", "Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat",
    "Fused8BitRowwiseQuantizedToFloat", "Fused8BitRowwiseQuantizedToHalfFloat", "FusedRandRowwiseQuantizedToFloat",
    "HalfFloatToFused8BitRowwiseQuantized", "HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias",
    "HalfToFused2BitFakeRowwiseQuantized", "HalfToFused2BitRowwiseQuantized", "HalfToFused4BitFakeRowwiseQuantized",
    "HalfToFused4BitRowwiseQuantized", "Rowwise8BitQuantizedToFloat", "SparseLengthsMean2BitRowwiseSparse",
    "SparseLengthsMean4BitRowwiseSparse", "SparseLengthsMean8BitRowwiseSparse", "SparseLengthsMean8BitsRowwise",
    "SparseLengthsMeanFused2BitRowwise", "SparseLengthsMeanFused4BitRowwise", "SparseLengthsMeanFused8BitRowwise",
    "SparseLengthsSum2BitRowwiseSparse", "SparseLengthsSum4BitRowwiseSparse", "SparseLengthsSum8BitRowwiseSparse",
    "SparseLengthsSum8BitsRowwise", "SparseLengthsSumFused2BitRowwise", "SparseLengthsSumFused4BitRowwise",
    "SparseLengthsSumFused8BitRowwise", "SparseLengthsWeightedMean8BitsRowwise",
    "SparseLengthsWeightedSum2BitRowwiseSparse", "SparseLengthsWeightedSum4BitRowwiseSparse",
    "SparseLengthsWeightedSum8BitRowwiseSparse", "SparseLengthsWeightedSum8BitsRowwise",
    "SparseLengthsWeightedSumFused2BitRowwise", "SparseLengthsWeightedSumFused4BitRowwise",
    "SparseLengthsWeightedSumFused8BitRowwise",
    # queues, readers, counters and tables
    "AtomicIter", "CloseBlobsQueue", "CloseRebatchingQueue", "CreateBlobsQueue", "CreateDB",
    "CreateRebatchingQueue", "CreateTextFileReader", "DequeueBlobs", "DequeueRebatchingQueue", "EnqueueBlobs",
    "EnqueueRebatchingQueue", "IntIndexCreate", "Iter", "Load", "LongIndexCreate", "SafeDequeueBlobs",
    "SafeEnqueueBlobs", "StringIndexCreate", "TensorProtosDBInput", "TextFileReaderRead",
    "WeightedSampleDequeueBlobs",
    # codes, counts and choices
    "BatchBucketize", "BatchOneHot", "BisectPercentile", "BooleanMaskLengths", "BooleanUnmask", "Conditional",
    "DenseVectorToIdList", "EnsureCPUOutput", "GatherRangesToDense", "InferenceLSTM", "LearningRate",
    "LearningRateAdaption", "LengthsPad", "LengthsPartition", "MergeIdLists", "NGramFromCategorical", "OneHot",
    "Partition", "Percentile", "SegmentOneHot", "Size", "SparseDropoutWithReplacement",
    "SparseLengthsSumSparseLookup", "StopGradient", "StumpFunc", "StumpFuncIndex", "SwapBestPath", "ViterbiPath",
)  # fmt: skip
