"""Graph optimizations of onnxruntime that make outputs disagree, if no operator alone does."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import onnx

from caffe2_backend.child_python import isolated_python
from caffe2_backend.runtime.sessions.model_session import is_small
from caffe2_backend.runtime.sessions.onnxruntime_library import OPTIMIZATION_LEVELS
from caffe2_bridge.diagnostics import RunError
from caffe2_frontend import save_onnx
from caffe2_frontend.interop.bodies import proto_nodes
from caffe2_validation.inputs.specs import Case
from caffe2_validation.report import OptimizationFault
from caffe2_validation.runtimes import Value
from caffe2_validation.runtimes.base import onnx_model
from caffe2_validation.runtimes.onnx_runtime import OnnxRuntime
from caffe2_validation.sides import Side

LEVELS: Final = tuple(OPTIMIZATION_LEVELS)
# The rules of onnxruntime's rule-based optimizers, by the names under which they can be disabled.
_RULES: Final = (
    "CastChainElimination", "CastElimination", "ClipQuantRewrite", "ConvAddFusion", "ConvBNFusion", "ConvMulFusion",
    "DivMulFusion", "EliminateDropout", "EliminateIdentity", "EliminateSlice", "ExpandElimination", "FuseReluClip",
    "GemmSumFusion", "GemmTransposeFusion", "LabelEncoderFusion", "MatmulBNFusion", "NoopElimination", "NotWhereFusion",
    "PadFusion", "PreShapeNodeElimination", "ReluQuantRewrite", "UnsqueezeElimination",
)  # fmt: skip
_RULE_BASED: Final = "RuleBasedTransformer"
_MODIFIED: Final = re.compile(r"GraphTransformer (\S+) modified: 1")
_SECONDS: Final = 600
# onnxruntime reports which optimizers changed a graph in its log only, on the process's own stderr.
_LOG: Final = """\
import json, sys
import onnxruntime
path, level, entries = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
options = onnxruntime.SessionOptions()
options.log_severity_level = 1
options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
for key, value in entries.items():
    options.add_session_config_entry(key, value)
onnxruntime.InferenceSession(path, options, providers=json.loads(sys.argv[4]))
"""

Agrees = Callable[[Mapping[str, Value]], bool]


def find_optimization(side: Side, case: Case, agrees: Agrees) -> OptimizationFault | None:
    """Find the lowest level of optimization at which the outputs of a side are wrong, and the optimizers at fault.

    Args:
        side: the side.
        case: the inputs.
        agrees: whether outputs are right.

    Returns None if the side is not onnxruntime, or its outputs are right after all. Raises RunError.
    """
    runtime = side.runtime
    if not isinstance(runtime, OnnxRuntime):
        return None
    most = LEVELS.index(runtime.options.optimization)

    def right(**options: Any) -> bool:
        return agrees(runtime.but(**options).load(side.model).run(case.inputs))

    first = next((k for k, level in enumerate(LEVELS[: most + 1]) if not right(optimization=level)), None)
    if first is None:
        return None
    if first == 0:
        return OptimizationFault(case.name, side.label, LEVELS[0])
    optimizers = tuple(_guilty(runtime, onnx_model(side.model), lambda name: right(disabled_optimizers=(name,))))
    nodes, removed = _changes(runtime, side, LEVELS[first - 1], LEVELS[first])
    return OptimizationFault(case.name, side.label, LEVELS[first], optimizers, nodes, removed)


def _guilty(runtime: OnnxRuntime, model: onnx.ModelProto, right_without: Callable[[str], bool]) -> Iterator[str]:
    """Yield the optimizers that changed the graph and without which the outputs agree; rules by their own names."""
    for name in _modified(runtime, model):
        if not right_without(name):
            continue
        rules = [rule for rule in _RULES if right_without(rule)] if name.endswith(_RULE_BASED) else []
        yield from rules or [name]


def _modified(runtime: OnnxRuntime, model: onnx.ModelProto) -> list[str]:
    """Return the optimizers that changed the graph, in order, from onnxruntime's log."""
    import subprocess

    providers = (
        ["CPUExecutionProvider"] if runtime.device == "cpu" else ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        if is_small(model):
            onnx.save(model, str(path))
        else:
            save_onnx(model, path)
        options = [
            str(path),
            OPTIMIZATION_LEVELS[runtime.options.optimization],
            json.dumps(dict(runtime.options.entries)),
        ]
        try:
            done = subprocess.run(  # noqa: S603 - our own Python, and a script of our own
                isolated_python(_LOG, *options, json.dumps(providers)),
                capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunError(f"onnxruntime's log cannot be read: {error}") from error
    return list(dict.fromkeys(_MODIFIED.findall(done.stderr)))


def _changes(
    runtime: OnnxRuntime, side: Side, below: str, level: str
) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """Return the nodes that a level creates and the one below it does not, and how many of each type it removes."""
    with tempfile.TemporaryDirectory() as folder:
        graphs = []
        for name in (below, level):
            path = str(Path(folder) / f"{name}.onnx")
            runtime.but(optimization=name, optimized=path).load(side.model)
            graphs.append([*proto_nodes(onnx.ModelProto.FromString(Path(path).read_bytes()).graph)])
    before, after = ({(node.op_type, *node.output) for node in nodes} for nodes in graphs)
    new = [f"{n.op_type} {n.name or n.output[0]}" for n in graphs[1] if (n.op_type, *n.output) not in before]
    gone = Counter(node.op_type for node in graphs[0] if (node.op_type, *node.output) not in after)
    gone.subtract(Counter(node.op_type for node in graphs[1] if (node.op_type, *node.output) not in before))
    return tuple(new), tuple(sorted((kind, count) for kind, count in gone.items() if count > 0))
