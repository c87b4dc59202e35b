"""Caffe2's own tests and examples, in place, on this project's runtime: a fixed sample of scripts/caffe2-tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caffe2_tests.recorded import read_passed
from caffe2_tests.run import Limits, run_module
from caffe2_tests.table import ModuleResult
from conformance.oracle import oracle_packages, required_oracle
from support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

MODULES = [
    "brew_test",
    "control_ops_grad_test",
    "control_test",
    "core_gradients_test",
    "dataio_test",
    "layers_test",
    "model_helper_test",
    "net_builder_test",
    "optimizer_test",
    "python_op_test",
    "schema_test",
    "scope_test",
    "session_test",
    "toy_regression_test",
    "workspace_test",
]
WITH_TORCH = {"workspace_test"}  # imports it
# After 3,500 of its 4,000 steps the parameters agree within 5e-7 and have converged. Adadelta then amplifies rounding
# errors of gradients that are zero but for them, in real Caffe2, too, so that the last steps have nothing in common.
ROUNDING = {"TestAdadelta::testSparse"}
# Skips itself without MKL-DNN, which is left out by design.
WITHOUT_MKLDNN = {"TestWorkspaceIDEEP::testFeedFetchBlobIDEEP"}
TEXT = "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs.\n" * 3


@pytest.mark.parametrize("module", MODULES)
def test_what_passes_in_real_caffe2_passes_here(module: str) -> None:
    if module in WITH_TORCH:
        pytest.importorskip("torch")
    copy = oracle_packages()
    result = ModuleResult(module, read_passed()[module], run_module(module, copy, real=None, limits=Limits(900, 180)))
    assert result.passed
    assert result.failed.keys() - ROUNDING - WITHOUT_MKLDNN == set(), result.failed


def test_the_losses_and_texts_of_char_rnn(tmp_path: Path) -> None:
    python, copy = required_oracle(), oracle_packages()
    data = tmp_path / "text"
    data.write_text(TEXT)
    script = ROOT / "tests" / "caffe2_tests" / "char_rnn_losses.py"
    packages = os.pathsep.join(str(ROOT / name) for name in ("bridge", "frontend", "backend"))

    def run(interpreter: Path, files: str, path: str) -> dict[str, Any]:
        command = [str(interpreter), str(script), files, str(data), "12"]
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=300)  # noqa: S603 - ours
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    expected, ours = run(python, "", ""), run(Path(sys.executable), str(copy), packages)
    np.testing.assert_allclose(ours["losses"], expected["losses"], rtol=1e-5)
    assert ours["lines"] == expected["lines"]
    assert len(ours["losses"]) == 13
