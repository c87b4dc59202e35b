from __future__ import annotations

import pytest

from caffe2_bridge.registry import Family, merge


def relu() -> None: ...


def tanh() -> None: ...


def test_families_merge_into_one_table() -> None:
    one, other = Family[object]("one"), Family[object]("other")
    one.add(relu, "Relu", "Relu6")
    other.add(tanh, "Tanh")
    assert merge([one, other]) == {"Relu": relu, "Relu6": relu, "Tanh": tanh}


def test_a_type_that_is_registered_twice_in_a_family_is_an_error_that_names_both_handlers() -> None:
    family = Family[object]("activations")
    family.add(relu, "Relu")
    message = "family 'activations' registers two handlers for Relu: relu and tanh"
    with pytest.raises(ValueError, match=message):
        family.add(tanh, "Relu")
    assert family.handlers == {"Relu": relu}


def test_a_type_that_two_families_register_is_an_error_that_names_both() -> None:
    one, other = Family[object]("one"), Family[object]("other")
    one.add(relu, "Relu")
    other.add(tanh, "Relu")
    with pytest.raises(ValueError, match="families 'one' and 'other' both register Relu"):
        merge([one, other])
