"""Cases of which inputs are stored in the init net: their values are known when the net is converted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from conformance.corpus import Array, Case, CaseRef, read_case


def stored_forms(ref: CaseRef) -> Iterator[tuple[str, ...]]:
    """Yield the inputs of a case to store together: each alone, all but the first, and all but the last.

    Those of Int8 tensors are no parameters, and a net keeps an input. Models bring init nets of their own.
    """
    if ref.kind == "model":
        return
    case = read_case(ref)
    names = [name for name in case.inputs if name not in case.quantized]
    forms = [*((name,) for name in names), tuple(names[1:]), tuple(names[:-1])]
    yield from (form for form in dict.fromkeys(forms) if 0 < len(form) < len(case.inputs))


def with_stored(case: Case, names: Sequence[str]) -> Case:
    """Return the case with inputs stored in its init net, behind what that fills."""
    if not names:
        return case
    init = NetDef()
    init.MergeFrom(case.init_net or NetDef())
    init.MergeFromString(b"".join(fill_net([_parameter(name, case.inputs[name]) for name in names], ())))
    return replace(case, init_net=init, stored=tuple(names))


def _parameter(name: str, array: Array) -> Parameter:
    if array.dtype == object:
        array = np.array([text.encode() for text in array.ravel()], object).reshape(array.shape)
    return Parameter(name, array.dtype, array.shape, lambda: array)
