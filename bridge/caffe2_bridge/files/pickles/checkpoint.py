"""Read the parameters of a pickled checkpoint: a dict of names to arrays, as Detectron, VMZ and SlowFast wrote them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import Diagnostic, Location, NetFormatError, Severity
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.files.pickles.machine import read_pickle
from caffe2_bridge.files.pickles.unpack import find_pickle
from caffe2_bridge.files.pickles.values import PickledArray, decode
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import NUMBERS, Array, Parameter

_BLOBS: Final = "blobs"
_NAMED: Final = 3
_STATE: Final = "momentum and learning rates, which training alone reads"
_HINT: Final = "to read them: load_init_net(path, optimizer_state=True)"


def init_of_checkpoint(span: wire.Span, wanted: Collection[str] | None = ()) -> InitNet:
    """Return an init net with the arrays of a checkpoint; they stay in the file until they are read.

    The momentum of parameters and the learning rate, which only training continues with, are left out, and so is what
    Caffe2 has no tensors of; a note lists them.

    Args:
        span: the file: a pickle, in a tar archive or not, compressed by gzip or not.
        wanted: blobs not to leave out, such as those that the net reads; None for all.

    Raises:
        NetFormatError: the file is damaged, or describes anything else than such a dict.
    """
    stored = _blobs(read_pickle(find_pickle(span)))
    arrays = {name: value for name, value in stored.items() if isinstance(value, PickledArray)}
    state = [name for name in arrays if wanted is not None and name not in wanted and is_optimizer_state(name)]
    parameters = {
        name: Parameter(name, dtype, array.shape, array.load)
        for name, array in arrays.items()
        if name not in state and (dtype := array.dtype.newbyteorder("=")) in NUMBERS
    }
    others = [name for name in stored if name not in parameters and name not in state]
    if not parameters:
        raise NetFormatError(
            f"the pickle has no arrays of parameters; it has {listed(list(stored), _NAMED) or 'nothing'}"
        )
    return _init(
        parameters, [*_left_out(state, _STATE, _HINT), *_left_out(others, "they are not tensors that Caffe2 has")]
    )


def init_of_arrays(arrays: Mapping[str, Array]) -> InitNet:
    """Return an init net with arrays, such as those of an .npz file, a note of those that Caffe2 has no tensors of."""
    numbers = {name: array for name, array in arrays.items() if array.dtype.newbyteorder("=") in NUMBERS}
    parameters = {
        name: Parameter(name, array.dtype.newbyteorder("="), array.shape, partial(_native, array))
        for name, array in numbers.items()
    }
    others = [name for name in arrays if name not in numbers]
    if not parameters:
        raise NetFormatError(f"the file has no arrays of parameters; it has {listed(others, _NAMED) or 'nothing'}")
    return _init(parameters, _left_out(others, "they are not tensors that Caffe2 has"))


def _native(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("="))


def _init(parameters: Mapping[str, Parameter], findings: Sequence[Diagnostic]) -> InitNet:
    return InitNet(
        MappingProxyType(dict(parameters)), findings=tuple(findings),
        serialized=lambda: fill_net(parameters.values(), ()),
    )  # fmt: skip


def is_optimizer_state(name: str) -> bool:
    """Whether a blob of a checkpoint is the momentum of a parameter, or the learning rate."""
    return name.endswith("_momentum") or name.rpartition("/")[2] == "lr"


def _left_out(names: list[str], reason: str, hint: str = "") -> list[Diagnostic]:
    reason = f"{len(names)} blobs of the checkpoint are left out ({listed(names, _NAMED)}): {reason}"
    return [Diagnostic("left-out-blobs", reason, Location("init"), Severity.NOTE, hint)] if names else []


def _blobs(value: object) -> Mapping[str, object]:
    """Return the blobs of a checkpoint, by name. Raises NetFormatError if it is not a dict, or has a name twice."""
    nested = value.get(_BLOBS, value.get(_BLOBS.encode())) if isinstance(value, dict) else None
    found = nested if isinstance(nested, dict) else value
    if not isinstance(found, dict):
        raise NetFormatError(f"the pickle must have a dict of names to arrays, not a {type(found).__name__}")
    named = {_name(key): entry for key, entry in found.items()}
    if len(named) != len(found):
        raise NetFormatError("the pickle has a name twice, as text and as bytes")
    return named


def _name(key: object) -> str:
    """Return the name of a blob; Python 2 wrote text as bytes."""
    if isinstance(key, bytes):
        try:
            return decode(key)
        except NetFormatError:
            return key.decode("latin-1")
    if not isinstance(key, str):
        raise NetFormatError(f"the pickle must have a dict of names to arrays, but a key is a {type(key).__name__}")
    return key
