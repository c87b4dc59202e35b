"""Control flow of exported programs: branches, loops and steps of recurrent nets as operators that have graphs.

``torch.export`` records what is done with tensors. Where Python looks at a value, or goes through the rows of a
sequence, it cannot record what happens for others; here it records each body once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from caffe2_torch.evaluation.op import Body, Op
from caffe2_torch.evaluation.values import Value

_OPERATORS = torch.ops.higher_order


class Bodies:
    """Bodies of an operator as functions of tensors.

    Attributes:
        tensors: what they read of the workspace, by name.
    """

    def __init__(self, op: Op, bodies: Iterable[Body], own: Iterable[str] = ()) -> None:
        names = sorted({name for body in bodies for name in body.found} - {*own})
        given = {name: op.blobs[name] for name in names if name in op.blobs}
        self.tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        self._others = {name: value for name, value in given.items() if name not in self.tensors}
        self._op = op

    def run(self, body: Body | None, tensors: Mapping[str, torch.Tensor]) -> dict[str, Value]:
        """Run a body, or none, in a workspace of these tensors, and return the workspace."""
        blobs: dict[str, Value] = {**self._others, **tensors}
        if body is not None:
            body.run(blobs, self._op.context)
        return blobs

    def copies(self, blobs: Mapping[str, Value], names: Iterable[str]) -> list[torch.Tensor]:
        """Return copies of tensors: the results of a recorded body must not share memory with what it reads."""
        found = []
        for name in names:
            value = blobs.get(name)
            if not isinstance(value, torch.Tensor):
                self._op.refuse(f"{name!r} is not a tensor in every branch or iteration, and cannot be exported")
            found.append(value.clone())
        return found


def export_branch(op: Op, condition: torch.Tensor, taken: Body | None, other: Body | None) -> None:
    """Record an If, and write what it leaves: of blobs without a value before it, those that both bodies write."""
    both = [body for body in (taken, other) if body is not None]
    bodies = Bodies(op, both)
    writes = sorted({name for body in both for name in body.written})
    fresh = set(taken.written if taken else ()) & set(other.written if other else ())
    before = {name: op.blobs[name] for name in writes if name in op.blobs}
    kept = {name: value for name, value in before.items() if isinstance(value, torch.Tensor)}
    names = [name for name in writes if name in kept or (name in fresh and name not in before)]
    operands = {**bodies.tensors, **kept}
    results: dict[bool, list[str]] = {}

    def function(which: bool, body: Body | None) -> Callable[..., tuple[torch.Tensor, ...]]:
        def run(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            blobs = bodies.run(body, dict(zip(operands, values, strict=True)))
            results[which] = [n for n in names if n in kept or isinstance(blobs.get(n), torch.Tensor)]
            return tuple(bodies.copies(blobs, results[which]))

        return run

    branches = (function(True, taken), function(False, other))  # noqa: FBT003 - of the condition
    made = _OPERATORS.cond(condition, *branches, tuple(operands.values()))
    if results[True] != results[False]:
        op.refuse("the branches do not leave values for the same blobs, and cannot be exported")
    op.blobs.update(zip(results[True], made, strict=True))


def export_loop(op: Op, condition: str, test: Body | None, body: Body) -> None:
    """Record a While, and write what it leaves: blobs without a value before it are those of an iteration alone."""
    if test is not None:
        test.run(op.blobs, op.context)
    both = [each for each in (body, test) if each is not None]
    writes = sorted({name for each in both for name in each.written})
    carried = {n: op.blobs[n] for n in writes if n in op.blobs and isinstance(op.blobs[n], torch.Tensor)}
    bodies = Bodies(op, both, carried)
    carried.setdefault(condition, op.blobs[condition])
    names = [*carried, *(name for name in bodies.tensors if name not in carried)]

    def goes_on(*values: torch.Tensor) -> torch.Tensor:
        return truth(dict(zip(names, values, strict=True))[condition]).clone()

    def iterate(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        blobs = bodies.run(body, dict(zip(names, values, strict=True)))
        if test is not None:
            test.run(blobs, op.context)
        return tuple(bodies.copies(blobs, carried))

    more = tuple(bodies.tensors[name] for name in names[len(carried) :])
    made = _OPERATORS.while_loop(goes_on, iterate, tuple(bodies.copies(carried, carried)), more)
    op.blobs.update(zip(carried, made, strict=True))


def truth(condition: torch.Tensor) -> torch.Tensor:
    """Return the first element of a condition, as a scalar of bool."""
    return condition.reshape(-1)[0].to(torch.bool)


def export_steps(
    bodies: Bodies,
    body: Body,
    initial: Mapping[str, torch.Tensor],
    sequences: Mapping[str, torch.Tensor],
    after: Sequence[str],
    batch: int,
) -> list[torch.Tensor]:
    """Record the steps of a recurrent net, and return the rows of each state after each step, [T, N, D].

    Args:
        bodies: the step net.
        body: the same.
        initial: the first row of each state, [1, N, D], by the name that the step net has for it.
        sequences: rows that the step net reads, by the name that it has for one of them.
        after: the names that it has for the states after a step.
        batch: N.
    """
    names = [*initial, *sequences, *bodies.tensors]

    def step(*values: torch.Tensor) -> list[torch.Tensor]:
        blobs = dict(zip(names, values, strict=False))
        blobs.update((name, blobs[name][None]) for name in sequences)
        results = bodies.copies(bodies.run(body, blobs), after)
        return [*results, *(result[0].clone() for result in results)]

    starts, rows, more = list(initial.values()), list(sequences.values()), list(bodies.tensors.values())
    # PyTorch 2.13: of symbols, Inductor knows T and the operands alone when it allocates the rows of a scan.
    operands = (*more, batch) if isinstance(batch, torch.SymInt) else tuple(more)
    made: Sequence[torch.Tensor] = _OPERATORS.scan(step, starts, rows, operands)
    return list(made[len(starts) :])
