"""The page of operators: signature, what is required and read, the converter, and the recorded cases."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Final

import numpy as np

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.operators.describe import described_types, signature_text
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_bridge.schemas import operator_schema
from caffe2_frontend.ops import converters
from documentation.pages import ROOT

_GOLDEN: Final = ROOT / "tests" / "golden"
_INTRODUCTION: Final = """# Operators

Which dims of operands and results are equal: inputs; parameters; results. `*S` is any number of dims, `*S:2` usually
two, `~K` dims that count as one, `{axis=1}` an argument and its default, `^C` a dim that is the last one where the
argument `order` is NHWC. Signatures that depend on arguments are shown as they are without any.
"""


def operators_page() -> Iterator[str]:
    """Yield the page, a section for each operator type that has a signature."""
    yield _INTRODUCTION
    for op_type in described_types():
        yield f"## {op_type}\n"
        yield f"    {signature_text(OpView(OperatorDef(type=op_type), 0))}\n"
        schema, convert = operator_schema(op_type), converters().get(op_type)
        if schema is not None and schema.required_arguments:
            yield f"* Required arguments: {_listed(schema.required_arguments)}"
        if schema is not None and schema.arguments_read:
            yield f"* Arguments read: {_listed(schema.arguments_read)}"
        if convert is not None:
            file = inspect.getsourcefile(inspect.unwrap(convert)) or ""
            yield f"* Converter: `{convert.__name__}` in `{file.rpartition('caffe2_frontend/')[2]}`"
        yield f"* Recorded cases: {_recorded(op_type)}\n"


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _recorded(op_type: str) -> int:
    count = 0
    for folder in ("ops", "recorded/ops"):
        path = _GOLDEN / folder / f"{op_type}.npz"
        if path.exists():
            with np.load(path) as cases:
                count += len(json.loads(cases["meta"].tobytes()))
    return count
