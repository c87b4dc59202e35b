"""TensorProtosDBInput: batches of the tensors in the records of a database."""

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError

from caffe2_backend.databases import DatabaseError
from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.storage.prefetching import next_batch
from caffe2_backend.runtime.host.storage.readers import HostReader
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files.blobs.messages import decode_tensor
from caffe2_bridge.proto.caffe2_pb2 import TensorProtos

family = HostFamily("database input")


def read_record(op: HostOp, reader: HostReader) -> bytes:
    """Return the value of a reader's next record. Raises RunError if it cannot be read."""
    with op.translating(DatabaseError):
        return reader.reader.read()[1]


def read_tensors(op: HostOp, content: bytes) -> TensorProtos:
    """Return the tensors of a record. Raises RunError if it is not a TensorProtos."""
    try:
        return TensorProtos.FromString(content)
    except DecodeError:
        raise op.error("a record of the database is not a TensorProtos") from None


@family.runs("TensorProtosDBInput")
def tensor_protos_db_input(op: HostOp) -> None:
    """TensorProtosDBInput(reader; batch_size=0) -> a tensor for each one of a record's.

    With a batch size the tensors of so many records, which have the same shape, are stacked.
    """
    for i, tensor in enumerate(next_batch(op, lambda: _read_batch(op))):
        op.set(i, tensor)


def _read_batch(op: HostOp) -> list[Array]:
    reader = op.object(0, HostReader)
    batch_size = op.args.integer("batch_size", default=0)
    if not batch_size:
        return _read_item(op, reader)
    items = [_read_item(op, reader) for _ in range(batch_size)]
    columns = list(zip(*items, strict=True))
    for name, column in zip(op.outputs, columns, strict=True):
        if any(item.shape != column[0].shape or item.dtype != column[0].dtype for item in column):
            raise op.error(f"the tensors of {name!r} differ in shape or type, so that they cannot be stacked")
    return [np.stack(column) for column in columns]


def _read_item(op: HostOp, reader: HostReader) -> list[Array]:
    protos = read_tensors(op, read_record(op, reader)).protos
    if len(protos) != len(op.outputs):
        raise op.error(f"a record has {len(protos)} tensors, and the operator {len(op.outputs)} outputs")
    try:
        return [decode_tensor(proto) for proto in protos]
    except NetFormatError as error:
        raise op.error(error.reason) from None
