"""Pictures of models, drawn by graphviz: operators, what flows between them, bodies as boxes, devices as colours."""

from caffe2_backend.picture.caffe2 import sketch_model
from caffe2_backend.picture.dot import to_dot
from caffe2_backend.picture.graphviz import draw, render
from caffe2_backend.picture.onnx_model import sketch_onnx
from caffe2_backend.picture.sketch import Box, Colouring, Edge, Kind, Node, Sketch

__all__ = [
    "Box",
    "Colouring",
    "Edge",
    "Kind",
    "Node",
    "Sketch",
    "draw",
    "render",
    "sketch_model",
    "sketch_onnx",
    "to_dot",
]
