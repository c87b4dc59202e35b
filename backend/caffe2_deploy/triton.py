"""The configuration of a model for NVIDIA Triton: ``config.pbtxt``, text of its ``ModelConfig``."""

from __future__ import annotations

import json
from typing import Final

from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import OptionError
from caffe2_deploy.contents import Contents, Port

# As Triton's model_config.proto names the element types.
TYPES: Final = {
    "bool": "TYPE_BOOL", "uint8": "TYPE_UINT8", "uint16": "TYPE_UINT16", "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64", "int8": "TYPE_INT8", "int16": "TYPE_INT16", "int32": "TYPE_INT32", "int64": "TYPE_INT64",
    "float16": "TYPE_FP16", "float32": "TYPE_FP32", "float64": "TYPE_FP64", "string": "TYPE_STRING",
}  # fmt: skip
_MAX_BATCH: Final = 64


def configuration(contents: Contents) -> str:
    """Return the configuration: named inputs and outputs, batching along a common first dim, and a warm-up.

    Raises OptionError if an element type is one that Triton does not have.
    """
    batched = contents.batch is not None
    parts = [
        f"name: {json.dumps(contents.name)}",
        'platform: "onnxruntime_onnx"',
        f"max_batch_size: {_MAX_BATCH if batched else 0}",
        *(_port("input", port, batched=batched) for port in contents.inputs),
        *(_port("output", port, batched=batched) for port in contents.outputs),
    ]
    if batched:
        parts.append("dynamic_batching { }")
    parts.append(_warmup(contents, batched=batched))
    return "\n".join(parts) + "\n"


def warmup_files(contents: Contents) -> dict[str, bytes]:
    """Return the values of the warm-up's inputs, by name in the folder ``warmup``."""
    return {str(index): _raw(contents.sample[port.name]) for index, port in enumerate(contents.inputs)}


def _raw(array: Array) -> bytes:
    """Return values little endian; texts each after its length in 4 bytes."""
    if array.dtype.kind not in "OSU":
        return array.astype(array.dtype.newbyteorder("<")).tobytes()
    texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.ravel().tolist()]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def _type(port: Port) -> str:
    if port.dtype not in TYPES:
        raise OptionError(f"Triton has no {port.dtype} tensors, as {port.name!r} is")
    return TYPES[port.dtype]


def _port(kind: str, port: Port, *, batched: bool) -> str:
    """Return an input or output; dims that vary are -1, and the dim of the batch is left out."""
    dims = ", ".join(str(dim) if isinstance(dim, int) else "-1" for dim in port.dims[batched:])
    return f"{kind} [ {{ name: {json.dumps(port.name)} data_type: {_type(port)} dims: [ {dims} ] }} ]"


def _warmup(contents: Contents, *, batched: bool) -> str:
    """Return a request that Triton runs before the first one of a client: the sample, in files of raw values."""
    sizes = {name: list(array.shape) for name, array in contents.sample.items()}
    inputs = [
        f"inputs {{ key: {json.dumps(port.name)} value {{ data_type: {_type(port)} "
        f"dims: [ {', '.join(map(str, sizes[port.name][batched:]))} ] "
        f'input_data_file: "{index}" }} }}'
        for index, port in enumerate(contents.inputs)
    ]
    size = f"batch_size: {next(iter(sizes.values()))[0]} " if batched else ""
    return f'model_warmup [ {{ name: "sample" {size}{" ".join(inputs)} }} ]'
