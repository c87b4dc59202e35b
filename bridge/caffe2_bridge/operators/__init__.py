"""Caffe2's operators, each described once: which shapes of operands and results go together, and what are parameters.

Readers: the description of inputs, the synthesis of inputs and weights, the search for image sizes, the edits of nets.
"""

from caffe2_bridge.operators.describe import infer_shapes, is_described
from caffe2_bridge.operators.signature import Shape

__all__ = ["Shape", "infer_shapes", "is_described"]
