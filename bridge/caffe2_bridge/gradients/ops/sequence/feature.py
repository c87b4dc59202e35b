"""Gradients of MergeSingle*FeatureTensors and MergeMulti*FeatureTensors.

The inputs are groups of tensors; the values of each group have a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("feature")


def _merge(op_type: str, group: int, needed: Sequence[int], values: int, output: int) -> None:
    """Register <op_type>Gradient(needed inputs of each group..., dvalues) -> dvalues of each group...

    Args:
        op_type: the operator type.
        group: the number of inputs of a group.
        needed: the indices in a group of the inputs that the gradient reads.
        values: the index in a group of the values.
        output: the index of the output that holds the merged values.
    """

    @family.differentiates(op_type)
    def make(op: Forward) -> None:
        starts = range(0, len(op.inputs), group)
        inputs = [op.x(start + index) for start in starts for index in needed]
        op.emit(f"{op.type}Gradient", [*inputs, op.dy(output)], [op.dx(start + values) for start in starts])


_merge("MergeSingleScalarFeatureTensors", group=2, needed=[1], values=0, output=2)
_merge("MergeSingleListFeatureTensors", group=3, needed=[0, 2], values=1, output=3)
_merge("MergeSingleMapFeatureTensors", group=4, needed=[0, 3], values=2, output=4)
_merge("MergeMultiScalarFeatureTensors", group=3, needed=[0], values=2, output=2)
_merge("MergeMultiListFeatureTensors", group=4, needed=[0, 2], values=3, output=3)
_merge("MergeMultiMapFeatureTensors", group=5, needed=[0, 2], values=4, output=4)
