"""Sums of the gradients of a blob that several operators read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from caffe2_bridge.gradients.forward import BlobGradient, GradientError, SparseGradient
from caffe2_bridge.gradients.operators import make_operator
from caffe2_bridge.gradients.rename import rename_output
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, OperatorDef

_SUM_TAG: Final = "is_auto_gen_sum_ops:1"
_ONLY_TAG: Final = "only_keep_is_auto_gen_sum_ops_tag:1"


@dataclass(slots=True)
class Source:
    """One blob that operators of a gradient compute; none of them where the blob comes as it is.

    ``group`` are the operators of the gradient of one forward operator, and the last that writes the blob is
    ``group[at]``, as its output ``output``. ``plain`` is the name that it has in the end, where nothing speaks against.
    """

    name: str
    plain: str
    group: Sequence[OperatorDef] = ()
    at: int = -1
    output: int = 0

    @property
    def made(self) -> bool:
        """Whether operators of the gradient compute the blob."""
        return self.at >= 0

    def split_off(self, count: int) -> None:
        """Rename the blob where it is written, so that another can have its name."""
        self._rename(f"_{self.plain}_autosplit_{count}")

    def settle(self) -> None:
        """Give the blob its name."""
        if self.made and self.name != self.plain:
            self._rename(self.plain)

    def _rename(self, new: str) -> None:
        rename_output(self.group, self.at, self.output, new)
        self.name = self.plain = new


@dataclass(slots=True)
class DenseTerm:
    """One dense gradient of a blob; it has no device where the caller gives it."""

    source: Source
    device: DeviceOption | None

    @property
    def parts(self) -> tuple[Source, ...]:
        """The blobs that it consists of."""
        return (self.source,)


@dataclass(slots=True)
class SparseTerm:
    """One sparse gradient of a blob."""

    indices: Source
    values: Source
    device: DeviceOption | None

    @property
    def parts(self) -> tuple[Source, ...]:
        """The blobs that it consists of."""
        return (self.indices, self.values)


Term = DenseTerm | SparseTerm


def term_of(parts: Sequence[Source], device: DeviceOption | None) -> Term:
    """A dense gradient of one part, or a sparse one of two."""
    if len(parts) == 1:
        return DenseTerm(parts[0], device)
    indices, values = parts
    return SparseTerm(indices, values, device)


def needs_sum(blob: str, terms: Sequence[Term]) -> bool:
    """Whether a blob has more than one gradient. Raises GradientError where they cannot be added up."""
    if len({type(term) for term in terms}) > 1:
        raise GradientError(f"blob {blob!r} has both dense and sparse gradients, which cannot be added up")
    if len(terms) < 2:
        return False
    devices = _devices(terms)
    if not all(_same_device(device, devices[0]) for device in devices[1:]):
        raise GradientError(f"the gradients of blob {blob!r} are on different devices and cannot be added up")
    return True


def add_up(blob: str, terms: Sequence[Term]) -> tuple[list[OperatorDef], BlobGradient]:
    """The operators that add up the gradients of a blob, and the sum's name.

    The gradients are renamed where they are computed. Sparse ones are put behind one another.
    """
    dense = [term for term in terms if isinstance(term, DenseTerm)]
    sparse = [term for term in terms if isinstance(term, SparseTerm)]
    operators, gradient = _add_dense(blob, dense) if dense else _add_sparse(blob, sparse)
    devices = _devices(terms)
    only_tag = any(_ONLY_TAG in device.extra_info for device in devices)
    for op in operators:
        if devices and not only_tag:
            op.device_option.CopyFrom(devices[0])
        op.device_option.extra_info.append(_SUM_TAG)
    return operators, gradient


def _devices(terms: Sequence[Term]) -> list[DeviceOption]:
    return [term.device for term in terms if term.device is not None]


def _add_dense(blob: str, terms: Sequence[DenseTerm]) -> tuple[list[OperatorDef], BlobGradient]:
    total = next((term.source.plain for term in terms if term.source.made), f"{blob}_grad")
    # What was given keeps its name and its value, also where the name is the one that the sum would get.
    conflict = False
    for term in terms:
        if not term.source.made and term.source.name == total:
            if term.device is not None:
                raise _conflict(blob, total)
            conflict = True
    made = [term.source for term in terms if term.source.made]
    for count, source in enumerate(made if conflict else made[1:]):
        source.split_off(count)
    for source in made:
        source.settle()
    if conflict:
        total = f"{total}_total"
    names = [term.source.name for term in terms]
    if total in names:  # the sum may work in place on its first operand only
        place = names.index(total)
        names[0], names[place] = names[place], names[0]
    return [make_operator("Sum", names, [total])], total


def _add_sparse(blob: str, terms: Sequence[SparseTerm]) -> tuple[list[OperatorDef], BlobGradient]:
    base = f"{blob}_grad"
    for term in terms:
        if term.indices.made or term.values.made:
            source, suffix = (term.indices, "_indices") if term.indices.made else (term.values, "_values")
            base = source.plain.removesuffix(suffix)
            break
    operators = []
    for kind, pick in _PARTS:
        count = 0
        names = []
        for term in terms:
            source = pick(term)
            if source.made:
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
        f"blob {blob!r} has a gradient that an operator hands on as {name!r}, the name of another of its gradients; "
        "rename the blob where it is written in place"
    )


def _same_device(one: DeviceOption, other: DeviceOption) -> bool:
    """Of a CPU only the type counts."""
    if not one.device_type or not other.device_type:
        return one.device_type == other.device_type
    return one.device_id == other.device_id
