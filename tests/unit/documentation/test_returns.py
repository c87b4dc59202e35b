"""The results of functions in the API reference."""

from __future__ import annotations

import pytest

griffe = pytest.importorskip("griffe")

from documentation.returns import AnnotatedReturns, with_type  # noqa: E402 - griffe is of the group docs


def test_what_precedes_a_colon_is_no_type() -> None:
    text = "Do it.\n\nReturns:\n    The net: all of it, and:\n    the rest."
    expected = "Do it.\n\nReturns:\n    tuple[int, str]: The net: all of it, and:\n    the rest."
    assert with_type(text, "tuple[int, str]") == expected
    assert with_type("Do it.", "int") == "Do it."


def test_functions_without_an_annotation_stay() -> None:
    text = "Do it.\n\nReturns:\n    The net: all."
    func = griffe.Function("f", docstring=griffe.Docstring(text))
    AnnotatedReturns().on_function(func=func)
    assert func.docstring.value == text
    func.returns = "Net"
    AnnotatedReturns().on_function(func=func)
    assert func.docstring.value.endswith("Net: The net: all.")
