"""Create and run nets and operators in the current workspace."""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from caffe2_backend.runtime.calls.blob_workspace import Net
from caffe2_backend.runtime.host.objects.stat_registry import GLOBAL_STATISTICS
from caffe2_backend.runtime.host.registry import HOST_OPERATORS
from caffe2_bridge.diagnostics import RunError
from caffe2_compat.workspace.blob_access import CreateBlob
from caffe2_compat.workspace.named_workspaces import current
from caffe2_compat.workspace.names import GetNetName
from caffe2_frontend import supported_operators

T = TypeVar("T")
logger = logging.getLogger(__name__)

# For each net and index of an operator, the lines of Python (file, line, function) that added it, innermost last.
operator_tracebacks: Final[defaultdict[str, dict[int, list[tuple[str, int, str]]]]] = defaultdict(dict)


def CreateNet(net: Net, overwrite: bool = False, input_blobs: Iterable[object] | None = None) -> bool:
    """Prepare a net to be run by name.

    Args:
        net: the net.
        overwrite: whether to replace a net of the same name; RunError is raised otherwise.
        input_blobs: blobs to create. The net's inputs need not exist before it runs, unlike in Caffe2.
    """
    for name in input_blobs or ():
        CreateBlob(name)
    current().create_net(net, overwrite=overwrite)
    return True


def Nets() -> list[str]:
    """Return the names of the nets that were created."""
    return current().nets()


def RunNet(name: object, num_iter: int = 1, allow_fail: bool = False) -> bool:
    """Run a net that was created, given by name or as a net, ``num_iter`` times.

    With ``allow_fail``, return False if a run fails, instead of raising RunError. A net that does not exist raises
    RunError in either case.
    """
    net = name.decode() if isinstance(name, bytes) else GetNetName(name)
    try:
        current().run_net(net, num_iter)
    except RunError:
        if not allow_fail or net not in Nets():
            raise
        return False
    return True


def RunNetOnce(net: Net) -> bool:
    """Run a net without creating it."""
    current().run_net_once(net)
    return True


def RunOperatorOnce(operator: Message | bytes) -> bool:
    """Run one operator."""
    current().run_operator_once(operator)
    return True


def RunOperatorMultiple(operator: Message | bytes, num_runs: int) -> bool:
    """Run one operator several times."""
    current().run_operator_once(operator, num_runs)
    return True


def RunOperatorsOnce(operators: Iterable[Message | bytes]) -> bool:
    """Run operators in order."""
    for operator in operators:
        RunOperatorOnce(operator)
    return True


def RegisteredOperators() -> list[str]:
    """Return the operator types that can be run."""
    converted = {op_type for types in supported_operators().values() for op_type in types}
    return sorted(converted.union(HOST_OPERATORS))


def CallWithExceptionIntercept(
    func: Callable[..., T], op_id_fetcher: Callable[[], int], net_name: str, *args: Any, **kwargs: Any
) -> T:
    """Return ``func(*args, **kwargs)``; if it raises, log which line of Python added the operator that failed.

    ``op_id_fetcher`` returns the index of that operator, and ``operator_tracebacks[net_name]`` holds the lines.
    """
    try:
        return func(*args, **kwargs)
    except Exception:
        index = op_id_fetcher()
        logger.warning("Traceback of operator %s in net %r, most recent call last:", index, net_name)
        for file, line, function in reversed(operator_tracebacks.get(net_name, {}).get(index, [])):
            logger.warning('  File "%s", line %s, in %s', file, line, function)
        raise


def ClearGlobalNetObserver() -> None:
    """Do nothing: nets do not have observers."""


def GetStats() -> dict[str, int]:
    """Return the statistics that operators exported: numbers by name."""
    return {one.key: one.value for one in GLOBAL_STATISTICS.export(reset=False)}
