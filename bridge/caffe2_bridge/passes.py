"""The pass runner that both directions share.

A pass is an object with one verb, its call: it takes a state and returns a new one. What must hold before it and what
holds after it are named facts, so that the order of a pipeline is stated by the passes and not by comments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Severity

S = TypeVar("S")


class Pass(Protocol[S]):
    """One step of a pipeline over states of type ``S``."""

    requires: ClassVar[frozenset[str]]
    ensures: ClassVar[frozenset[str]]

    def __call__(self, state: S) -> S:
        """The state after this pass; the given one is left as it was."""


class Reported(Protocol):
    """A state that carries what was found on the way."""

    @property
    def findings(self) -> Sequence[Diagnostic]:
        """What was found, in net order."""
        ...


R = TypeVar("R", bound=Reported)


class RefuseFindings:
    """Where findings become an error: raise ConversionError with all of them where one is an error."""

    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, state: R) -> R:
        """The same state, if it has no errors."""
        if any(finding.severity is Severity.ERROR for finding in state.findings):
            raise ConversionError(state.findings)
        return state


class PassOrderError(Exception):
    """A pipeline runs a pass before what it requires holds: a fault of the pipeline, never of the user's model."""


def run_passes(
    passes: Sequence[Pass[S]],
    state: S,
    *,
    verify: Mapping[str, Callable[[S], None]] | None = None,
    dump: Callable[[str, S], Any] | None = None,
) -> S:
    """Run ``passes`` in order.

    Args:
        passes: the pipeline.
        state: what the first pass gets.
        verify: for a fact's name, a function that raises where the fact does not hold of a state; called after each
            pass that ensures the fact.
        dump: called with each pass's name and the state after it.

    An exception of a pass surfaces untouched, with a note that names the pass and those before it.
    """
    held: set[str] = set()
    done: list[str] = []
    for step in passes:
        name = type(step).__name__
        missing = step.requires - held
        if missing:
            raise PassOrderError(f"{name} requires {', '.join(sorted(missing))}, which no pass before it ensures")
        try:
            state = step(state)
            for fact in sorted(step.ensures):
                if verify and fact in verify:
                    verify[fact](state)
        except BridgeError:
            raise
        except Exception as error:
            error.add_note(f"in pass {name}, after {', '.join(done) or 'none'}")
            raise
        held |= step.ensures
        done.append(name)
        if dump:
            dump(name, state)
    return state
