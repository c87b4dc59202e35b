"""Read a RecurrentNetwork as a loop over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from caffe2_bridge.control import Link, RecurrentNetwork
from caffe2_torch.evaluation.op import RefusedError


@dataclass(frozen=True)
class LoopState:
    """A state: the index of its initial value, and the step net's names of its last and its next value."""

    blob: str
    initial: int
    previous: str
    next: str

    @property
    def rows(self) -> str:
        """A name for the list of its values."""
        return f"{self.next.rsplit('/', 1)[-1]}_rows"


@dataclass(frozen=True)
class Loop:
    """A RecurrentNetwork of the usual form.

    Attributes:
        states: the states, each of one initial row.
        rows: links to the row of a sequence of the step.
        kept: links to rows that the step net writes, and that are no states.
        aliases: the outer blobs that are rows of a state, each with the state and the first row.
        results: the blobs that are used after the loop.
        timestep: the step net's name of the number of the step.
    """

    states: tuple[LoopState, ...]
    rows: tuple[Link, ...]
    kept: tuple[Link, ...]
    aliases: dict[str, tuple[str, int]]
    results: tuple[str, ...]
    timestep: str

    def source(self, blob: str) -> tuple[str, int | None]:
        """Return the list of rows of a result, and the first row of it."""
        return self.aliases.get(blob, (blob, None))


def read_loop(control: RecurrentNetwork, is_used: Callable[[str], bool]) -> Loop:
    """Read the links of a RecurrentNetwork. Raises RefusedError for views that are not of single rows."""
    spec = control.spec
    written, blobs = spec.written, {state.blob for state in spec.states}
    if any(link.window != 1 for link in spec.links):
        raise RefusedError("a window of several rows is not supported")
    states = []
    for state in spec.states:
        links = [link for link in spec.links if link.external == state.blob]
        previous = [link for link in links if link.offset == 0 and link.internal not in written]
        following = [link for link in links if link.offset == 1 and link.internal in written]
        if len(previous) != 1 or len(following) != 1 or len(links) != 2:
            raise RefusedError(f"the state {state.blob!r} is not read and written once for each step")
        states.append(LoopState(state.blob, state.initial, previous[0].internal, following[0].internal))
    others = [link for link in spec.links if link.external not in blobs]
    if any(link.offset for link in others):
        raise RefusedError("rows of other steps are not supported")
    rows = tuple(link for link in others if link.internal not in written)
    kept = tuple(link for link in others if link.internal in written)
    made = {scratch.blob for scratch in spec.scratches}
    if any(link.external not in made for link in kept):
        raise RefusedError("a step net that writes rows of a given blob is not supported")
    aliases = {alias.blob: (alias.source, alias.offset) for alias in spec.aliases}
    names = (*aliases, *(state.blob for state in states), *(link.external for link in kept))
    results = tuple(name for name in dict.fromkeys(names) if is_used(name))
    return Loop(tuple(states), rows, kept, aliases, results, spec.timestep)
