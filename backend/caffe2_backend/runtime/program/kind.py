"""Kinds of inputs: whether those of a run are of the kind of the last one is decided here, and nowhere else.

What a run of a tiny net waits for is finding out which variant takes its inputs. Most are the very objects of the last
run, or what it left: then one comparison of all of them in C is enough.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from caffe2_backend.runtime.program.signature import extent_of
from caffe2_backend.runtime.program.variant import Variant
from caffe2_backend.runtime.values import DeviceTensor, Value

# Stands for a tensor of the last run to which no reference is kept.
_NOT_KEPT: Final = object()


class _Form(NamedTuple):
    """What tensors of one kind have in common; ``first`` is the first axis of a known size, see ``extent_of``."""

    cls: Any
    dtype: np.dtype[Any]
    device: str
    first: int | None
    extent: Any


class Kind:
    """What the inputs of a variant have in common.

    Attributes:
        variant: the variant.
        names: the blobs that decide, constants among them.
        states: (input, output) of what is an input of the next run.
        whole: whether inputs of this kind have the same shapes.
    """

    __slots__ = ("_absent", "_forms", "names", "states", "variant", "whole")

    def __init__(
        self,
        variant: Variant,
        names: Sequence[str],
        given: Mapping[str, Value],
        *,
        constants: Mapping[str, Value],
        sized: Mapping[str, int],
        pairs: Mapping[str, str],
    ) -> None:
        """Note the kind of ``given``.

        Args:
            variant: the variant that takes them.
            names: the blobs that decide.
            given: the inputs of a run.
            constants: those that are constants of the variant.
            sized: by input, the first axis of those whose sizes are known to the conversion.
            pairs: the outputs by the inputs that they are in the next run.
        """
        self.variant = variant
        self.names = names
        self.states = tuple(pair for pair in pairs.items() if pair[0] in given and pair[1] in variant.outputs)
        self._forms = [None if name in constants else _form(given.get(name), sized.get(name)) for name in names]
        self._absent = [name for name in names if given.get(name) is None]
        self.whole = all(form is None or form.first == 0 for form in self._forms)

    def takes(self, values: Sequence[Any], before: Sequence[object]) -> bool:
        """Whether values, by name, are certainly of this kind, as those ``before`` are."""
        for value, last, form in zip(values, before, self._forms):  # noqa: B905 - of one length; the keyword takes time
            if value is last:
                continue
            if form is None:  # a constant, an object, or no value
                return False
            cls, dtype, device, first, extent = form
            if type(value) is not cls or (value.dtype is not dtype and value.dtype != dtype):
                return False
            found = value.ndim if first is None else value.shape if first == 0 else extent_of(value.shape, first)
            if found != extent or (device and value.device != device):
                return False
        return True

    def inputs(self, values: Iterable[Any]) -> Inputs:
        """Return the inputs of a run, from values by name that this kind takes."""
        found = Inputs(zip(self.names, values))  # noqa: B905 - as above
        found.kind = self
        for name in self._absent:
            del found[name]
        return found

    def last(self, given: Mapping[str, Value], *, keep: bool) -> Last:
        """Return what a run with these inputs leaves; ``keep`` references to tensors, which nothing overwrites."""
        values = [
            given.get(name) if keep or form is None else _NOT_KEPT
            for name, form in zip(self.names, self._forms, strict=True)
        ]
        if not keep:
            return Last(self, values, None)
        inputs = self.inputs(values)
        inputs.listed = values
        return Last(self, values, inputs)


class Inputs(dict[str, Value]):
    """The inputs of a run, by blob, of which the kind is known; ``listed`` in its order, where references are kept."""

    __slots__ = ("kind", "listed")

    kind: Kind
    listed: Sequence[object]


class Last(NamedTuple):
    """What the last run leaves, to recognize the inputs of the next: their kind, values by name, and the inputs."""

    kind: Kind
    values: Sequence[object]
    inputs: Inputs | None

    def recognize(self, find: Callable[[str], object]) -> Inputs | None:
        """Return the inputs of the next run, of which ``find`` gives each; None if they are of another kind."""
        kind, before, inputs = self
        values = list(map(find, kind.names))
        if inputs is not None and all(map(operator.is_, values, before)):
            return inputs
        if not kind.takes(values, before):
            return None
        found = kind.inputs(values)
        if inputs is not None:
            found.listed = values
        return found

    def after(self, given: Mapping[str, Value], results: Mapping[str, Value]) -> Last:
        """Return what a run of this kind leaves; ``results`` are its outputs, some of which are states."""
        kind = self.kind
        if self.inputs is None:
            return self
        if not kind.states:
            return Last(kind, given.listed, given) if isinstance(given, Inputs) else self
        if not kind.variant.keeps_shapes:
            return kind.last(given, keep=False)
        left = Inputs(given)
        left.kind = kind
        for name, output in kind.states:
            left[name] = results[output]
        return Last(kind, list(map(left.get, kind.names)), left)


def _form(value: Value | None, first: int | None) -> _Form | None:
    """Return what others of a tensor's kind have; None for other values, which must be the same objects."""
    if type(value) is np.ndarray:
        return _Form(np.ndarray, value.dtype, "", first, extent_of(value.shape, first))
    if isinstance(value, DeviceTensor):
        return _Form(DeviceTensor, value.dtype, value.device, first, extent_of(value.shape, first))
    return None
