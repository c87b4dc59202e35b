"""Caffe2's own test modules, in place, on this project's runtime: a fixed sample of scripts/caffe2-tests."""

from __future__ import annotations

import pytest
from caffe2_tests.recorded import read_passed
from caffe2_tests.run import run_module
from caffe2_tests.table import ModuleResult
from conformance.oracle import find_oracle

MODULES = [
    "toy_regression_test",
    "brew_test",
    "schema_test",
    "scope_test",
]


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("module", MODULES)
def test_what_passes_in_real_caffe2_passes_here(module: str) -> None:
    python = find_oracle()
    assert python is not None
    (copy,) = python.parents[1].glob("lib/python3*/site-packages")
    result = ModuleResult(module, read_passed()[module], run_module(module, copy, real=None))
    assert result.passed
    assert result.failed == {}
