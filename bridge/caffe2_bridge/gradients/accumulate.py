"""Sum the gradients of a blob that several operators read.

Each operator that reads a blob contributes one term: a dense gradient, or a sparse one of indices and values. By
Caffe2's conventions all terms of blob ``x`` are first named ``x_grad``. To sum them, each term is renamed where it is
computed::

    dense    x_grad, _x_grad_autosplit_0, ...  ->  Sum     ->  x_grad
    sparse   _x_grad_indices_autosplit_0, ...  ->  Concat  ->  x_grad_indices_concat, and likewise the values
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from caffe2_bridge.control import all_names, is_control
from caffe2_bridge.gradients.forward import BlobGradient, GradientError, SparseGradient
from caffe2_bridge.gradients.operator_maker import make_operator
from caffe2_bridge.gradients.rename import rename_output
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef

_SUM_TAG: Final = "is_auto_gen_sum_ops:1"
_ONLY_TAG: Final = "only_keep_is_auto_gen_sum_ops_tag:1"


@dataclass(slots=True)
class Source:
    """A blob that is a gradient or a part of one, and where it is computed.

    Attributes:
        name: its current name.
        plain: the name that it gets if no other term has it: ``name`` without marks.
        group: the operators of the gradient of one forward operator; empty for a blob that is passed through.
        at: the index in ``group`` of the last operator that writes the blob; -1 for a blob that is passed through.
        output: the index of the blob among the outputs of that operator.
    """

    name: str
    plain: str
    group: Sequence[OperatorDef] = ()
    at: int = -1
    output: int = 0

    @property
    def computed(self) -> bool:
        """Whether an operator of the group computes the blob; otherwise it is passed through."""
        return self.at >= 0

    def split_off(self, count: int, taken: Collection[str] = ()) -> None:
        """Rename the blob to the ``count``-th autosplit name, so that the sum or another term gets its name.

        ``taken`` are names that bodies of gradients of control flow have for blobs of theirs.
        """
        while (name := f"_{self.plain}_autosplit_{count}") in taken:
            count += 1
        self._rename(name)

    def settle(self) -> None:
        """Rename the blob to its plain name."""
        if self.computed and self.name != self.plain:
            self._rename(self.plain)

    def _rename(self, new: str) -> None:
        rename_output(self.group, self.at, self.output, new)
        self.name = self.plain = new


@dataclass(slots=True)
class DenseTerm:
    """A dense gradient of a blob. ``device`` is None for a gradient that the caller gives."""

    source: Source
    device: DeviceOption | None

    @property
    def parts(self) -> tuple[Source, ...]:
        """The blobs that it consists of."""
        return (self.source,)


@dataclass(slots=True)
class SparseTerm:
    """A sparse gradient of a blob. ``device`` is None for a gradient that the caller gives."""

    indices: Source
    values: Source
    device: DeviceOption | None

    @property
    def parts(self) -> tuple[Source, ...]:
        """The blobs that it consists of."""
        return (self.indices, self.values)


Term = DenseTerm | SparseTerm


def term_of(parts: Sequence[Source], device: DeviceOption | None) -> Term:
    """Make a dense term from one part, or a sparse term from two."""
    if len(parts) == 1:
        return DenseTerm(parts[0], device)
    indices, values = parts
    return SparseTerm(indices, values, device)


def needs_sum(blob: str, terms: Sequence[Term]) -> bool:
    """Return whether a blob has several gradients. Raises GradientError if they cannot be summed."""
    if len({type(term) for term in terms}) > 1:
        raise GradientError(f"blob {blob!r} has both dense and sparse gradients, which cannot be summed")
    if len(terms) < 2:
        return False
    devices = _devices(terms)
    if not all(_same_device(device, devices[0]) for device in devices[1:]):
        raise GradientError(f"the gradients of blob {blob!r} are on different devices and cannot be summed")
    return True


def sum_terms(blob: str, terms: Sequence[Term]) -> tuple[list[OperatorDef], BlobGradient]:
    """Return the operators that sum the gradients of a blob, and the name of the sum.

    The terms are renamed where they are computed. Sparse terms are concatenated: an index may occur several times.
    """
    dense = [term for term in terms if isinstance(term, DenseTerm)]
    sparse = [term for term in terms if isinstance(term, SparseTerm)]
    operators, gradient = _sum_dense(blob, dense) if dense else _concat_sparse(blob, sparse)
    devices = _devices(terms)
    only_tag = any(_ONLY_TAG in device.extra_info for device in devices)
    for op in operators:
        if devices and not only_tag:
            op.device_option.CopyFrom(devices[0])
        op.device_option.extra_info.append(_SUM_TAG)
    return operators, gradient


def _devices(terms: Sequence[Term]) -> list[DeviceOption]:
    return [term.device for term in terms if term.device is not None]


def _sum_dense(blob: str, terms: Sequence[DenseTerm]) -> tuple[list[OperatorDef], BlobGradient]:
    total = next((term.source.plain for term in terms if term.source.computed), f"{blob}_grad")
    # A given gradient keeps its name and value, even if the name is that of the sum; the sum is then named TOTAL_total.
    conflict = False
    for term in terms:
        if not term.source.computed and term.source.name == total:
            if term.device is not None:
                raise _conflict(blob, total)
            conflict = True
    computed = [term.source for term in terms if term.source.computed]
    # Bodies of gradients of branches and loops run in this workspace: their blobs could have the new names.
    taken = _names_in_bodies(terms)
    for count, source in enumerate(computed if conflict else computed[1:]):
        source.split_off(count, taken)
        taken.add(source.name)
    # The first term keeps the plain name, where the sum is computed in place.
    for source in computed:
        source.settle()
    if conflict:
        total = f"{total}_total"
    names = [term.source.name for term in terms]
    if total in names:  # Sum may work in place on its first operand only
        index = names.index(total)
        names[0], names[index] = names[index], names[0]
    return [make_operator("Sum", names, [total])], total


def _names_in_bodies(terms: Sequence[DenseTerm]) -> set[str]:
    """Return names in operators with bodies that compute terms, and of the terms: bodies share their workspace."""
    taken = {term.source.name for term in terms}
    for term in terms:
        for op in term.source.group:
            if is_control(op):
                taken.update(all_names(NetDef(op=[op])))
    return taken


def _concat_sparse(blob: str, terms: Sequence[SparseTerm]) -> tuple[list[OperatorDef], BlobGradient]:
    base = f"{blob}_grad"
    for term in terms:
        if term.indices.computed or term.values.computed:
            source, suffix = (term.indices, "_indices") if term.indices.computed else (term.values, "_values")
            base = source.plain.removesuffix(suffix)
            break
    operators = []
    for kind, pick in _PARTS:
        count = 0
        names = []
        for term in terms:
            source = pick(term)
            if source.computed:
                source.split_off(count)
                count += 1
            elif source.name == base:
                raise _conflict(blob, base)
            names.append(source.name)
        outputs = [f"{base}_{kind}_concat", f"{base}_{kind}_concat_split"]
        operators.append(make_operator("Concat", names, outputs, axis=0))
    return operators, SparseGradient(*(op.output[0] for op in operators))


_PARTS: Final[tuple[tuple[str, Callable[[SparseTerm], Source]], ...]] = (
    ("indices", lambda term: term.indices),
    ("values", lambda term: term.values),
)


def _conflict(blob: str, name: str) -> GradientError:
    return GradientError(
        f"blob {blob!r} has two gradients named {name!r}, one of which an operator passes through; "
        "give the output of the operator that works in place on the blob another name"
    )


def _same_device(one: DeviceOption, other: DeviceOption) -> bool:
    """Return whether two device options are one device; the device id is ignored for the CPU."""
    if not one.device_type or not other.device_type:
        return one.device_type == other.device_type
    return one.device_id == other.device_id
