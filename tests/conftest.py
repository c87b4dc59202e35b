"""Markers for tests that need what not every machine has: real Caffe2, PyTorch, a GPU.

Where it is absent, such tests are left out when tests are collected, and take no time; the summary says how many, and
why. The environment variable ``CAFFE2_BRIDGE_REQUIRE`` (``torch,oracle``) names markers whose tests must run: that they
need what is absent, or are skipped, is then a failure.

Quick tests run before slow ones. Warnings in our own modules are errors, those in other people's code are not. In all
tests passes are held to their kind, and diagnostics to known codes (``CAFFE2_BRIDGE_VERIFY``).
"""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from functools import cache
from random import Random
from typing import Any, Final

import hypothesis
import pytest
from conformance.oracle import find_oracle
from support.random_values import RandomValues


def missing_oracle() -> str:
    """Return why real Caffe2 cannot be asked; empty where it can."""
    return "" if find_oracle() else "real Caffe2 is not installed (scripts/oracle installs it)"


def missing_torch() -> str:
    """Return why PyTorch cannot be used."""
    return "" if importlib.util.find_spec("torch") else "PyTorch is not installed (extra: torch)"


def missing_gpu() -> str:
    """Return why onnxruntime cannot compute on a CUDA device."""
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
LEFT_OUT: Final = pytest.StashKey[Counter[str]]()  # how many tests cannot run, by reason


def missing_needs(item: pytest.Item) -> dict[str, str]:
    """Return why a test cannot run, by the marker that says what it needs."""
    return {name: reason for name, missing in NEEDS.items() if (reason := missing()) and item.get_closest_marker(name)}


def required(item: pytest.Item) -> str:
    """Return the marker of a test that says that it must not be skipped; empty where it may be."""
    names = os.environ.get("CAFFE2_BRIDGE_REQUIRE", "").split(",")
    if missing_needs(item).keys() - set(names):
        return ""  # it needs something else too, which nobody requires and which is absent
    return next((name for name in NEEDS if name in names and item.get_closest_marker(name)), "")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a required test that cannot run, which makes it a failure."""
    for reason in missing_needs(item).values():
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
    """Reset the workspaces that :mod:`caffe2_compat.workspace` shares, before and after a test."""
    from caffe2_compat import workspace

    workspace.ResetWorkspace()
    yield
    workspace.SwitchWorkspace("default")
    workspace.ResetWorkspace()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--shuffle``."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order")


def pytest_configure(config: pytest.Config) -> None:
    """Make warnings in our own modules errors: the tests, and the packages of the folders in ``pythonpath``."""
    packages = {init.parent.name for folder in config.getini("pythonpath") for init in folder.glob("*/__init__.py")}
    ours = "|".join(sorted({"conftest", "tests", *packages}))
    config.stash[LEFT_OUT] = Counter()
    config.addinivalue_line("filterwarnings", rf"error:::({ours})(\.|$)")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: an archive holds the time of day, and workers must collect the same names."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what lives as long as the run: neither while it is made, nor in each test.

    Of what tests make, little is garbage in cycles: it is looked for less often than Python does.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that cannot run, and put slow ones last; shuffle where asked: every worker has the same order."""
    reasons = {item: next(iter(missing_needs(item).values()), "") for item in items if not required(item)}
    left_out = [item for item in items if reasons.get(item)]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT].update(reasons[item] for item in left_out)
    items[:] = [item for item in items if not reasons.get(item)]
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
    if (seed := config.getoption("--shuffle")) is not None:
        Random(seed).shuffle(items)  # noqa: S311 - an order, no secret


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker of pytest-xdist left out: each leaves out the same."""
    node.config.stash[LEFT_OUT] |= Counter(node.workeroutput.get("left_out", {}))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Tell pytest-xdist what was left out. That all tests were is no failure."""
    left_out = session.config.stash[LEFT_OUT]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(left_out)
    elif left_out and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, and why."""
    for reason, count in sorted(terminalreporter.config.stash[LEFT_OUT].items()):
        terminalreporter.write_line(f"LEFT OUT [{count}] {reason}")
