"""Operators with the outputs that real Caffe2 gives, written down in tests; recorded cases are in tests/golden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from conformance.compare import mismatches
from conformance.corpus import Array
from conformance.oracle import OracleRun, find_oracle, run_oracle
from conformance.recording import ArgumentValue, operator

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from support.exports import export, run, specs_of


def assert_computes(op_type: str, operands: Sequence[Array], results: Sequence[Array], **args: ArgumentValue) -> None:
    """Assert that an operator of which operands' ranks are known gives these results; in real Caffe2 too if present."""
    op, fed = _operator(op_type, operands, len(results), args)
    expected = dict(zip(op.output, results, strict=True))
    values = run(export(op, specs_of(fed, sizes=False)), fed)
    assert mismatches(expected, dict(zip(expected, values, strict=True))) == []
    if find_oracle():
        (real,) = run_oracle([OracleRun(NetDef(op=[op]), fed, outputs=list(expected))])
        assert real.error == ""
        assert mismatches(real.outputs, expected) == []


def assert_refused(op_type: str, operands: Sequence[Array], outputs: int = 1, **args: ArgumentValue) -> None:
    """Assert that the conversion refuses an operator whose operands' ranks alone are known."""
    op, fed = _operator(op_type, operands, outputs, args)
    with pytest.raises(ConversionError):
        export(op, specs_of(fed, sizes=False))


def _operator(
    op_type: str, operands: Sequence[Array], outputs: int, args: Mapping[str, ArgumentValue]
) -> tuple[OperatorDef, dict[str, Array]]:
    fed = {f"x{index}": array for index, array in enumerate(operands)}
    return operator(op_type, list(fed), [f"y{index}" for index in range(outputs)], **args), fed
