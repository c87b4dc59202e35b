"""protodb: a file with one TensorProtos message; the keys are the names of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from google.protobuf.message import DecodeError

from caffe2_backend.databases.database import Cursor, Database, DatabaseError, LazyRecord, Mode, StreamCursor
from caffe2_bridge.files.saver import replace_file
from caffe2_bridge.proto.caffe2_pb2 import TensorProto, TensorProtos
from caffe2_bridge.regular_file import read_regular


class ProtoDatabase(Database):
    """A protodb database; it is written when it is closed."""

    def _open(self) -> None:
        self._tensors = TensorProtos()
        if self.mode is not Mode.NEW:
            try:
                self._tensors.ParseFromString(read_regular(self.path))
            except DecodeError:
                raise DatabaseError(f"database {self.path} is not a TensorProtos message") from None
        self._names = {tensor.name for tensor in self._tensors.protos}

    def _cursor(self) -> Cursor:
        return StreamCursor(self._records)

    def _records(self) -> Iterator[LazyRecord]:
        for tensor in self._tensors.protos:
            yield tensor.name.encode(), tensor.SerializeToString

    def _write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        added = [self._tensor(key, value) for key, value in records]
        self._tensors.protos.extend(added)

    def _tensor(self, key: bytes, value: bytes) -> TensorProto:
        name = key.decode("utf-8", "replace")
        if name in self._names:
            raise DatabaseError(f"database {self.path}: the key {name!r} exists already")
        try:
            tensor = TensorProto.FromString(value)
        except DecodeError:
            raise DatabaseError(f"database {self.path}: the value of {name!r} is not a TensorProto message") from None
        if tensor.name != name:
            raise DatabaseError(f"database {self.path}: the key {name!r} is not the tensor's name, {tensor.name!r}")
        self._names.add(name)
        return tensor

    def _close(self) -> None:
        if self.mode is not Mode.READ:
            replace_file(self.path, self._tensors.SerializeToString())

    def __del__(self) -> None:
        with suppress(DatabaseError):  # Python would print it, and go on
            self.close()
