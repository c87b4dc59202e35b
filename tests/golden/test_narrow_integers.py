"""Exports do not depend on NumPy's default integers, which have 32 bits in WebAssembly."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from conformance.__main__ import GOLDEN, select
from conformance.check import convert_case
from conformance.corpus import CaseRef, find_cases, read_case
from conformance.nodes import read_nodes
from support.narrow_integers import narrow_integers

from caffe2_bridge.diagnostics import ConversionError
from caffe2_frontend.emit import shapes

CASES: Final = {plainest.case for plainest in read_nodes().values()}
REFS: Final = {ref.group: ref for ref in select(find_cases(GOLDEN), [], gradients=False, sample=1) if ref.id in CASES}


def exported(ref: CaseRef) -> bytes | str:
    """Return the export of a case, knowing ranks only, or sizes where it asks for them; or why it is refused."""
    reason = ""
    for with_sizes in (False, True):
        try:
            return convert_case(read_case(ref), "auto", with_sizes=with_sizes).graph.SerializeToString()
        except ConversionError as error:
            reason = str(error)
    return reason


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted(REFS))
def test_an_export_is_the_same_where_integers_have_32_bits(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = exported(REFS[group])
    narrow_integers(monkeypatch)
    assert exported(REFS[group]) == expected


def test_integers_without_a_dtype_are_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow_integers(monkeypatch)
    assert np.arange(3).dtype == np.int64  # of this test, which is no module of the project
    made = eval(compile("[np.arange(3), np.array([1]), np.array([1], np.int64)]", shapes.__file__, "eval"), {"np": np})  # noqa: S307 - as if the project did
    assert [array.dtype for array in made] == [np.int32, np.int32, np.int64]
