"""The report of a validation, as data. docs/validation.md describes the JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_validation.values import Difference, Tolerance

SCHEMA: Final = 1
AGREE, DISAGREE, FAILED = 0, 1, 2
NOT_COMPARED_WITH_CAFFE2: Final = "not compared with Caffe2"
# What runtimes of one conversion, or of the model itself, do not test.
_UNTESTED: Final[Mapping[tuple[str, ...], str]] = {("the export",): "the export", ("the ONNX model",): "its import"}


@dataclass(frozen=True)
class BlobResult:
    """One value of one case on one side, compared with the reference; ``depth`` counts the operators before it.

    A difference is ``outvoted`` where two better witnesses than one of the sides agree: it does not count.
    """

    case: str
    side: str
    name: str
    depth: int
    is_output: bool
    difference: Difference
    outvoted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        head = {"case": self.case, "side": self.side, "name": self.name, "depth": self.depth, "output": self.is_output}
        return head | ({"outvoted": True} if self.outvoted else {}) | self.difference.to_dict()


@dataclass(frozen=True)
class Failure:
    """A side that could not run a case."""

    case: str
    side: str
    reason: str


@dataclass(frozen=True)
class PairDifference:
    """Two sides of a matrix: the largest difference of any output, and whether all agree, over the cases both ran.

    ``worst`` is None if they differ in kind; both are None if no case ran in both, or no values were compared.
    """

    worst: float | None = None
    agrees: bool | None = None

    def __str__(self) -> str:
        """Return a few characters: the largest difference, marked if they disagree; ``-`` if nothing was compared."""
        if self.agrees is None:
            return "-"
        if self.worst is None:
            return "differ in kind"
        return f"{self.worst:.1e}" if self.agrees else f"{self.worst:.1e} !"


@dataclass(frozen=True)
class Divergence:
    """The first operator at which two sides disagree, from the lockstep.

    Attributes:
        operator: the location of the first operator that does not compute what the reference computes.
        op_type: its type.
        blob: the blob that it writes.
        iterations: the iterations of the loops around it, outermost first.
        timestep: the step at which they diverge: the innermost iteration, or for whole sequences their first wrong row.
        case: the case; side: the side.
        difference: of the operator's results, with the same inputs on both sides.
        suspects: if a net is compared with ONNX, the locations of the nodes between the last values that agree and
            this one, which have no counterpart on the other side; one of them is at fault, ``operator`` is the last.
        equally: other operators that explain the difference equally well, such as those of biases that were added.
        cause: how the ONNX node differs from that in a fresh export of the net; empty if unknown.
        growth: ``(location, largest difference)`` of the operators after it, each side with its own values.
        folder: of the repro; empty if none was asked for.
    """

    operator: str
    op_type: str
    blob: str
    iterations: tuple[int, ...]
    timestep: int | None
    case: str
    side: str
    difference: Difference
    suspects: tuple[str, ...] = ()
    equally: tuple[str, ...] = ()
    cause: str = ""
    growth: tuple[tuple[str, float], ...] = ()
    folder: str = ""

    def __str__(self) -> str:
        step = "" if self.timestep is None else f" at step {self.timestep}"
        operators = " or ".join((self.operator, *self.equally))
        cause = f"; {self.cause}" if self.cause else ""
        return f"{operators}{step}: {self.blob!r}: {self.difference.reason}{cause} ({self.side}, {self.case})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "operator": self.operator, "type": self.op_type, "blob": self.blob, "iterations": list(self.iterations),
            "timestep": self.timestep, "case": self.case, "side": self.side, "folder": self.folder,
            "difference": self.difference.to_dict(), "suspects": list(self.suspects),
            "equally": list(self.equally), "cause": self.cause,
            "growth": [[place, error] for place, error in self.growth],
        }  # fmt: skip


@dataclass(frozen=True)
class OptimizationFault:
    """Outputs that disagree though no operator does.

    Attributes:
        case: the case; side: the side.
        level: the lowest level of onnxruntime's graph optimizations at which they disagree; ``none`` if they disagree
            without any, and no optimization is at fault.
        optimizers: optimizers of which each alone, disabled at the level of the run, makes the outputs agree.
        nodes: ``type name`` of nodes that this level creates and the one below it does not.
        removed: how many nodes of each type this level removes.
    """

    case: str
    side: str
    level: str
    optimizers: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    removed: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        if self.level == "none":
            return f"no operator differs, and outputs differ without optimizations too ({self.side}, {self.case})"
        by = f" by {', '.join(self.optimizers)}" if self.optimizers else ""
        made = f"; it creates {', '.join(self.nodes)}" if self.nodes else ""
        gone = ", ".join(f"{count} {kind}" for kind, count in self.removed)
        taken = f"; it removes {gone}" if gone else ""
        return f"graph optimization, from level {self.level} on{by}{made}{taken} ({self.side}, {self.case})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "case": self.case, "side": self.side, "level": self.level, "optimizers": list(self.optimizers),
            "nodes": list(self.nodes), "removed": [list(pair) for pair in self.removed],
        }  # fmt: skip


@dataclass(frozen=True)
class NonFinite:
    """The first value of a run, operator by operator, that is not finite.

    Attributes:
        operator: the location of the operator that wrote it; empty if an input of the model holds it.
        op_type: its type.
        blob: the blob.
        kind: ``NaN`` or ``infinity``, the first of the blob; index: where in the blob.
        count: how many elements of the blob are not finite, of ``size``.
        iterations: of the loops around it, outermost first.
        read: the operands of the operator that are not finite already, such as weights; empty: the operator made it.
        case: the case; side: the side.
    """

    operator: str
    op_type: str
    blob: str
    kind: str
    index: tuple[int, ...]
    count: int
    size: int
    iterations: tuple[int, ...]
    read: tuple[str, ...]
    case: str
    side: str

    def __str__(self) -> str:
        step = f" at step {self.iterations[-1]}" if self.iterations else ""
        writer = f"{self.operator}{step} writes" if self.operator else "the inputs hold"
        source = f"; it reads {', '.join(map(repr, self.read))}, which are not finite" if self.read else ""
        count = f"{self.count} of {self.size} elements are not finite"
        return f"{writer} {self.kind} to {self.blob!r}{list(self.index)}: {count}{source} ({self.side}, {self.case})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return vars(self) | {"index": list(self.index), "iterations": list(self.iterations), "read": list(self.read)}


@dataclass(frozen=True)
class ValidationReport:
    """The result of a validation.

    Attributes:
        model: the name or path of the model.
        reference: the side that the others are compared with.
        sides: the labels of all sides, the reference first.
        results: every comparison.
        failures: what could not run. A side that could not run at all has case ``*``.
        absent: missing default runtimes, with the reason.
        versions: of every part, by name.
        seed: of the generated inputs; None if inputs were given.
        random_weights: names of synthesized weights. With these the report compares runtimes, and not the model.
        notes: what a reader should know.
        cases: names of the cases.
        guessed: inputs whose shape nothing declares, and that were taken to be one element.
        pairs: the difference of each pair of sides, if all pairs were asked for.
        divergences: the first operators that disagree, if the lockstep was asked for.
        optimizations: if sides disagree and no operator does, the faults of onnxruntime's graph optimizations.
        nonfinite: the first value of each case that is not finite, on the reference side, if it was asked for; None if
            it was not.
        seconds: the duration.
        tolerances: by dtype, for one operator; values of other dtypes are equal.
        command: the command line; empty if the validation was not started by one.
        subjects: what the compared sides run, in words: the model itself, or conversions of it.
        compared_with_caffe2: whether one of the compared sides is real Caffe2.
        compared_with_net_evaluator: whether one of the compared sides evaluates the net itself, neither in real Caffe2
            nor by converters that the export shares.
    """

    model: str
    reference: str
    sides: tuple[str, ...]
    results: tuple[BlobResult, ...] = field(repr=False)
    failures: tuple[Failure, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    cases: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    random_weights: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pairs: Mapping[tuple[str, str], PairDifference] = field(default_factory=dict)
    divergences: tuple[Divergence, ...] = ()
    optimizations: tuple[OptimizationFault, ...] = ()
    nonfinite: tuple[NonFinite, ...] | None = None
    seconds: float = 0.0
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    command: str = ""
    subjects: tuple[str, ...] = ()
    compared_with_caffe2: bool = False
    compared_with_net_evaluator: bool = False

    def __repr__(self) -> str:
        return short_repr(
            self, self.model, verdict=self.verdict_text, sides=self.sides, cases=len(self.cases),
            wrong=tuple(dict.fromkeys(result.name for result in self.wrong)),
            failures=tuple(dict.fromkeys(failure.side for failure in self.failures)),
        )  # fmt: skip

    def _repr_html_(self) -> str:
        from caffe2_bridge.diagnostics.html_repr import html_by

        return html_by("caffe2_validation.render.notebook:report_html", self)

    @property
    def matrix(self) -> dict[tuple[str, str], float | None]:
        """Largest difference for each pair of sides; None if a pair differs in kind, or did not run."""
        return {sides: pair.worst for sides, pair in self.pairs.items()}

    @property
    def agrees(self) -> bool:
        """Whether every output of every case is equal within its tolerance, and everything ran."""
        return self.exit_code == AGREE

    @property
    def wrong(self) -> tuple[BlobResult, ...]:
        """The outputs that disagree. Intermediate blobs are reported, and do not affect the verdict."""
        wrong = (result for result in self.results if result.is_output and not result.difference.agrees)
        return tuple(result for result in wrong if not result.outvoted)

    @property
    def exit_code(self) -> int:
        """0: all agree; 1: something disagrees; 2: something could not run, or nothing was compared."""
        if self.wrong or self.divergences:
            return DISAGREE
        return FAILED if self.failures or not any(result.is_output for result in self.results) else AGREE

    @property
    def verdict(self) -> str:
        """The result in words: ``agree``, ``disagree`` or ``could not run``."""
        return ("agree", "disagree", "could not run")[self.exit_code]

    @property
    def verdict_text(self) -> str:
        """The verdict for readers: an agreement that is not one with real Caffe2 says what was compared."""
        if self.exit_code != AGREE:
            return self.verdict
        if not self._compares_values:
            return f"{self.verdict} (shapes and dtypes of outputs; no number is compared)"
        if self.compared_with_caffe2:
            return self.verdict
        compared = f"runtimes of {self.subjects[0]}" if len(self.subjects) == 1 else " and ".join(self.subjects)
        return f"{self.verdict} ({'; '.join(filter(None, (compared, NOT_COMPARED_WITH_CAFFE2)))})"

    @property
    def _compares_values(self) -> bool:
        return any(result.is_output and result.difference.compared for result in self.results)

    @property
    def proof(self) -> str:
        """What the verdict proves, and what it does not, in a sentence or two."""
        if self.exit_code == FAILED:
            return "Nothing is proved: not everything ran, or no output was compared."
        if self.exit_code == DISAGREE:
            return "The sides compute different values for the same inputs, beyond what rounding explains."
        if not self._compares_values:
            return "Shapes and dtypes of the outputs are the same; no number was compared."
        inputs = "the given inputs" if self.seed is None else f"generated inputs (seed {self.seed})"
        cases = f"{len(self.cases)} case{'' if len(self.cases) == 1 else 's'} of {inputs}"
        weights = " The weights are synthesized: this compares runtimes, not the model." if self.random_weights else ""
        against = "as real Caffe2 does" if self.compared_with_caffe2 else "on all sides, none of which is real Caffe2"
        return (
            f"For {cases} every output is the same, within the tolerance of its type, {against}. Other inputs, and "
            f"branches that these do not take, were not tried.{weights}"
        )

    @property
    def caveat(self) -> str:
        """Why the model was not compared with real Caffe2, and what that leaves untested; empty if it was."""
        if self.compared_with_caffe2:
            return ""
        reason = self.absent.get("caffe2", "it is not among the runtimes that were compared")
        untested = _UNTESTED.get(self.subjects)
        scope = f" This tests runtimes on {self.subjects[0]}, not {untested}." if untested else ""
        return f"Not compared with Caffe2 ({reason}).{scope}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        found = self.nonfinite
        return {
            "schema": SCHEMA, "model": self.model, "verdict": self.verdict, "exit_code": self.exit_code,
            "compared_with_caffe2": self.compared_with_caffe2,
            "compared_with_net_evaluator": self.compared_with_net_evaluator, "reference": self.reference,
            "sides": list(self.sides), "cases": list(self.cases), "seed": self.seed,
            "guessed": list(self.guessed), "random_weights": list(self.random_weights), "notes": list(self.notes),
            "seconds": round(self.seconds, 3), "versions": dict(self.versions),
            "absent": dict(self.absent), "failures": [vars(failure) for failure in self.failures],
            "results": [result.to_dict() for result in self.results],
            "matrix": [[one, other, worst] for (one, other), worst in self.matrix.items()],
            "pairs": [[*sides, pair.agrees] for sides, pair in self.pairs.items()],
            "divergences": [divergence.to_dict() for divergence in self.divergences],
            "tolerances": {name: vars(allowed) for name, allowed in self.tolerances.items()},
            "command": self.command,
            "optimizations": [fault.to_dict() for fault in self.optimizations],
            "nonfinite": None if found is None else [value.to_dict() for value in found],
        }  # fmt: skip

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), indent=2)
