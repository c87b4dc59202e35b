"""What programs share: Caffe2's modules, and parameters that are the same on both sides."""

import importlib
import sys
import types
import zlib
from typing import Any, Dict, Iterable, List

import numpy as np

Figures = Dict[str, Any]


def install(copy: str) -> None:
    """Install the hook for a copy of Caffe2's Python files; an empty text stands for real Caffe2."""
    if copy:
        importlib.import_module("caffe2_backend").install_caffe2(copy)
    try:
        importlib.import_module("networkx")
    except ImportError:  # real Caffe2's memonger imports it, and no program here calls what needs it
        sys.modules["networkx"] = types.ModuleType("networkx")


def caffe2(module: str) -> Any:
    """Return a module of caffe2.python."""
    return importlib.import_module("caffe2.python." + module)


def feed_parameters(names: Iterable[Any]) -> None:
    """Replace random parameters by numbers that depend on their names only; constant ones stay."""
    workspace = caffe2("workspace")
    for name in sorted(map(str, names)):
        value = workspace.FetchBlob(name)
        if value.dtype == np.float32 and value.size > 1 and np.ptp(value):
            random = np.random.RandomState(zlib.crc32(name.split("/")[-1].encode()))
            limit = np.sqrt(3 / max(value.size // value.shape[0], 1))
            workspace.FeedBlob(name, random.uniform(-limit, limit, value.shape).astype(np.float32))


def train(net: Any, loss: str, batches: Iterable[Dict[str, Any]]) -> List[float]:
    """Run a net that was created once for each batch: the losses."""
    workspace = caffe2("workspace")
    losses = []
    for batch in batches:
        for name, value in batch.items():
            workspace.FeedBlob(name, value)
        workspace.RunNet(net)
        losses.append(float(np.sum(workspace.FetchBlob(loss))))
    return losses


def norms(names: Iterable[Any]) -> Dict[str, float]:
    """Return the Euclidean norms of blobs."""
    workspace = caffe2("workspace")
    return {str(name): float(np.linalg.norm(workspace.FetchBlob(str(name)))) for name in names}
