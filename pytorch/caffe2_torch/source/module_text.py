"""Put the text of model.py and check.py together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from caffe2_torch.functions.int8 import Quantized
from caffe2_torch.source.library import copied_functions
from caffe2_torch.source.module_state import ModuleState
from caffe2_torch.source.names import exact, literal, quoted
from caffe2_torch.source.text import broken, indented

_HEAD = '''"""The Caffe2 net {net} as a PyTorch module, written by caffe2-bridge.

``load()`` returns it with the weights of model.safetensors, in evaluation; check.py compares it with recorded outputs.
"""

import json
{math}from pathlib import Path
{typing}
import torch
import torch.nn.functional as F
from torch import nn
'''
_LOAD = '''
def load(path=Path(__file__).with_name("model.safetensors")):
    """Return the module with the weights of a .safetensors file, in evaluation."""
    module = {name}()
    module.load_state_dict(read_safetensors(path))
    return module.eval()


def read_safetensors(path):
    """Return the tensors of a .safetensors file by name: a header in JSON, and the values after it."""
    data = bytearray(Path(path).read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    dtypes = {{
        "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "I64": torch.int64, "I32": torch.int32,
        "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    }}
    tensors = {{}}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        first, last = (start + offset for offset in entry["data_offsets"])
        dtype = dtypes[entry["dtype"]]
        values = torch.frombuffer(data[first:last], dtype=dtype) if last > first else torch.empty(0, dtype=dtype)
        tensors[name] = values.reshape(entry["shape"])
    return tensors
'''
CHECK = '''"""Compare the module in model.py with the outputs in recorded.npz: ``python check.py``. Requires NumPy."""

import sys
from pathlib import Path

import numpy as np
import torch

from model import load

RTOL, ATOL = 1e-3, 1e-5  # the absolute tolerance is relative to the largest output, where that is above 1


def main():
    """Print the largest difference of each output; return 1 if one is too large."""
    recorded = np.load(Path(__file__).with_name("recorded.npz"))
    module = load()
    with torch.no_grad():
        results = module(*(torch.from_numpy(recorded[f"input_{i}"]) for i in range(len(module.inputs))))
    results = results if isinstance(results, tuple) else (results,)
    failed = False
    for index, (name, result) in enumerate(zip(module.outputs, results)):
        found, expected = result.numpy(), recorded[f"output_{index}"]
        if found.shape != expected.shape or found.dtype != expected.dtype:
            print(f"{name!a}: {found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}")
            failed = True
            continue
        finite = expected[np.isfinite(expected)]
        largest = max(1.0, np.abs(finite).max()) if finite.size else 1.0
        is_close = np.allclose(found, expected, RTOL, ATOL * largest, equal_nan=True)
        difference = np.abs(found.astype(np.float64) - expected)
        difference = difference[np.isfinite(difference)]
        print(f"{name!a}: {'ok' if is_close else 'DIFFERENT'}, largest difference {difference.max(initial=0):.3g}")
        failed |= not is_close
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
'''


def module_text(
    net: str,
    name: str,
    state: ModuleState,
    forward: Sequence[str],
    methods: Sequence[Sequence[str]],
    inputs: Mapping[str, tuple[str, torch.Tensor | Quantized]],
    outputs: Mapping[str, torch.Tensor | Quantized],
) -> str:
    """Return the text of model.py.

    Args:
        net: the name of the net.
        name: the name of the class.
        state: the attributes.
        forward: the statements of ``forward``.
        methods: the lines of the other methods.
        inputs: the variable and an example of each input, by blob.
        outputs: an example of each output, by blob.
    """
    copies = [*copied_functions(state.helpers)]
    used = "".join((*copies, *forward, *(line for method in methods for line in method)))
    lines = _HEAD.format(
        net=quoted(net),
        math="import math\n" if "math." in used else "",
        typing="from typing import NamedTuple\n" if "(NamedTuple)" in used else "",
    ).splitlines()
    for text in copies:
        lines += ["", "", *text.splitlines()]
    written = [*lines, "", "", f"class {name}(nn.Module):"]
    body = [f'"""The net {quoted(net)}.', "", "Names are those of the blobs, with _ for / and other characters."]
    body += ["", "Inputs (shapes are those of the recorded example):"]
    body += [f"    {quoted(blob)}: {_kind(value)}" for blob, (_, value) in inputs.items()] or ["    none"]
    body += ["", "Outputs:", *(f"    {quoted(blob)}: {_kind(value)}" for blob, value in outputs.items())]
    written += [*indented([*body, '"""']), ""]
    body = [f"inputs = {_names(inputs)}", f"outputs = {_names(outputs)}", ""]
    if state.lines:
        body += ["def __init__(self):", *indented(["super().__init__()", *state.lines]), ""]
    variables = ", ".join(["self", *(variable for variable, _ in inputs.values())])
    body += [f"def forward({variables}):", *indented(forward)]
    for method in methods:
        body += ["", *method]
    lines = [*written, *broken(indented(body)), "", *_LOAD.format(name=name).splitlines()]
    if state.blobs:
        lines += ["", "", "# The blob of each parameter, as the net names it.", "BLOBS = {"]
        lines += [f"    {literal(key)}: {literal(blob)}," for key, blob in state.blobs.items()]
        lines += ["}"]
    return "\n".join(lines) + "\n"


def _names(blobs: Mapping[str, object]) -> str:
    return f"({', '.join(map(literal, blobs))}{',' if len(blobs) == 1 else ''})"


def _kind(value: torch.Tensor | Quantized) -> str:
    if isinstance(value, Quantized):
        return f"{_kind(value.data)}, Int8 of scale {exact(value.scale)} and zero point {value.zero_point}"
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
