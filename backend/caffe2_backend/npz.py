"""Write .npz files, atomically."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from caffe2_bridge.storage import AnyPath


def write_npz(path: AnyPath, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays by name, atomically: names may hold slashes; string tensors are written as text. Raises OSError."""
    from caffe2_frontend.interop.files.onnx_files import replacing

    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            plain = _as_text(array) if array.dtype == object else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, np.ascontiguousarray(plain).reshape(plain.shape), allow_pickle=False)


def _as_text(strings: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return strings as text; bytes that are not UTF-8 become surrogates, as those of paths do."""
    texts = [
        value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value) for value in strings.ravel()
    ]
    return np.array(texts, str).reshape(strings.shape)
