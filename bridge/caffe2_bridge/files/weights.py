"""Write the parameters of models for other frameworks: as safetensors, NumPy's .npz, or PyTorch's .pt."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from caffe2_bridge.diagnostics import BridgeError, OptionError
from caffe2_bridge.files.detect import WITHOUT_NET, detect
from caffe2_bridge.files.loader import load, load_init_net, naming
from caffe2_bridge.files.open_files import open_file
from caffe2_bridge.files.optional_packages import required
from caffe2_bridge.files.replace import replace_files
from caffe2_bridge.files.saver import local_target
from caffe2_bridge.files.weight_names import Renamed, rename_parameters
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.storage import Location, locate

_SAFETENSORS: Final = {
    np.dtype(np.float64): "F64", np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.int64): "I64",
    np.dtype(np.int32): "I32", np.dtype(np.int16): "I16", np.dtype(np.int8): "I8", np.dtype(np.uint16): "U16",
    np.dtype(np.uint8): "U8", np.dtype(np.bool_): "BOOL",
}  # fmt: skip
_RESERVED: Final = "__metadata__"


@dataclass(frozen=True)
class SavedWeights:
    """What was written, and what was not.

    Attributes:
        format: the format.
        renamed: the new names; what did not match.
        left_out: the blobs that were not written, with the reason.
    """

    format: str
    renamed: Renamed
    left_out: Mapping[str, str]


def load_weights(
    path: Location, init: Location | None = None, *, predictor: str | None = None, databases: Location | None = None
) -> InitNet:
    """Load the parameters of a model, as :func:`load` reads it, or those of a checkpoint (.pkl, .npz) without a net.

    Raises the errors of :func:`load` and :func:`load_init_net`.
    """
    where = locate(path)
    if init is None and predictor is None and where.is_file():
        with naming(where):
            without_net = detect(open_file(where)) in WITHOUT_NET
        if without_net:
            return load_init_net(where)
    return load(path, init, predictor=predictor, databases=databases).init


def save_weights(
    model: Model | InitNet,
    path: Location,
    *,
    names: Mapping[str, str] | None = None,
    rename: Sequence[tuple[str, str]] = (),
    format: str | None = None,  # noqa: A002 - as in save
) -> SavedWeights:
    """Save the parameters of a model for another framework, under the names of their blobs or under others.

    Args:
        model: the model, or its parameters: :func:`load_weights` reads them.
        path: the file, or its URL.
        names: a table of new names. Parameters that it lacks are left out.
        rename: regular expressions and replacements, applied to each name in order, as :func:`re.sub` does. Parameters
            that none of them matches keep their names.
        format: ``safetensors``, ``npz`` or ``pt`` (a dict of tensors, which requires PyTorch); by default the suffix of
            the path.

    The values, dtypes and shapes are those of the blobs. Strings and Int8 tensors are left out. The file is replaced
    when the new one is complete.

    Raises:
        OptionError: the format is unknown, names and rename are both given, a pattern is invalid, or two parameters
            get the same name.
        BridgeError: there are no parameters to write, PyTorch is not installed, or the file cannot be written.
        NetFormatError: a parameter is damaged.
    """
    layout = weight_format(path) if format is None else format
    if layout is None or layout not in _WRITERS:
        raise OptionError(f"the format of weights must be one of {', '.join(WEIGHT_FORMATS)}, not {layout!r}")
    init = model.init if isinstance(model, Model) else model
    left_out = {name: f"{op.type} computes it when the net runs" for op in init.rest for name in op.outputs}
    left_out |= {parameter.name: reason for parameter in init.parameters.values() if (reason := _unwritable(parameter))}
    plain = [parameter for name, parameter in init.parameters.items() if name not in left_out]
    renamed = rename_parameters([parameter.name for parameter in plain], names, rename)
    written = {renamed.names[p.name]: p for p in plain if p.name in renamed.names}
    if not written:
        raise BridgeError(
            f"{locate(path)}: there are no parameters to write" + (" that the names match" if plain else "")
        )
    if _RESERVED in written:
        raise OptionError(f"the name {_RESERVED!r} is reserved")
    with local_target(path) as target:
        replace_files([(target, lambda file: _WRITERS[layout](written, file))])
    return SavedWeights(layout, renamed, MappingProxyType(left_out))


def weight_format(path: Location) -> str | None:
    """Return the format of weights that the suffix of a path names; None for another."""
    suffix = locate(path).suffix.removeprefix(".")
    return suffix if suffix in _WRITERS else None


def _unwritable(parameter: Parameter) -> str:
    if parameter.scale is not None:
        return f"an Int8 tensor of scale {parameter.scale:g} and zero point {parameter.zero_point}"
    return "" if parameter.dtype in _SAFETENSORS else f"a tensor of {parameter.dtype.name}"


def write_safetensors(parameters: Mapping[str, Parameter], path: Path) -> None:
    """Write the length of a header, the header in JSON, and the values, one parameter at a time.

    The widest elements come first, so that all are aligned.
    """
    ordered = sorted(parameters.items(), key=lambda item: -item[1].dtype.itemsize)
    header = {}
    at = 0
    for name, parameter in ordered:
        end = at + parameter.size * parameter.dtype.itemsize
        header[name] = {
            "dtype": _SAFETENSORS[parameter.dtype], "shape": parameter.shape, "data_offsets": (at, end),
        }  # fmt: skip
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, parameter in ordered:
            values = parameter.load()
            file.write(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())


def _npz(parameters: Mapping[str, Parameter], path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, parameter in parameters.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, parameter.load(), allow_pickle=False)


def _pt(parameters: Mapping[str, Parameter], path: Path) -> None:
    torch = required("torch", ".pt files", extra="torch")
    torch.save({name: torch.from_numpy(parameter.load()) for name, parameter in parameters.items()}, path)


_WRITERS: Final = MappingProxyType[str, Callable[[Mapping[str, Parameter], Path], None]](
    {"safetensors": write_safetensors, "npz": _npz, "pt": _pt}
)
WEIGHT_FORMATS: Final = tuple(_WRITERS)
