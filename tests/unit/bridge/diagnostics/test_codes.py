"""The table of diagnostic codes, and its uses in the packages."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest
from support.modules import parse_modules
from support.paths import ROOT

from caffe2_bridge.diagnostics import CODES, Diagnostic, DiagnosticCode

_TABLE: Final = "DiagnosticCode"


def _literals(node: ast.expr) -> Iterator[str | None]:
    """Yield the codes that an expression may be; None for one that is neither literal nor handed on."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _literals(node.body)
        yield from _literals(node.orelse)
    elif not (
        (isinstance(node, ast.Name) and node.id == "code") or (isinstance(node, ast.Attribute) and node.attr == "code")
    ):
        yield None


def _in_call(call: ast.Call) -> Iterator[str | None]:
    name = getattr(call.func, "id", None) or getattr(call.func, "attr", None)
    if name == _TABLE:
        return
    if name == "Diagnostic" or (name == "report" and isinstance(call.func, ast.Attribute)):  # of a lowering
        yield from _literals(call.args[0])
    if name == "UnsupportedError" and len(call.args) > 2:
        yield from _literals(call.args[2])
    if name == "unsupported" and len(call.args) > 2:
        yield from _literals(call.args[2])
    for keyword in call.keywords:
        if keyword.arg == "code":
            yield from _literals(keyword.value)


def _in_definition(function: ast.FunctionDef) -> Iterator[str | None]:
    arguments = function.args
    names = [*arguments.posonlyargs, *arguments.args]
    defaults = zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True)
    for name, default in (*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)):
        if name.arg == "code" and default is not None:
            yield from _literals(default)


@cache
def _uses() -> dict[str | None, list[str]]:
    """Return where the packages use each code; None: an expression that no one can look up."""
    found: dict[str | None, list[str]] = {}
    for module, tree in parse_modules().items():
        for node in ast.walk(tree):
            codes: Iterator[str | None] = iter(())
            if isinstance(node, ast.Call):
                codes = _in_call(node)
            elif isinstance(node, ast.FunctionDef):
                codes = _in_definition(node)
            for code in codes:
                found.setdefault(code, []).append(f"{module}:{getattr(node, 'lineno', 0)}")
    return found


def test_codes_are_literals_where_diagnostics_are_made() -> None:
    assert _uses().get(None, []) == []


def test_every_code_that_is_used_is_in_the_table() -> None:
    assert {code: places for code, places in _uses().items() if code not in CODES} == {}


def test_every_code_of_the_table_is_used() -> None:
    assert [code for code in CODES if code not in _uses()] == []


@pytest.mark.parametrize("code", CODES.values(), ids=list(CODES))
def test_every_code_is_explained(code: DiagnosticCode) -> None:
    for text in (code.summary, code.cause, code.cure):
        assert text.endswith(".")
        assert text[0].isupper() or text[0] == "`"
    assert f": {code.severity}: " in code.example
    assert f"[{code.code}]" in code.example


def test_a_diagnostic_of_an_unknown_code_is_a_fault_where_self_checks_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="diagnostic code 'no-such-code' is not in"):
        Diagnostic("no-such-code", "the reason")
    monkeypatch.delenv("CAFFE2_BRIDGE_VERIFY")
    assert Diagnostic("no-such-code", "the reason").code == "no-such-code"


def test_the_document_is_what_the_table_says() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "diagnostics.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stderr
