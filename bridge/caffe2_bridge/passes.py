"""Passes and the pass runner that both directions share.

A pass is an object with one verb, its call. There are two kinds: a :class:`FunctionalPass` returns the next state and
leaves the given one unchanged; an :class:`InPlacePass` changes what the state owns and returns nothing. What must hold
before a pass and what holds after it are named facts, so that the order of a pipeline is stated by the passes and not
by comments.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Severity
from caffe2_bridge.diagnostics.internal import internal_error
from caffe2_bridge.verification import is_verifying

logger = logging.getLogger(__name__)

S = TypeVar("S")


class FunctionalPass(ABC, Generic[S]):
    """A step of a pipeline over states of type ``S`` that changes nothing it is given.

    ``requires`` names the facts that must hold before the pass, ``ensures`` those that hold after it.
    """

    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def __call__(self, state: S) -> S:
        """Return the state after this pass. The given one, and every graph and net in it, stays unchanged."""


class InPlacePass(ABC, Generic[S]):
    """A step of a pipeline over states of type ``S`` that changes what the state owns.

    ``requires`` names the facts that must hold before the pass, ``ensures`` those that hold after it.
    """

    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def __call__(self, state: S) -> None:
        """Change what ``state`` owns in place."""


Pass: TypeAlias = FunctionalPass[S] | InPlacePass[S]


@runtime_checkable
class Reported(Protocol):
    """A state that carries the diagnostics reported so far."""

    @property
    def findings(self) -> Sequence[Diagnostic]:
        """The diagnostics, in net order."""
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """A state that can tell cheaply whether it was changed."""

    def fingerprint(self) -> Hashable:
        """Return a value that differs after a change of the state or of what it refers to, other than weights."""
        ...


R = TypeVar("R", bound=Reported)


class RaiseErrors(FunctionalPass[R]):
    """Raise ConversionError with every diagnostic if one of them is an error; otherwise pass the state on."""

    def __call__(self, state: R) -> R:
        """Return the same state, if no error was reported."""
        if any(finding.severity is Severity.ERROR for finding in state.findings):
            raise ConversionError(state.findings)
        return state


class PassOrderError(Exception):
    """A pipeline runs a pass before what it requires holds: a fault of the pipeline, never of the user's model."""


class PassContractError(Exception):
    """A functional pass changed its state, or an in-place pass returned one: a fault of the pass."""


def run_passes(
    passes: Sequence[Pass[S]],
    state: S,
    *,
    held: Iterable[str] = (),
    verify: Mapping[str, Callable[[S], None]] | None = None,
    dump: Callable[[str, S], Any] | None = None,
) -> S:
    """Run ``passes`` in order and return the last state.

    Each pass is logged with its duration at DEBUG. Where the environment variable ``CAFFE2_BRIDGE_VERIFY`` is
    set and the state is :class:`Fingerprinted`, a functional pass that changes its state raises PassContractError.

    Args:
        passes: the pipeline.
        state: what the first pass gets.
        held: facts that hold of ``state`` already, because an earlier pipeline ensured them.
        verify: for a fact's name, a function that raises where the fact does not hold of a state; called after each
            pass that ensures the fact.
        dump: called with each pass's name and the state after it.

    An exception of a pass that does not say that the model is at fault becomes a ConversionError of code
    ``internal-error``; in debug mode it surfaces untouched, with a note that names the pass and those before it.
    """
    facts = set(held)
    done: list[str] = []
    for step in passes:
        name = type(step).__name__
        missing = step.requires - facts
        if missing:
            raise PassOrderError(f"{name} requires {', '.join(sorted(missing))}, which no pass before it ensures")
        try:
            state = _timed(step, state)
            for fact in sorted(step.ensures):
                if verify and fact in verify:
                    verify[fact](state)
        except (BridgeError, OSError, PassOrderError, PassContractError):
            raise
        except Exception as error:
            error.add_note(f"in pass {name}, after {', '.join(done) or 'none'}")
            findings = state.findings if isinstance(state, Reported) else ()
            raise ConversionError([*findings, internal_error(error)]) from error
        facts |= step.ensures
        done.append(name)
        if dump:
            dump(name, state)
    return state


def _timed(step: Pass[S], state: S) -> S:
    start = time.perf_counter()
    after = _checked(step, state) if is_verifying() else _applied(step, state)
    logger.debug("%s took %.1f ms", type(step).__name__, 1e3 * (time.perf_counter() - start))
    return after


def _applied(step: Pass[S], state: S) -> S:
    if isinstance(step, FunctionalPass):
        return step(state)
    step(state)
    return state


def _checked(step: Pass[S], state: S) -> S:
    """Return the state after a pass, if the pass does what its kind promises. Raises PassContractError otherwise."""
    name = type(step).__name__
    if isinstance(step, InPlacePass):
        returned: object = cast("Callable[[S], object]", step)(state)
        if returned is not None:
            raise PassContractError(f"in-place pass {name} returned a {type(returned).__name__}")
        return state
    before = state.fingerprint() if isinstance(state, Fingerprinted) else None
    after = step(state)
    if after is None:
        raise PassContractError(f"functional pass {name} returned no state")
    if isinstance(state, Fingerprinted) and state.fingerprint() != before:
        raise PassContractError(f"functional pass {name} changed the state that it was given")
    return after
