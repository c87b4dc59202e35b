"""The operators that a diagnosis names, in the picture of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from caffe2_backend.picture import Kind, Node, Sketch
from caffe2_validation.report import Divergence, ValidationReport

FIRST: Final = "first to disagree"
_EQUALLY: Final = "or this one"
_SUSPECT: Final = "suspect"
_INSIDE: Final = "in here"


def marks_of(sketch: Sketch, report: ValidationReport) -> dict[str, str]:
    """Return the text that marks each operator which a divergence names, by the node's key.

    So is the one that writes the first NaN or infinity. Of several texts for one operator the first counts, in this
    order: the operator that writes it, the operator named, operators that explain the difference equally well,
    suspects.
    """
    nodes = [node for node in sketch.whole.every_node() if node.kind is Kind.OPERATOR]
    marks: dict[str, str] = {}
    for value in report.nonfinite or ():
        marks.update((node.key, f"first {value.kind}") for node, _ in _find(nodes, value.operator, value.blob))
    for divergence in report.divergences:
        for location, text in _named(divergence):
            for node, exact in _find(nodes, location, divergence.blob):
                marks.setdefault(node.key, text if exact else f"{text}: {_INSIDE}")
    return marks


def _named(divergence: Divergence) -> Iterator[tuple[str, str]]:
    yield divergence.operator, FIRST
    yield from ((location, _EQUALLY) for location in divergence.equally)
    if not divergence.cause:  # with a cause the operator is known, and the others are not at fault
        yield from ((location, _SUSPECT) for location in divergence.suspects)


def _find(nodes: list[Node], location: str, blob: str) -> list[tuple[Node, bool]]:
    """Return the nodes at a location, and whether it is theirs; else those of the closest operator around it.

    An export has several nodes for one operator: the one that writes the blob is the one, if there is one.
    """
    exact = True
    while location:
        found = [node for node in nodes if node.location == location]
        if found:
            writers = [node for node in found if blob in node.outputs]
            return [(node, exact) for node in writers or found]
        location, exact = location.rpartition(" > ")[0], False
    return []
