"""Pictures of models: operators, what flows between them, bodies; interactive pages, and SVG drawn by graphviz."""

from caffe2_backend.picture.caffe2 import sketch_model
from caffe2_backend.picture.dot import to_dot
from caffe2_backend.picture.graphviz import draw, render
from caffe2_backend.picture.onnx_model import sketch_onnx
from caffe2_backend.picture.page import Picture, Side, picture_data, picture_element, picture_html, picture_of
from caffe2_backend.picture.sketch import Box, Colouring, Edge, Kind, Node, Sketch

__all__ = [
    "Box",
    "Colouring",
    "Edge",
    "Kind",
    "Node",
    "Picture",
    "Side",
    "Sketch",
    "draw",
    "picture_data",
    "picture_element",
    "picture_html",
    "picture_of",
    "render",
    "sketch_model",
    "sketch_onnx",
    "to_dot",
]
