"""Operators of real Caffe2 that no conversion can express, with the reasons that diagnostics give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_QUEUE = "it moves blobs through a queue, which is not a tensor"
_DATABASE = "it reads or writes a database, a file or a stream"
_RECORD = "records and cursors over them are not tensors"
_MAP = "a map is not a tensor"
_ATOMIC = "it is a variable that threads of one process share"
_COUNTER = "a counter is not a tensor; plans that count are converted as a whole"
_NETWORK = "it communicates with other processes"
_STATISTICS = "it counts in a registry of the whole process"
_CLOCK = "it reads a clock"
_STATE = "it keeps a state from run to run that is not an output"
_CODE = "it runs code that is not in the net"
_PACKED = "the packed matrix is not a tensor"
_ABORT = "its only effect is to abort the run"
_MESSAGE = "its output is a serialized message"
_OTHER_DEVICES = "real Caffe2 supports it on other devices only, so the conversion could not be verified"
_FAILS = "real Caffe2's kernel for it computes nothing and fails"

_TYPES: Final[Mapping[str, str]] = {
    _QUEUE: "CreateBlobsQueue CloseBlobsQueue EnqueueBlobs DequeueBlobs SafeEnqueueBlobs SafeDequeueBlobs "
    "WeightedSampleDequeueBlobs CreateBlobsQueueDB CreateRebatchingQueue CloseRebatchingQueue EnqueueRebatchingQueue "
    "DequeueRebatchingQueue CreateTensorVector ConcatTensorVector CollectTensor TensorVectorSize",
    _DATABASE: "CreateDB Load Save Checkpoint Snapshot DBExists TensorProtosDBInput CreateTextFileReader "
    "TextFileReaderRead ImageInput VideoInput",
    _RECORD: "PackRecords UnPackRecords CreateTreeCursor ResetCursor GetCursorOffset ReadNextBatch ReadRandomBatch "
    "CheckDatasetConsistency ComputeOffset SortAndShuffle AtomicAppend",
    _MAP: "CreateMap KeyValueToMap MapToKeyValue",
    _ATOMIC: "AtomicFetchAdd AtomicFetchAdd64 CreateAtomicBool ConditionalSetAtomicBool CheckAtomicBool",
    _COUNTER: "CreateCounter ResetCounter CountDown CountUp CheckCounterDone RetrieveCount",
    _NETWORK: "Allgather Allreduce Barrier Broadcast CreateCommonWorld CloneCommonWorld DestroyCommonWorld Reduce "
    "ReduceScatter SendTensor ReceiveTensor FileStoreHandlerCreate StoreAdd StoreGet StoreSet StoreWait "
    "NCCLReduceScatter RedisStoreHandlerCreate",
    _STATISTICS: "StatRegistryCreate StatRegistryExport StatRegistryUpdate AveragePut IncrementPut StdDevPut",
    _CLOCK: "TimerBegin TimerEnd TimerGet TimerGetAndEnd WallClockTime GetGPUMemoryUsage",
    _STATE: "ReservoirSampling LastNWindowCollector FeedBlob Free GetAllBlobNames RecurrentNetworkBlobFetcher",
    _CODE: "Python PythonGradient PythonDLPack PythonDLPackGradient Onnxifi TensorRT",
    _PACKED: "FbFCPacked FbGemmPack FbGemmPackTranspose",
    _ABORT: "Assert Crash Fail LogFatal ThrowChildThreadException ThrowException",
    _MESSAGE: "HuffmanTreeHierarchy",
    _OTHER_DEVICES: "FP16MomentumSGDUpdate FP32MomentumSGDUpdate MaxPoolWithIndex Recurrent RecurrentParamGet "
    "RecurrentParamSet SparseLengthsMax",
    _FAILS: "TTLinearGradient",
}
_REASONS: Final[Mapping[str, str]] = {op_type: reason for reason, types in _TYPES.items() for op_type in types.split()}


def unsupported_reasons() -> Mapping[str, str]:
    """Return the operators that cannot be converted, each with its reason."""
    return _REASONS
