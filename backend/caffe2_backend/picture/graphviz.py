"""Graphviz, run."""

from __future__ import annotations

import shutil
from typing import Final

from caffe2_backend.picture.caffe2 import sketch_model
from caffe2_backend.picture.dot import to_dot
from caffe2_backend.picture.onnx_model import sketch_onnx
from caffe2_backend.picture.sketch import Sketch
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath
from caffe2_frontend.interop.files.onnx_files import replacing

_SECONDS: Final = 300


def draw(model: Model | AnyPath, target: AnyPath) -> None:
    """Write a picture of a Caffe2 model, or of the ONNX model in a file, as SVG.

    Raises:
        BridgeError: graphviz is not installed, or cannot draw it.
        NetFormatError: the file holds no ONNX model.
        OSError: the picture cannot be written; an existing one is as it was.
    """
    svg = render(sketch_model(model) if isinstance(model, Model) else sketch_onnx(model))
    with replacing(target) as file:
        file.write(svg)


def render(sketch: Sketch) -> bytes:
    """Return a sketch as SVG, colours are devices.

    Raises BridgeError where graphviz is not installed, or takes longer than five minutes.
    """
    dot = shutil.which("dot")
    if dot is None:
        raise BridgeError(
            "pictures are drawn by graphviz, and its program 'dot' is not on the path: "
            "install it (apt install graphviz, brew install graphviz, or graphviz.org)"
        )
    import subprocess

    text = to_dot(sketch).encode()
    try:
        done = subprocess.run([dot, "-Tsvg"], input=text, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603 - found on the path, its input is text
    except subprocess.TimeoutExpired:
        nodes = sum(1 for _ in sketch.whole.every_node())
        raise BridgeError(f"graphviz did not finish {nodes} nodes within {_SECONDS} seconds") from None
    if done.returncode or not done.stdout:
        raise BridgeError(f"graphviz failed: {done.stderr.decode('utf-8', 'replace').strip() or done.returncode}")
    return done.stdout
