"""What hints say to type is right: the net converts, with the same interface where it converted before."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from conformance.corpus import CaseRef, find_cases, read_case
from conformance.hints import End, folder_outcomes, type_hints
from support.paths import GOLDEN, ROOT

from caffe2_bridge.model import Model

_REFS: Final = [ref for ref in find_cases(GOLDEN) if not ref.gradients]
# The first case of every sixth operator type, and a share of the nets.
_OPERATORS: Final = [
    *{r.group: r for r in reversed(_REFS) if r.id.startswith("ops/")}.values(),
    *{r.group: r for r in reversed(_REFS) if r.id.startswith("recorded/ops/")}.values(),
][::6]
_NETS: Final = [r for r in _REFS if r.kind == "net"][::50]
_FOLDERS: Final = [ROOT.parent / "shared" / name for name in ("third_party", "cases")]
_GOOD: Final = {End.NOTHING, End.RIGHT, End.OTHER_INPUTS, End.NO_CONVERSION}


@pytest.mark.parametrize("ref", [*_OPERATORS, *_NETS], ids=lambda ref: ref.id)
def test_what_hints_say_is_right(ref: CaseRef) -> None:
    case = read_case(ref)
    outcome = type_hints(ref.id, Model.of(case.net, case.init_net), case.inputs)
    # How long a list of sizes is, the export asks alone: a check does not need it.
    assert outcome.end in _GOOD or "the rank of output" in outcome.reason, outcome


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
def test_hints_of_real_files_can_be_typed(folder: Path) -> None:
    if not folder.is_dir():
        pytest.skip(f"{folder.name} is not here")
    outcomes = list(folder_outcomes(folder))
    assert outcomes
    assert [each for each in outcomes if each.end in (End.UNTYPABLE, End.OTHER_INTERFACE)] == []
