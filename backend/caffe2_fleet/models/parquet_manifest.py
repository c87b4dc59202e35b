"""Manifests as Parquet tables: a row a model, a column a key; ``inputs`` is a map of texts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.storage import AnyPath
from caffe2_fleet.arrow import import_arrow
from caffe2_frontend.interop.files.onnx_files import replacing


def read(path: AnyPath) -> dict[str, Any]:
    """Read a manifest as the data of a TOML file. Raises NetFormatError, OSError, and RunError without PyArrow."""
    arrow = import_arrow()
    try:
        rows = arrow.parquet.read_table(os.fspath(path)).to_pylist(maps_as_pydicts="strict")
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError, KeyError) as error:
        raise NetFormatError(f"the manifest cannot be read: {error}", str(path)) from None
    return {"model": [{key: value for key, value in row.items() if value not in (None, "", {}, [])} for row in rows]}


def write(entries: Sequence[Mapping[str, Any]], path: AnyPath) -> None:
    """Write entries of a manifest. Raises OSError, and RunError without PyArrow."""
    arrow = import_arrow()
    text, number = arrow.string(), arrow.float64()
    schema = arrow.schema(
        [
            ("path", text), ("name", text), ("init", text), ("inputs", arrow.map_(text, text)),
            ("outputs", arrow.list_(text)), ("opset", arrow.int32()), ("rtol", number), ("atol", number),
            ("recurrent", text), ("owner", text),
        ]
    )  # fmt: skip
    rows = [{name: _column(entry.get(name)) for name in schema.names} for entry in entries]
    with replacing(path) as file:
        arrow.parquet.write_table(arrow.Table.from_pylist(rows, schema), file)


def _column(value: Any) -> Any:
    return list(value.items()) if isinstance(value, Mapping) else value
