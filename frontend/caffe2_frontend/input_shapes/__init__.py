"""Shapes of a net's inputs, inferred from the operators that read them.

Signatures relate the shapes of operands and results (:mod:`caffe2_bridge.operators`): the result of a Conv has the rank
of its image, whose channels are those of its weight. From the shapes that are known they are applied, forwards and
backwards, until nothing changes. What is still open then is assumed, operator by operator, as the operator is used most
often.
"""

from caffe2_frontend.input_shapes.infer import InferredShapes, infer_input_shapes

__all__ = ["InferredShapes", "infer_input_shapes"]
