"""The arguments of operators with bodies are named in caffe2_bridge.control alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from support.modules import parse_modules

import caffe2_bridge.control as room

ARGUMENTS = frozenset({
    "alias_dst", "alias_offset", "alias_src", "backward_link_external", "backward_link_internal",
    "backward_link_offset", "backward_step_net", "cond_net", "else_net", "initial_recurrent_state_ids", "inner_blobs",
    "link_external", "link_internal", "link_offset", "link_window", "loop_net", "num_loop_carried_deps",
    "outer_blobs_idx", "recurrent_input_ids", "recurrent_inputs", "recurrent_states", "step_net", "then_net",
})  # fmt: skip
# Calls that may have keywords of these names: constructors of the room, and the builder's public functions.
CALLS = frozenset({*room.__all__, "add_if_op", "add_while_op"})


def uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield lines where one of the names is a string, or a keyword of a call that is not among CALLS."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in ARGUMENTS:
            yield node.lineno, node.value
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, bytes) and node.value.decode("latin") in ARGUMENTS
        ):
            yield node.lineno, repr(node.value)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield from (
                (node.lineno, str(keyword.arg))
                for keyword in node.keywords
                if keyword.arg in ARGUMENTS and called not in CALLS
            )


def test_arguments_are_named_in_the_room_alone() -> None:
    found = [
        f"{module}:{line}: {name}"
        for module, tree in parse_modules().items()
        if room.__name__ not in {module, module.rpartition(".")[0]}
        for line, name in uses(tree)
    ]
    assert found == []


@pytest.mark.parametrize("text", ['op.args.net("then_net")', "make(loop_net=net)", 'op.arg.add(name=b"link_offset")'])
def test_uses_are_found(text: str) -> None:
    assert list(uses(ast.parse(text)))
