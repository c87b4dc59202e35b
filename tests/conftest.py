"""Markers for tests that need what not every machine has: real Caffe2, PyTorch, a GPU.

Where it is absent, such a test is skipped and says why. The environment variable ``CAFFE2_BRIDGE_REQUIRE``
(``torch,oracle``) names markers whose tests must run: a skip of theirs is then a failure, whatever skipped them.

In all tests passes are held to their kind, and diagnostics to known codes (``CAFFE2_BRIDGE_VERIFY``).
"""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Callable, Generator, Mapping
from functools import cache
from random import Random
from typing import Final

import hypothesis
import pytest
from conformance.oracle import find_oracle
from support.random_values import RandomValues


def missing_oracle() -> str:
    """Why real Caffe2 cannot be asked; empty where it can."""
    return "" if find_oracle() else "real Caffe2 is not installed (scripts/oracle installs it)"


def missing_torch() -> str:
    """Why PyTorch cannot be used."""
    return "" if importlib.util.find_spec("torch") else "PyTorch is not installed (extra: torch)"


def missing_gpu() -> str:
    """Why onnxruntime cannot compute on a CUDA device."""
    from caffe2_backend.runtime.sessions.onnxruntime_library import missing_cuda

    return missing_cuda()


# Also for processes that tests start.
os.environ["CAFFE2_BRIDGE_VERIFY"] = "1"

# A shell without job control starts background commands with Ctrl-C ignored, which tests of interrupts would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are the same in every run, and may take long where the machine has other work: the fuzzers draw new ones.
hypothesis.settings.register_profile(
    "project", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("project")

NEEDS: Final[Mapping[str, Callable[[], str]]] = {
    "oracle": cache(missing_oracle),
    "torch": cache(missing_torch),
    "gpu": cache(missing_gpu),
}


def required(item: pytest.Item) -> str:
    """The marker of a test that says that it must not be skipped; empty where it may be."""
    names = os.environ.get("CAFFE2_BRIDGE_REQUIRE", "").split(",")
    needed = [name for name in NEEDS if item.get_closest_marker(name)]
    if any(NEEDS[name]() for name in needed if name not in names):
        return ""  # it needs something else too, which nobody requires and which is absent
    return next((name for name in needed if name in names), "")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs what is absent."""
    for name, missing in NEEDS.items():
        if item.get_closest_marker(name) and (reason := missing()):
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a required test into a failure."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and (name := required(item)):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"CAFFE2_BRIDGE_REQUIRE names {name!r}, and this test was skipped: {reason}"
    return report


@pytest.fixture
def random(request: pytest.FixtureRequest) -> RandomValues:
    """Random operands, seeded by the test's name."""
    return RandomValues(request.node.name)


@pytest.fixture
def empty_workspace() -> Generator[None]:
    """Reset the workspaces that :mod:`caffe2_backend.workspace` shares, before and after a test."""
    from caffe2_backend import workspace

    workspace.ResetWorkspace()
    yield
    workspace.SwitchWorkspace("default")
    workspace.ResetWorkspace()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--shuffle``."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the tests where asked; every worker of pytest-xdist has the same order."""
    if (seed := config.getoption("--shuffle")) is not None:
        Random(seed).shuffle(items)  # noqa: S311 - an order, no secret
