"""Schemas of Caffe2's operators: operand counts, operands that must share a blob, and the arguments that are read."""

from caffe2_bridge.schemas.operands import CountViolation, count_violation, refused_in_place, unshared_operands
from caffe2_bridge.schemas.table import UNBOUNDED, OperatorSchema, operator_schema, operator_schemas

__all__ = [
    "UNBOUNDED",
    "CountViolation",
    "OperatorSchema",
    "count_violation",
    "operator_schema",
    "operator_schemas",
    "refused_in_place",
    "unshared_operands",
]
