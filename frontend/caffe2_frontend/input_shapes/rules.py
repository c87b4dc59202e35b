"""The rules of all operator types: how the shapes of their operands and results are related."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.input_shapes import detection_rules, image_rules, matrix_rules, structure_rules
from caffe2_frontend.input_shapes.known_shapes import KnownShapes

Rule = Callable[[OpView, KnownShapes], None]

RULES: Final[Mapping[str, Rule]] = {
    **structure_rules.RULES,
    **matrix_rules.RULES,
    **image_rules.RULES,
    **detection_rules.RULES,
}
