"""Domains of ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import onnx
import onnx_ir as ir

STANDARD_DOMAINS: Final = ("", "ai.onnx")
ML_DOMAIN: Final = "ai.onnx.ml"
# The versions that exports import of other domains than ONNX's own: LabelEncoder has its present form since 2.
EXPORTED_VERSIONS: Final[Mapping[str, int]] = {ML_DOMAIN: 2}


def plain_domain(domain: str) -> str:
    """Return a domain by one name: ONNX's own, which has two, as the empty text."""
    return "" if domain in STANDARD_DOMAINS else domain


def is_standard(node: ir.Node | onnx.NodeProto) -> bool:
    """Whether a node is one of ONNX's own operators, not one of another domain."""
    return node.domain in STANDARD_DOMAINS


def standard_type(node: ir.Node | onnx.NodeProto) -> str:
    """Return the type of one of ONNX's own operators; empty for one of another domain, which may have the same name."""
    return node.op_type if node.domain in STANDARD_DOMAINS else ""
