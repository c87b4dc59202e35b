"""A model in the format of onnxruntime's mobile builds, and the operators that such a build needs."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import onnx

from caffe2_bridge.diagnostics import OptionError
from caffe2_deploy.contents import Contents
from caffe2_frontend.interop.bodies import proto_nodes


def files(contents: Contents) -> dict[str, bytes]:
    """Return the model in ORT format, and its operators, by path.

    Raises OptionError if onnxruntime is not installed, or cannot write the format.
    """
    return {"model.ort": _ort_format(contents.model), "required_operators.config": _operators(contents.model)}


def _ort_format(model: onnx.ModelProto) -> bytes:
    try:
        import onnxruntime
    except ImportError:
        raise OptionError("a package for mobile needs onnxruntime: pip install 'caffe2-bridge[cpu]'") from None
    options = onnxruntime.SessionOptions()
    # Nothing that depends on this machine's processor.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.save_model_format", "ORT")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.ort")
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return path.read_bytes()


def _operators(model: onnx.ModelProto) -> bytes:
    """Return the list that onnxruntime's build script takes: ``domain;opset;operators``, a line an opset."""
    versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    found = defaultdict[str, set[str]](set)
    for node in proto_nodes(model.graph):
        found[node.domain or "ai.onnx"].add(node.op_type)
    lines = [f"{domain};{versions[domain]};{','.join(sorted(kinds))}" for domain, kinds in sorted(found.items())]
    return ("\n".join(["# domain;opset;operators", *lines]) + "\n").encode()
