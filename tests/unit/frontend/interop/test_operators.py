"""The table of facts against ONNX's own schemas: a new opset fails here until its operators are in the table."""

from __future__ import annotations

from itertools import chain
from typing import Final

import onnx
import pytest
from onnx.defs import OpSchema

from caffe2_frontend.interop import operators

_HISTORY: Final = sorted(
    (schema for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain),
    key=lambda schema: schema.since_version,
)
NEWEST: Final = {schema.name: schema for schema in _HISTORY}
NON_DETERMINISTIC: Final = OpSchema.NodeDeterminism.NonDeterministic
# ONNX says so although they draw in training alone, or not at all.
DRAW_NOTHING: Final = {"AffineGrid", "Dropout"}


def results(schema: OpSchema) -> set[str]:
    """Return the types that the first output may have."""
    return set(schema.outputs[0].types)


def test_every_operator_is_in_one_kind() -> None:
    assert sorted(chain(*operators.KINDS)) == sorted(NEWEST)


def test_random_operators_are_what_onnx_calls_so() -> None:
    drawing = {name for name, schema in NEWEST.items() if schema.node_determinism == NON_DETERMINISTIC}
    assert drawing - operators.BODIES.keys() - DRAW_NOTHING == operators.RANDOM


def test_bodies_are_the_attributes_that_are_graphs() -> None:
    graphs = {
        name: {attribute.name for attribute in schema.attributes.values() if attribute.type == OpSchema.AttrType.GRAPH}
        for name, schema in NEWEST.items()
    }
    assert {name: set(found) for name, found in operators.BODIES.items()} == {k: v for k, v in graphs.items() if v}


@pytest.mark.parametrize("name", sorted(operators.FUNCTIONS | operators.TESTS | operators.CASTS))
def test_functions_have_one_operand(name: str) -> None:
    assert (NEWEST[name].min_input, NEWEST[name].max_input, NEWEST[name].max_output) == (1, 1, 1)


@pytest.mark.parametrize("name", sorted(operators.BROADCASTING))
def test_elementwise_operators_of_several_operands_have_one_result(name: str) -> None:
    assert NEWEST[name].max_input >= 2
    assert NEWEST[name].max_output == 1


def test_comparisons_and_logic_are_what_gives_booleans_of_two_operands() -> None:
    pairs = {name: schema for name, schema in NEWEST.items() if schema.min_input == schema.max_input == 2}
    assert {
        name for name, schema in pairs.items() if results(schema) == {"tensor(bool)"}
    } == operators.COMPARISONS | operators.LOGIC


def test_functions_keep_the_type() -> None:
    like = operators.FUNCTIONS | operators.ARITHMETIC | operators.BITWISE | operators.VARIADIC
    assert not [name for name in like if NEWEST[name].outputs[0].type_str != NEWEST[name].inputs[0].type_str]


@pytest.mark.parametrize("name", sorted(operators.OF_FIRST))
def test_moved_elements_are_those_of_the_first_operand(name: str) -> None:
    assert NEWEST[name].outputs[0].type_str == NEWEST[name].inputs[0].type_str


@pytest.mark.parametrize("name", sorted(operators.RECURRENT))
def test_recurrent_operators_have_the_activations_of_their_schema(name: str) -> None:
    facts, schema = operators.RECURRENT[name], NEWEST[name]
    assert len(facts.gates) == len(set(facts.gates))
    assert schema.max_output == 1 + facts.states
    assert set(facts.activations) < {*operators.PLAIN_ACTIVATIONS}


@pytest.mark.parametrize("name", operators.ALPHAS)
def test_parameters_have_the_defaults_of_the_schema(name: str) -> None:
    assert NEWEST[name].attributes["alpha"].default_value.f == pytest.approx(operators.ALPHAS[name])
