"""What operators there are, and their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from caffe2_backend import workspace as functions
from caffe2_bridge.gradients.ops import rules
from caffe2_bridge.schemas import OperatorSchema, operator_schema, operator_schemas

__all__ = [
    "OpSchema",
    "nearby_opnames",
    "op_registry_key",
    "registered_operators",
    "set_engine_pref",
    "set_global_engine_pref",
    "set_op_engine_pref",
    "set_per_op_engine_pref",
]

_DEFAULT_ENGINES: Final = ("", "DEFAULT")


@cache
def _registered() -> tuple[str, ...]:
    with_kernel = (name for name, schema in operator_schemas().items() if schema.has_cpu_kernel)
    return tuple(sorted({*with_kernel, *functions.RegisteredOperators()}))


def registered_operators() -> list[str]:
    """Return the operator types that Caffe2 has kernels for; some of them can be put in nets, but not run here."""
    return list(_registered())


def op_registry_key(op_type: str, engine: str) -> str:
    """Return the name under which an operator of an engine is registered."""
    return op_type if engine in _DEFAULT_ENGINES else f"{op_type}_ENGINE_{engine}"


def nearby_opnames(op_type: str) -> list[str]:
    """Return the operator types whose names are similar."""
    return get_close_matches(op_type, _registered(), n=5)


class OpSchema:
    """The schema of an operator type."""

    class Argument:
        """An argument of an operator type."""

        def __init__(self, name: str, *, required: bool) -> None:
            self.name = name
            self.description = ""
            self.required = required

    def __init__(self, schema: OperatorSchema) -> None:
        self._schema = schema
        self.min_input, self.max_input = schema.inputs
        self.min_output, self.max_output = schema.outputs
        self.inf = (1 << 31) - 1
        self.doc = ""
        self.file = ""
        self.line = 0
        self.private = False

    @staticmethod
    def get(op_type: str) -> OpSchema | None:
        """Return the schema of an operator type; None if it does not have one."""
        schema = operator_schema(op_type)
        return None if schema is None else OpSchema(schema)

    @staticmethod
    def get_cpu_impl(op_type: str) -> str:
        """Return the name of the CPU kernel."""
        schema = operator_schema(op_type)
        return op_type if schema is not None and schema.has_cpu_kernel else ""

    @staticmethod
    def get_cuda_impl(op_type: str) -> str:
        """Return the name of the CUDA kernel; empty, as in Caffe2 without CUDA."""
        del op_type
        return ""

    @staticmethod
    def get_gradient_impl(op_type: str) -> str:
        """Return the name of what differentiates the operator type."""
        return f"Get{op_type}Gradient" if op_type in rules() else ""

    @property
    def args(self) -> list[OpSchema.Argument]:
        """The arguments that the operator reads."""
        read = self._schema.arguments_read or frozenset()
        required = self._schema.required_arguments
        return [self.Argument(name, required=name in required) for name in sorted(read | required)]

    @property
    def input_desc(self) -> list[tuple[str, str]]:
        """Names and descriptions of the inputs: none are recorded."""
        return []

    @property
    def output_desc(self) -> list[tuple[str, str]]:
        """Names and descriptions of the outputs: none are recorded."""
        return []

    def num_inputs_allowed(self, count: int) -> bool:
        """Whether the operator may have so many inputs."""
        return self.min_input <= count <= self.max_input

    def num_outputs_allowed(self, count: int) -> bool:
        """Whether the operator may have so many outputs."""
        return self.min_output <= count <= self.max_output

    def num_inputs_outputs_allowed(self, inputs: int, outputs: int) -> bool:
        """Whether the operator may have so many inputs and outputs."""
        return self._schema.accepts_counts(inputs, outputs)

    def inplace_enforced(self, index: int, output: int) -> bool:
        """Whether an input and an output must be one blob."""
        return (index, output) in self._schema.enforced_in_place

    def CalculateOutput(self, inputs: int) -> int:  # noqa: N802 - Caffe2's name
        """Return the number of outputs for so many inputs; -1 if it is open."""
        if self.min_output == self.max_output:
            return self.min_output
        allowed = [count for count in range(self.min_output, inputs + 2) if self._schema.accepts_counts(inputs, count)]
        return allowed[0] if len(allowed) == 1 else -1


Preferences = Mapping[Any, Any]


def set_per_op_engine_pref(preferences: Preferences) -> None:
    """Do nothing: operators do not have engines here."""
    del preferences


def set_global_engine_pref(preferences: Preferences) -> None:
    """Do nothing: operators do not have engines here."""
    del preferences


def set_engine_pref(per_operator: Preferences, general: Preferences) -> None:
    """Do nothing: operators do not have engines here."""
    del per_operator, general


def set_op_engine_pref(op_type: str, preferences: Preferences) -> None:
    """Do nothing: operators do not have engines here."""
    del op_type, preferences
