"""Options of onnxruntime sessions, with the reasons for the defaults."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from caffe2_backend.runtime.devices.device_names import device_name
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.diagnostics.check_options import check_options

Optimization = Literal["none", "basic", "extended", "all"]


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """How nets are run. A net that has been converted keeps the options that it was converted with.

    Attributes:
        threads: threads within an operator; None leaves it to onnxruntime, which takes one per core, but for nets whose
            inputs take less than 256 KB, which run in one.
        parallel_operators: threads that run independent operators at the same time; 1 runs them in order.
        optimization: level of onnxruntime's graph optimizations.
        arena: whether host memory is kept for the next run. Faster, but memory is never returned to the system.
        memory_patterns: whether the memory of a run is planned from the shapes of earlier runs. onnxruntime keeps a
            plan for every combination of shapes, which grows without bound if shapes change; hence off. Small nets on
            the host that were converted for one combination have one plan, and use it in any case.
        spinning: whether idle threads wait busily for work; if not, a waiting process takes no processor time.
        cuda: options of onnxruntime's CUDA provider, by its own names, such as ``{"gpu_mem_limit": "2147483648"}``.
        cuda_graphs: whether runs of one combination of shapes are recorded once and replayed as a CUDA graph. Each
            combination is converted, up to 64 steps of a recurrent net unrolled, and keeps its buffers on the GPU, so
            use it for few shapes. A model with control flow, or of which something runs on the host, runs without, with
            a warning.
        providers: execution providers to try first, each a name or a pair of name and options, such as
            ``"TensorrtExecutionProvider"``; operators that they do not support run on the device's own provider.
        stand_in: a device that runs operators of another, such as ``{"cuda:0": "cpu"}``, to test plans for devices
            that are not installed.
        verbose: whether onnxruntime's warnings are shown.
        disabled_optimizers: names of onnxruntime's graph optimizers, or of their rules, to disable.
        entries: of onnxruntime's session configuration, by its own keys.
        optimized: path to which onnxruntime writes the optimized model; empty for none.
        silent: whether onnxruntime's errors, which are raised, are not printed as well.
        check_computed: whether a Workspace checks ids, labels and lengths that a net computes, after each run, and not
            only those that it is given; steps are then made one by one.
        loops: whether lookups in tables and updates of their rows are compiled loops, where numba is installed; if not,
            onnxruntime runs the whole net, as it runs an exported model.

    Raises OptionError if an option has a value of another type, or ``threads`` or ``parallel_operators`` is below 1.
    """

    threads: int | None = None
    parallel_operators: int = 1
    optimization: Optimization = "all"
    arena: bool = True
    memory_patterns: bool = False
    spinning: bool = True
    cuda: Mapping[str, str] = field(default_factory=dict)
    cuda_graphs: bool = False
    providers: tuple[str | tuple[str, Mapping[str, Any]], ...] = ()
    stand_in: Mapping[str, str] = field(default_factory=dict)
    verbose: bool = False
    disabled_optimizers: tuple[str, ...] = ()
    entries: Mapping[str, str] = field(default_factory=dict)
    optimized: str = ""
    silent: bool = True
    check_computed: bool = False
    loops: bool = True

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("threads", "parallel_operators"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise OptionError(f"{name} must be at least 1, not {count}")
        for device in itertools.chain(*self.stand_in.items()):
            device_name(device)
        for key, value in self.entries.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise OptionError(f"entries must have texts as keys and values, not {key!r}: {value!r}")


DEFAULTS = SessionOptions()
