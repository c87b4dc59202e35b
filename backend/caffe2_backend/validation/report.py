"""What a validation found, as data. docs/validation.md describes the JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from caffe2_backend.validation.compare import Difference
from caffe2_backend.validation.diagnose.optimizations import OptimizationFault

SCHEMA: Final = 1
AGREE, DISAGREE, FAILED = 0, 1, 2


@dataclass(frozen=True)
class BlobResult:
    """One value of one case on one side, against the reference. ``depth`` counts the operators before it."""

    case: str
    side: str
    name: str
    depth: int
    is_output: bool
    difference: Difference

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        head = {"case": self.case, "side": self.side, "name": self.name, "depth": self.depth, "output": self.is_output}
        return head | self.difference.to_dict()


@dataclass(frozen=True)
class Failure:
    """A side that could not run a case."""

    case: str
    side: str
    reason: str


@dataclass(frozen=True)
class Pair:
    """Two sides of a matrix: the largest difference of any output, and whether all agree, over the cases both ran.

    ``worst`` is None where they differ in kind; both are None where there is no case that both ran.
    """

    worst: float | None = None
    agrees: bool | None = None


@dataclass(frozen=True)
class Divergence:
    """Where two sides part, from the lock step.

    Attributes:
        operator: the place of the first operator that does not compute what the reference computes.
        op_type: its type.
        blob: the blob that it writes.
        iterations: the iterations of the loops around it, outermost first.
        timestep: the step at which they part: the innermost iteration, or for whole sequences their first wrong row.
        case: of which case; side: on which side.
        difference: how far apart, with both sides given the same inputs.
        suspects: where a net is compared with ONNX: places of the nodes between the last values that agree and this
            one, which both sides do not share; the fault is in one of them, ``operator`` is the last.
        equally: other operators that explain the difference just as well, such as those of biases that were added.
        cause: what the node of ONNX has otherwise than in a fresh export of the net; empty where it is not known.
        growth: ``(place, largest difference)`` of what comes after it, each side with its own values.
        folder: where the repro lies; empty where none was asked for.
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
        """Plain data for JSON."""
        return {
            "operator": self.operator, "type": self.op_type, "blob": self.blob, "iterations": list(self.iterations),
            "timestep": self.timestep, "case": self.case, "side": self.side, "folder": self.folder,
            "difference": self.difference.to_dict(), "suspects": list(self.suspects),
            "equally": list(self.equally), "cause": self.cause,
            "growth": [[place, error] for place, error in self.growth],
        }  # fmt: skip


@dataclass(frozen=True)
class ValidationReport:
    """The result of a validation.

    Attributes:
        model: what was validated.
        reference: the side that the others are compared with.
        sides: all of them, the reference first.
        results: every comparison.
        failures: what could not run. A side that could not run at all has case ``*``.
        absent: runtimes that are not here, with the reason.
        versions: of every part, by name.
        seed: of the generated inputs; None where inputs were given.
        random_weights: names of weights that the model lacks and that were made up: what agrees or not are runtimes.
        notes: what a reader should know, in words.
        cases: their names; guessed: inputs of which the net says nothing, and that were taken to be one element.
        pairs: each pair of sides, where all pairs were asked for; ``matrix`` is their largest differences.
        divergences: where sides part, where the lock step was asked for.
        optimizations: where sides disagree and no operator does: what onnxruntime's graph optimizations have to do
            with it.
        seconds: how long it took.
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
    pairs: Mapping[tuple[str, str], Pair] = field(default_factory=dict)
    divergences: tuple[Divergence, ...] = ()
    optimizations: tuple[OptimizationFault, ...] = ()
    seconds: float = 0.0

    @property
    def matrix(self) -> dict[tuple[str, str], float | None]:
        """Largest difference for each pair of sides; None where a pair differs in kind, or did not run."""
        return {sides: pair.worst for sides, pair in self.pairs.items()}

    @property
    def agrees(self) -> bool:
        """Whether every output of every case is equal within its tolerance, and everything ran."""
        return self.exit_code == AGREE

    @property
    def wrong(self) -> tuple[BlobResult, ...]:
        """The outputs that disagree. Blobs in between are told, and do not decide."""
        return tuple(result for result in self.results if result.is_output and not result.difference.agrees)

    @property
    def exit_code(self) -> int:
        """0: all agree; 1: something disagrees; 2: something could not run, or nothing was compared."""
        if self.wrong or self.divergences:
            return DISAGREE
        return FAILED if self.failures or not any(result.is_output for result in self.results) else AGREE

    @property
    def verdict(self) -> str:
        """The result in a word or two."""
        return ("agree", "disagree", "could not run")[self.exit_code]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema": SCHEMA, "model": self.model, "verdict": self.verdict, "exit_code": self.exit_code,
            "reference": self.reference, "sides": list(self.sides), "cases": list(self.cases), "seed": self.seed,
            "guessed": list(self.guessed), "random_weights": list(self.random_weights), "notes": list(self.notes),
            "seconds": round(self.seconds, 3), "versions": dict(self.versions),
            "absent": dict(self.absent), "failures": [vars(failure) for failure in self.failures],
            "results": [result.to_dict() for result in self.results],
            "matrix": [[one, other, worst] for (one, other), worst in self.matrix.items()],
            "pairs": [[*sides, pair.agrees] for sides, pair in self.pairs.items()],
            "divergences": [divergence.to_dict() for divergence in self.divergences],
            "optimizations": [fault.to_dict() for fault in self.optimizations],
        }  # fmt: skip

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=2)
