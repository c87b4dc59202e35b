"""What can be chosen about the sessions of onnxruntime, with the defaults and their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Optimization = Literal["none", "basic", "extended", "all"]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """How nets are run. Immutable: a net that has its sessions keeps them.

    Attributes:
        threads: threads within an operator; None leaves it to onnxruntime, which takes one a core.
        parallel_operators: threads that run independent operators at a time; 1 runs them in order.
        optimization: how far onnxruntime rewrites the graph.
        arena: whether memory on the host is kept for the next run. Faster, and never given back.
        memory_patterns: whether the memory of a run is planned from the shapes of a run before it. onnxruntime keeps a
            plan for every shape it ever saw, which grows without end where shapes change: off.
        spinning: whether idle threads wait busily for work; off, a process that waits takes no time of a core.
        cuda: options of onnxruntime's CUDA provider, by its own names, such as ``{"gpu_mem_limit": "2147483648"}``.
        cuda_graphs: whether runs of one shape are recorded once and replayed as a CUDA graph. Every shape then keeps
            its buffers on the GPU: for few shapes. Control flow cannot be recorded.
        providers: other providers to try first, each a name or a pair of name and options, such as
            ``"TensorrtExecutionProvider"``; what they leave falls to the device's own.
        stand_in: a device that runs what is meant for another, such as ``{"cuda:0": "cpu"}``: plans are made and
            followed as with the real one, to test them without it.
        verbose: whether onnxruntime's warnings are shown.
        disabled_optimizers: names of onnxruntime's graph optimizers, or rules of them, that are left out.
        entries: of onnxruntime's session configuration, by its own keys.
        optimized: a file to write the model to as onnxruntime has rewritten it; empty for none.
        silent: whether onnxruntime's errors are not shown beside being raised.
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
    silent: bool = False


DEFAULTS = Choices()
