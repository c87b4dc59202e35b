"""What passes of ONNX's backend test suite goes on passing: the lists are written by scripts/onnx-suite --record."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from conformance.oracle import find_oracle
from onnx.backend.test import BackendTest
from support.share import share

from caffe2_backend import onnx_backend
from onnx_suite.cases import SUITES, Case, folder_cases, installed_cases
from onnx_suite.runtime import run_backend
from onnx_suite.strict import run_strict
from onnx_suite.variants import variants

HERE = Path(__file__).parent
PARTS = 4
STRIDE = 4


def expected(name: str) -> set[str]:
    return set((HERE / name).read_text().split())


def operator_of(name: str) -> str:
    """Return the first word of a test's name, most often an operator."""
    return name.removeprefix("test_").partition("_")[0]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return list(installed_cases())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_what_onnxruntime_passes_passes_through_a_net(cases: list[Case], part: int) -> None:
    """Run a share of the tests, some of each operator."""
    names = share(sorted(expected("expected_runtime.txt")), STRIDE, name=str, group=operator_of)
    wanted = set(names[part::PARTS])
    outcome = run_backend(case for case in cases if case.name in wanted)
    assert outcome.keys() == wanted
    assert {test: why for test, why in outcome.items() if why} == {}


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("part", range(PARTS))
def test_what_real_caffe2_computes(cases: list[Case], part: int) -> None:
    wanted = set(sorted(expected("expected_strict.txt"))[part::PARTS])
    outcome = run_strict(case for case in cases if case.name in wanted)
    assert outcome.keys() == wanted
    assert {test: why for test, why in outcome.items() if why} == {}


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(("stored", "symbolic"), [(True, False), (False, True), (True, True)])
def test_what_is_known_changes_no_result(cases: list[Case], stored: bool, symbolic: bool) -> None:
    """Run one test in 20, other ones for each form. Sizes that are not known may be asked for."""
    wanted = expected("expected_strict.txt")
    stride, start = 20, stored + 2 * symbolic
    chosen = [case for case in cases if case.name in wanted and crc32(case.name.encode()) % stride == start]
    outcome = run_strict(variants(chosen, stored=stored, symbolic=symbolic))
    assert len(outcome) > len(chosen) / 2
    assert {test: why for test, why in outcome.items() if why and not why.startswith("import: ")} == {}
    refused = {test: why for test, why in outcome.items() if why}
    assert len(refused) < len(outcome) / 5


@pytest.mark.slow
@pytest.mark.oracle
def test_what_the_peer_imports_is_imported() -> None:
    python = find_oracle()
    assert python is not None
    folder = next(python.parents[1].glob("lib/python*/site-packages/onnx/backend/test/data"))
    peer = {line for line in (HERE.parent / "golden" / "caffe2_importer_passes.txt").read_text().split("\n") if line}
    peer = {line for line in peer if not line.startswith("#")}
    wanted = expected("expected_strict_1_8.txt")
    assert wanted > peer
    assert len(wanted) > 1.5 * len(peer)
    outcome = run_strict(case for name in SUITES for case in folder_cases(folder / name) if case.name in wanted)
    assert {test: why for test, why in outcome.items() if why} == {}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the suite's own arithmetic overflows on purpose
def test_onnx_itself_takes_the_module_for_a_backend() -> None:
    """Use ONNX's own runner, on a handful of tests: its comparisons know neither text nor sequences well."""
    suite = BackendTest(onnx_backend, __name__).include(r"^test_(add|relu|gemm_all_attributes|lstm_defaults|if)_cpu$")
    tests = [
        getattr(kind(name), name)
        for kind in suite.test_cases.values()
        for name in vars(kind)
        if name
        in {"test_add_cpu", "test_relu_cpu", "test_gemm_all_attributes_cpu", "test_lstm_defaults_cpu", "test_if_cpu"}
    ]
    assert len(tests) == 5
    for test in tests:
        test()
