"""Recorded operators that have no converter: they change as converters are added."""

from conformance.__main__ import GOLDEN
from conformance.corpus import find_cases

from caffe2_frontend.ops import converters


def unconverted_gradient() -> str:
    """A gradient operator with recorded cases and without a converter, the first by name."""
    recorded = {ref.group for ref in find_cases(GOLDEN / "ops") if ref.gradients}
    return min(recorded - converters().keys())
