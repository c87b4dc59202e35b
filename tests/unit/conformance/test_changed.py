"""Which operators another source converts otherwise."""

from __future__ import annotations

import ast

import networkx as nx
import pytest
from conformance.changed import changed_operators, uses_of

SOURCES = {
    "p": "from p.low import helper",
    "p.low": "TABLE = {1: 2}\ndef helper(x):\n    return TABLE[x]\ndef other(): ...",
    "p.high": "from p import helper\nimport os\ndef convert(op):\n    return helper(op)\ndef unused(): ...",
    "p.loop": "from p.low import other\ndef made(): ...\nfor name in 'ab':\n    other(name)",
}


@pytest.mark.parametrize(
    ("definition", "users"),
    [
        (("p.low", "TABLE"), {("p.low", "helper"), ("p.high", "convert")}),  # through a package that passes it on
        (("p.low", "other"), {("p.loop", ""), ("p.loop", "made")}),  # what registers made is a statement without a name
        (("p.high", "unused"), set()),
    ],
)
def test_a_definition_is_used_by_what_names_it(definition: tuple[str, str], users: set[tuple[str, str]]) -> None:
    graph = uses_of({module: ast.parse(source) for module, source in SOURCES.items()})
    assert nx.ancestors(graph, definition) == users


def test_an_unknown_commit_is_an_error() -> None:
    with pytest.raises(ValueError, match="no-such-commit"):
        changed_operators("no-such-commit")
