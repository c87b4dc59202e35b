"""The index of the converters, and the table that imports them."""

from __future__ import annotations

from caffe2_frontend.ops import converters, expectations, supported_operators
from caffe2_frontend.ops.families import families, index_text
from caffe2_frontend.ops.index import FILE, INDEX


def test_the_index_is_that_of_the_families() -> None:
    assert FILE.read_text(encoding="ascii") == index_text(), "run scripts/operators"


def test_the_table_has_the_handlers_of_the_families() -> None:
    handlers = {op_type: known for family in families().values() for op_type, known in family.handlers.items()}
    assert dict(converters()) == {op_type: known.convert for op_type, known in handlers.items()}
    expected = {op_type: known.expects for op_type, known in handlers.items() if known.expects is not None}
    assert dict(expectations()) == expected
    assert len(expectations()) == len(expected) < len(converters()) == len(INDEX)


def test_unknown_types_have_no_converter() -> None:
    assert "NoSuchOperator" not in converters()
    assert converters().get("NoSuchOperator") is None
    assert "NoSuchOperator" not in converters("qdq")


def test_the_qdq_form_has_converters_of_its_own() -> None:
    exact, qdq = converters(), converters("qdq")
    assert exact.keys() == qdq.keys()
    assert qdq["Int8FC"] is not exact["Int8FC"]
    assert qdq["FC"] is exact["FC"]


def test_supported_operators_are_sorted_by_family() -> None:
    supported = supported_operators()
    assert list(supported) == sorted(supported)
    assert sorted(op_type for types in supported.values() for op_type in types) == sorted(INDEX)
