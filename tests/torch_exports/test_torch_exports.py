"""PyTorch's recurrent modules through its exporters and the import, in real Caffe2 and here, against PyTorch.

What an exporter refuses, and what Caffe2 cannot say, stands in the tables below with the words that say so.
"""

from __future__ import annotations

import re
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pytest
from conformance.oracle import find_oracle
from support.share import share

if TYPE_CHECKING:
    from torch_exports.judge import Exported

# PyTorch tells in warnings which of its implementations runs.
pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]

KINDS: Final = ("lstm", "gru", "rnn-tanh", "rnn-relu")
TORCHSCRIPT_OPSETS: Final = (9, 11, 13, 14, 16, 17, 18, 19, 20)
STRIDE: Final = 6
DYNAMO_OPSETS: Final = (11, 17, 18, 20, 21, 22, 23)
GROUPS: Final = (
    *(f"torchscript {what} {kind}" for what in ("matrix", "options", "cells") for kind in KINDS),
    *(f"torchscript opsets {kind}" for kind in KINDS[:3]),
    *(f"torchscript scripted {kind}" for kind in KINDS[:3]),
    "torchscript models",
    "torchscript architectures",
    *(f"dynamo {what} {kind}" for what in ("matrix", "options", "cells") for kind in KINDS),
    *(f"dynamo opsets {kind}" for kind in KINDS[:3]),
    "dynamo models",
    "dynamo architectures",
)

# The exporter's words, by exporter and name: a pattern of the case's name (its group before it), a pattern of them.
REFUSED: Final[dict[str, dict[str, str]]] = {
    "torchscript": {
        r"options lstm: proj_size": r"aten::lstm|LSTMs with projections",
        r"models: classifier-packed": r"_M_range_check",  # a packed sequence of which the rows are not asked for
        r"models: (scan|cond)": r"dynamo-optimized function",
    },
    "dynamo": {
        # torch.export makes the states of a packed sequence, or asks whether it is empty, at trace time.
        r".*(packed|mixed)(-given)?": r"argument 'size' failed to unpack|data-dependent|batch_sizes",
    },
}
# What is refused or wrong before the import sees it: onnxruntime does not run the exporter's own model.
UNSOUND: Final[dict[str, dict[str, str]]] = {
    "torchscript": {r"options .*: double": r"does not support double|Could not find an implementation"},
    "dynamo": {
        r"options (lstm|gru): double": r"does not support double",
        r"options lstm: proj_size": r"initial_c must have shape",  # the projection's weights are left out
        r"opsets gru: opset-11": r"invalid dimensions for input: in1",  # brought to opset 11, the state has a fixed N
    },
}
# What Caffe2 cannot say: the finding.
_OF_FLOAT: Final = r"is double, and Caffe2 computes \w+ of float only"
FINDINGS: Final[dict[str, dict[str, str]]] = {
    "torchscript": {r"options .*: double": _OF_FLOAT},
    "dynamo": {r"options (lstm|gru): double": _OF_FLOAT},
}


def every_case(group: str) -> list[Any]:
    from torch_exports import cases as known

    exporter, what, *kind = group.split()
    match what:
        case "matrix":
            made = known.matrix(*kind)
        case "options":
            made = known.options(*kind)
        case "cells":
            made = known.cells(*kind)
        case "scripted":
            made = known.scripted(*kind)
        case "architectures":
            made = known.whole_architectures()
        case "opsets":
            made = known.opsets(*kind, TORCHSCRIPT_OPSETS if exporter == "torchscript" else DYNAMO_OPSETS)
        case _:
            made = known.whole_models()
    if exporter == "torchscript":
        return list(made)
    return [case if case.name in known.OPEN_STEPS else case.with_fixed_steps() for case in made]


@cache
def chosen(exporter: str, what: str) -> frozenset[tuple[str, str]]:
    """Return a share of the cases of several kinds of cells, as groups and names: none of a name is left out.

    Of each kind there is a case of each verdict of the tables. An export takes seconds.
    """
    groups = [group for group in GROUPS if group.split()[:2] == [exporter, what]]
    every = [(group, case.name) for group in groups for case in every_case(group)]
    tables = (REFUSED[exporter], UNSOUND[exporter], FINDINGS[exporter])

    def verdicts(pair: tuple[str, str]) -> tuple[str | None, ...]:
        return (pair[0], *(said(table, *pair) for table in tables))

    # A matrix has all combinations of a few options, and a name is one of them.
    by_name = share(every, STRIDE, name=" ".join, group=itemgetter(1)) if what != "matrix" else ()
    return frozenset((*by_name, *share(every, STRIDE, name=" ".join, group=verdicts)))


def cases(group: str) -> list[Any]:
    exporter, what, *kind = group.split()
    return [case for case in every_case(group) if not kind or (group, case.name) in chosen(exporter, what)]


@cache
def exports(group: str) -> tuple[list[Exported], dict[str, str]]:
    from torch_exports.judge import refusals

    return refusals(cases(group), "torchscript" if group.startswith("torchscript") else "dynamo")


def said(table: dict[str, str], group: str, name: str) -> str | None:
    """Return the pattern that a table has for a case."""
    place = f"{group.partition(' ')[2]}: {name}"
    return next((words for pattern, words in table.items() if re.fullmatch(pattern, place)), None)


def sound(group: str) -> list[Exported]:
    exporter = group.split(maxsplit=1)[0]
    return [item for item in exports(group)[0] if said(UNSOUND[exporter], group, item.case.name) is None]


def failures(outcome: dict[str, str]) -> dict[str, str]:
    return {name: why for name, why in outcome.items() if why}


def check_exporter(group: str) -> None:
    """Check that what is exported is what PyTorch computes, and that what is not is refused as expected."""
    from torch_exports.judge import in_onnxruntime

    exporter = group.split(maxsplit=1)[0]
    made, refused = exports(group)
    for name, why in refused.items():
        words = said(REFUSED[exporter], group, name)
        assert words is not None, f"{name}: {why[-800:]}"
        assert re.search(words, why), f"{name}: {why[-800:]}"
    assert not [item.case.name for item in made if said(REFUSED[exporter], group, item.case.name)]
    for name, why in in_onnxruntime(made).items():
        words = said(UNSOUND[exporter], group, name)
        assert re.search(words, why) if words else not why, f"{name}: {why}"


def check_caffe2(group: str) -> None:
    """Check strict imports in real Caffe2."""
    from torch_exports.judge import in_caffe2

    without = FINDINGS[group.split(maxsplit=1)[0]]
    outcome = in_caffe2([item for item in sound(group) if not said(without, group, item.case.name)])
    assert outcome
    assert failures(outcome) == {}


def check_here(group: str) -> None:
    """Check both targets in this project's runtime."""
    from torch_exports.judge import in_predictor

    items, findings = sound(group), FINDINGS[group.split(maxsplit=1)[0]]
    known = [item for item in items if not said(findings, group, item.case.name)]
    assert failures(in_predictor(known, strict=True)) == {}
    assert failures(in_predictor(items, strict=False)) == {}


def check_findings(group: str) -> None:
    """Check that what Caffe2 cannot say is told."""
    from caffe2_backend import to_netdef
    from caffe2_bridge.diagnostics import ConversionError

    exporter = group.split(maxsplit=1)[0]
    for item in exports(group)[0]:
        words = said(FINDINGS[exporter], group, item.case.name)
        if words is not None:
            with pytest.raises(ConversionError) as raised:
                to_netdef(item.model)
            assert any(re.search(words, finding.reason) for finding in raised.value.findings)


def where() -> list[Any]:
    """Return the groups; where there is no real Caffe2, those whose exports take little time."""
    return [
        group if group.startswith("torchscript") else pytest.param(group, marks=pytest.mark.oracle) for group in GROUPS
    ]


@pytest.mark.parametrize("group", where())
def test_exports(group: str) -> None:
    """Check all of a group at once: exports take the time."""
    check_exporter(group)
    if find_oracle():
        check_caffe2(group)
    check_here(group)
    check_findings(group)


@pytest.mark.filterwarnings("ignore")  # of torch.export, about the module's own weights
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn-tanh"])
def test_torch_export_fixes_the_number_of_steps(kind: str) -> None:
    """Show why the cases of its exporter have a fixed number of steps."""
    import torch

    from torch_exports.cases import recurrent
    from torch_exports.export import build

    case = recurrent("open", kind)
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with pytest.raises(Exception, match="specialized it to be a constant"):
        torch.export.export(build(case), case.inputs(5, 3), dynamic_shapes=(axes,), strict=False)


@pytest.mark.parametrize("kind", ["gru", "rnn-tanh"])
def test_torchscript_has_no_scripted_cell(kind: str) -> None:
    """Show why the scripted loops hold cells that are written out, where ``nn.LSTMCell`` can stand as it is."""
    import torch

    from torch_exports import models
    from torch_exports.cases import CELLS, Case, x_input
    from torch_exports.export import ExporterError, export

    module = models.scripted(models.LoopOfOne(CELLS[kind](4, 6)))
    case = Case("cell", lambda: module, lambda t, n: (x_input(t, n), torch.zeros(n, 6)), ({0: "T", 1: "N"}, {0: "N"}))
    with pytest.raises(ExporterError, match="onnx::Constant"):
        export(case, module, "torchscript")
