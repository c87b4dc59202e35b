"""What tests/conftest.py does with tests that need what is absent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
SUITE = """
import pytest

@pytest.mark.oracle
def test_with_oracle():
    assert True

@pytest.mark.torch
def test_with_torch():
    pytest.skip("of its own accord")

@pytest.mark.torch
@pytest.mark.oracle
def test_with_both():
    assert True

def test_plain():
    pytest.skip("unmarked")
"""

CALL = "import sys\nsys.path.append('theirs')\nimport {0}\ndef test(): {0}.warn()\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "torch.py").touch()  # PyTorch is found here, whether this machine has it or not
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  oracle:\n  torch:\n")
    return tmp_path


def outcomes(folder: Path, required: str, *options: str) -> tuple[int, str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (folder, TESTS, TESTS.parent / "bridge"))),
        "CAFFE2_ORACLE_DIR": str(folder / "nothing"),
        "CAFFE2_BRIDGE_REQUIRE": required,
    }
    environment.pop("CAFFE2_PYTHON", None)
    done = subprocess.run(  # noqa: S603 - this interpreter, on the suite above
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-rsfE", *options, folder],
        env=environment, capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_what_needs_something_absent_is_left_out_with_the_reason(suite: Path) -> None:
    status, output = outcomes(suite, "")
    assert status == 0, output
    assert "2 skipped, 2 deselected" in output
    assert "LEFT OUT [2] real Caffe2 is not installed (scripts/oracle installs it)" in output


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_that_all_tests_are_left_out_is_no_failure(suite: Path, options: tuple[str, ...]) -> None:
    status, output = outcomes(suite, "", "-m", "oracle", *options)
    assert status == 0, output
    assert "LEFT OUT [2]" in output
    assert outcomes(suite, "", "-k", "no_such_test", *options)[0] == pytest.ExitCode.NO_TESTS_COLLECTED


def test_warnings_of_other_peoples_code_are_no_errors(tmp_path: Path) -> None:
    for package in ("ours", "theirs"):
        init = tmp_path / package / package / "__init__.py"
        init.parent.mkdir(parents=True)
        init.write_text("import warnings\ndef warn(): warnings.warn('old', DeprecationWarning)\n")
        (tmp_path / f"test_{package}.py").write_text(CALL.format(package))
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = ours\n")
    status, output = outcomes(tmp_path, "")
    assert status == 1, output
    assert "1 failed, 1 passed, 1 warning" in output
    assert "FAILED test_ours.py::test - DeprecationWarning: old" in output


def test_required_needs_fail_whatever_skips_them(suite: Path) -> None:
    status, output = outcomes(suite, "torch,oracle")
    assert status == 1, output
    assert "1 skipped" in output
    assert "CAFFE2_BRIDGE_REQUIRE names 'oracle'" in output
    assert "CAFFE2_BRIDGE_REQUIRE names 'torch'" in output


def test_only_named_needs_are_required(suite: Path) -> None:
    status, output = outcomes(suite, "oracle")
    assert status == 1, output
    assert "2 skipped" in output
    assert "names 'torch'" not in output


def test_a_test_that_lacks_what_nobody_requires_too_may_be_skipped(suite: Path) -> None:
    _, output = outcomes(suite, "torch")
    assert "1 failed, 1 skipped, 2 deselected" in output
