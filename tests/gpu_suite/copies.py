"""Copies between host and GPU inside a net, counted in a profile of onnxruntime."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.sessions.onnxruntime_library import missing_cuda, onnxruntime

_COPIES: Final = ("MemcpyFromHost", "MemcpyToHost")
_PROVIDERS: Final = ("CUDAExecutionProvider", "CPUExecutionProvider")


def count_copies(events: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return how often a profile's run copied to and from the host, by ``MemcpyToHost`` and ``MemcpyFromHost``.

    A copy inside a loop counts once an iteration. Of the events of a node, that of its kernel counts alone.
    """
    kinds = (str(event.get("args", {}).get("op_name", "")) for event in events if _is_kernel(event))
    return Counter(kind for kind in kinds if kind in _COPIES)


def host_operators(events: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return the operators that ran on the host, by type, without those that compute shapes (``Shape``)."""
    arguments = (event["args"] for event in events if _is_kernel(event))
    return Counter(str(found["op_name"]) for found in arguments if found.get("provider") == "CPUExecutionProvider")


def profile(model: bytes, inputs: Mapping[str, np.ndarray[Any, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return the events of a model's run on the GPU, after a first one that does not count; inputs are on the GPU."""
    assert not missing_cuda()  # loads the libraries
    library = onnxruntime()
    warm = library.InferenceSession(model, _options(library, None), providers=list(_PROVIDERS))
    _run(library, warm, inputs)
    session = library.InferenceSession(model, _options(library, folder / "profile"), providers=list(_PROVIDERS))
    _run(library, session, inputs)
    events: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text())
    return events


def _is_kernel(event: Mapping[str, Any]) -> bool:
    return event.get("cat") == "Node" and str(event.get("name", "")).endswith("_kernel_time")


def _options(library: Any, prefix: Path | None) -> Any:
    options = library.SessionOptions()
    options.log_severity_level = 3
    if prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(prefix)
    return options


def _run(library: Any, session: Any, inputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    binding = session.io_binding()
    for value in session.get_inputs():
        array = np.ascontiguousarray(inputs[value.name])
        if array.dtype == object:
            binding.bind_cpu_input(value.name, array)
        else:
            binding.bind_ortvalue_input(value.name, library.OrtValue.ortvalue_from_numpy(array, "cuda", 0))
    for value in session.get_outputs():
        binding.bind_output(value.name, "cuda", 0)
    session.run_with_iobinding(binding)
