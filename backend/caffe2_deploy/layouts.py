"""Where each server wants the files of a model."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.files.replace import replace_folder
from caffe2_deploy import card, kserve, mobile, triton, web
from caffe2_deploy.contents import Contents, digest
from caffe2_deploy.requests import message
from caffe2_frontend import save_onnx

Files = dict[str, bytes]
_CARD: Final = "card.json"


@dataclass(frozen=True)
class Layout:
    """A folder for one server.

    Attributes:
        target: the runtime that the export is for.
        model: the path of the ONNX file, with ``{name}`` for the model's name.
        files: returns the other files, by path.
        usage: what the card says of how it is served, with ``{name}``.
    """

    target: str
    model: str
    files: Callable[[Contents], Files]
    usage: str


def _triton_files(contents: Contents) -> Files:
    requests = {
        "sample/request.json": message("inputs", contents.inputs, contents.sample),
        "sample/response.json": message("outputs", contents.outputs, contents.expected),
    }
    texts = {f"models/{contents.name}/config.pbtxt": triton.configuration(contents), **requests}
    warmup = {f"models/{contents.name}/warmup/{name}": data for name, data in triton.warmup_files(contents).items()}
    return {**{path: text.encode() for path, text in texts.items()}, **warmup}


def _kserve_files(contents: Contents) -> Files:
    return {**_triton_files(contents), "inferenceservice.yaml": kserve.manifest(contents).encode()}


_REQUEST: Final = "curl -d @sample/request.json localhost:8000/v2/models/{name}/infer"

LAYOUTS: Final[Mapping[str, Layout]] = {
    "triton": Layout(
        "onnxruntime",
        "models/{name}/1/model.onnx",
        _triton_files,
        f"`tritonserver --model-repository models` serves it; `{_REQUEST}` answers with `sample/response.json`. The"
        " server was not run where this was made: its configuration was checked against Triton's schema alone.",
    ),
    "kserve": Layout(
        "onnxruntime",
        "models/{name}/1/model.onnx",
        _kserve_files,
        "Upload the folder `models`, name the place in `inferenceservice.yaml` (`storageUri`), and"
        " `kubectl apply -f inferenceservice.yaml`. `sample/request.json` is a request of the Open Inference Protocol,"
        " `sample/response.json` what it answers. No cluster was at hand where this was made.",
    ),
    "web": Layout(
        "onnxruntime-web",
        "model.onnx",
        web.files,
        "`npm install` fetches onnxruntime-web, `npm start` serves the folder on port 8000; the page there runs the"
        " sample and compares the outputs.",
    ),
    "mobile": Layout(
        "onnxruntime",
        "model.onnx",
        mobile.files,
        "`model.ort` is the same model in the format of onnxruntime's mobile builds, and"
        " `required_operators.config` lists what a reduced build of it must contain.",
    ),
}


def package(contents: Contents, layout: str, folder: Path) -> list[Path]:
    """Write the folder of a model, and return the paths of its files.

    A package that was there is replaced at once, or stays; a folder with other files is not touched.

    Args:
        contents: the model, made for the ``target`` of the layout.
        layout: a name in ``LAYOUTS``.
        folder: where.

    Raises:
        OptionError: the layout does not exist, or does not take the model, or the folder holds no package.
        OSError: the folder cannot be written.
    """
    if layout not in LAYOUTS:
        raise OptionError(f"a package is for {', '.join(LAYOUTS)}, not {layout!r}")
    require_replaceable(folder)
    chosen = LAYOUTS[layout]
    files = chosen.files(contents)
    files["sample/inputs.npz"] = _npz(contents.sample)
    files["sample/outputs.npz"] = _npz(contents.expected)

    def write(at: Path) -> None:
        path = at / chosen.model.format(name=contents.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = [Path(str(each)) for each in save_onnx(contents.model, path)]
        digests = {str(each.relative_to(at)): digest(each.read_bytes()) for each in written}
        found = card.facts(contents, digests)
        files["card.md"] = card.page(contents, found, chosen.usage.format(name=contents.name)).encode()
        files[_CARD] = (json.dumps(found, indent=1) + "\n").encode()
        for name, data in files.items():
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            (at / name).write_bytes(data)

    replace_folder(folder, write)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def require_replaceable(folder: Path) -> None:
    """Raise OptionError if there is something at a path that is neither an empty folder nor a package."""
    if not folder.exists() or (folder.is_dir() and ((folder / _CARD).is_file() or not any(folder.iterdir()))):
        return
    what = "the folder has files that are not of a package" if folder.is_dir() else "this is a file"
    raise OptionError(f"{folder}: {what}, and is not replaced: name another folder")


def _npz(values: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    plain = {name: value.astype(np.str_) if value.dtype == object else value for name, value in values.items()}
    np.savez(stream, **plain)
    return stream.getvalue()
