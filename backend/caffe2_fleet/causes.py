"""Why models fail: causes that group them, and the operators that stop their export."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from caffe2_bridge.diagnostics import Diagnostic
from caffe2_fleet.result import ModelResult

_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\S*/\S*")
_NUMBER: Final = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")
_LONGEST: Final = 100


@dataclass(frozen=True)
class Blocker:
    """A diagnostic that stops exports.

    Attributes:
        code: of the diagnostic.
        operator: the type of the operator; empty for one of a whole net.
        models: the names of the models that have it.
        alone: those that have no other.
    """

    code: str
    operator: str
    models: Sequence[str]
    alone: Sequence[str]


def find_blockers(results: Iterable[ModelResult]) -> list[Blocker]:
    """Return the errors of all exports by code and operator, that of most models first."""
    models: dict[tuple[str, str], list[str]] = defaultdict(list)
    alone: dict[tuple[str, str], list[str]] = defaultdict(list)
    for result in results:
        errors = dict.fromkeys(
            (str(finding["code"]), str(finding["location"]["op_type"]))
            for finding in result.findings
            if finding["severity"] == "error"
        )
        for error in errors:
            models[error].append(result.model)
            if len(errors) == 1:
                alone[error].append(result.model)
    found = [Blocker(*error, names, alone[error]) for error, names in models.items()]
    return sorted(found, key=lambda blocker: (-len(blocker.models), blocker.code, blocker.operator))


def group_by_cause(results: Iterable[ModelResult]) -> dict[tuple[str, str], list[ModelResult]]:
    """Return the models that do not agree, by verdict and cause, the most frequent first."""
    found: dict[tuple[str, str], list[ModelResult]] = defaultdict(list)
    for result in results:
        if result.verdict != "agree":
            found[result.verdict, result.cause].append(result)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def cause_of_errors(errors: Sequence[Diagnostic]) -> str:
    """Return the cause of an export that was refused: the first error that known sizes would not mend."""
    first = min(errors, key=lambda finding: finding.code == "needs-shape", default=None)
    return "" if first is None else f"{first.code}: {first.location.op_type}".removesuffix(": ")


def cause_of_text(text: str) -> str:
    """Return an error message without the names and numbers of its model."""
    return " ".join(_NUMBER.sub("N", _QUOTED.sub("...", text)).split())[:_LONGEST]


def cause_of_sides(verdict: str, sides: Iterable[str]) -> str:
    """Return the cause of a disagreement, or of runtimes that failed: the sides at fault."""
    names = ", ".join(dict.fromkeys(sides))
    return {"disagree": f"differs in {names}", "could not run": f"fails in {names}"}.get(verdict, "")
