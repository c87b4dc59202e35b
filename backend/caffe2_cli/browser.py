"""Functions for a page that converts models where there is no command line: files as bytes in, plain data out.

The page in ``docs/try`` calls them by Pyodide, where Python has no onnxruntime, no processes and no threads. Each takes
``files``, bytes by name, and ``options``, the fields of :class:`Options`. It returns a dict of what JSON has, and of
bytes. It raises nothing: what goes wrong is the key ``error``, a sentence, or among the ``findings``.

The files are written to a temporary folder, which is removed when others are given; nothing else is touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from hashlib import sha256
from importlib.resources import files as package_files
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from caffe2_backend.input_text import parse_inputs
from caffe2_bridge import Int8Tensor, Model, load, save
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, NetFormatError, OptionError, Severity
from caffe2_bridge.diagnostics.internal import internal_error
from caffe2_bridge.diagnostics.log import muted

Files = Mapping[str, bytes]
Answer = dict[str, Any]

_NETS: Final = ("predict_net.pb", "init_net.pb")
_EXAMPLES: Final = {"lstm": "letters.npz", "cnn": "digits.npz"}


@dataclass(frozen=True)
class Options:
    """What the user of the page chooses.

    Attributes:
        net: the name of the file with the predict net, where names do not tell it.
        inputs: descriptions of inputs, ``NAME=DTYPE[DIMS]``, as the command line takes them.
        outputs: blobs to output instead of the net's own.
        target: the runtime that an export is for.
        opset: of an export; None for the target's.
        seed: of synthesized inputs.
    """

    net: str = ""
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    target: str = "onnxruntime"
    opset: int | None = None
    seed: int = 2018

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Return options by name. Raises OptionError for a name that is none."""
        unknown = given.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise OptionError(f"no such option: {', '.join(sorted(unknown))}")
        return cls(**given)

    @property
    def described(self) -> Mapping[str, Any]:
        """The inputs as :func:`caffe2_frontend.to_onnx` takes them. Raises OptionError."""
        return parse_inputs(self.inputs)

    @property
    def export(self) -> Any:
        """The options of an export. Raises OptionError, InputSpecError."""
        from caffe2_frontend import ExportOptions

        outputs = tuple(self.outputs) or None
        return ExportOptions(inputs=self.described, outputs=outputs, target=self.target, opset=self.opset)


class _Given:
    """The files, in a folder that lasts as long as this object, and the options of the present call."""

    def __init__(self, digests: Mapping[str, bytes]) -> None:
        self.digests = digests
        self.options = Options()
        self.paths: list[Path] = []
        self._temporary = TemporaryDirectory(prefix="caffe2-bridge-")
        self._models: dict[str, Model] = {}

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return Path(self._temporary.name)

    def write(self, files: Files) -> None:
        """Write the files, if they are not there. Raises NetFormatError for names that are none."""
        if self.paths:
            return
        paths = [self._path(name) for name in files]
        for path, count in Counter(paths).items():
            if count > 1:
                raise NetFormatError("several files have this name", path.name)
        for path, data in zip(paths, files.values(), strict=True):
            path.write_bytes(data)
        self.paths = paths

    def _path(self, name: str) -> Path:
        """Return where a file is written: under the last part of its name, so that none leaves the folder."""
        last = PurePosixPath(name.replace("\\", "/")).name
        if last in ("", ".."):
            raise NetFormatError("this is not the name of a file", name)
        return self.folder / last

    @property
    def onnx(self) -> Path | None:
        """The ONNX model, if there is one; other files are its external data. Raises NetFormatError for several."""
        found = [path for path in self.paths if path.suffix == ".onnx"]
        if len(found) > 1:
            raise NetFormatError(f"there are several ONNX models: {', '.join(path.name for path in found)}; give one")
        return found[0] if found else None

    def load(self) -> Model:
        """Load the Caffe2 model: the file that is chosen, or the only one, or what the names of several say."""
        if not self.paths:
            raise NetFormatError("no files are given")
        net = self.options.net
        if net not in self._models:
            whole = self.paths[0] if len(self.paths) == 1 else self.folder
            self._models[net] = load(self._path(net) if net else whole)
        return self._models[net]

    def imported(self, path: Path) -> Model:
        """Convert the ONNX model."""
        from caffe2_backend.importer import import_model
        from caffe2_backend.options import ImportOptions

        return import_model(path, ImportOptions(inputs=self.options.described)).model

    def named(self, text: str) -> str:
        """Return a text in which the files have the names that were given."""
        for prefix in (f"{self.folder}/", f"{self.folder}: "):
            text = text.replace(prefix, "")
        return text.replace(str(self.folder), "the files")

    def plain(self, findings: Iterable[Diagnostic]) -> list[dict[str, str]]:
        """Return the texts of diagnostics."""
        return [
            {key: self.named(value) for key, value in each.to_dict().items() if isinstance(value, str)}
            for each in findings
        ]

    def failure(self, error: Exception) -> Answer:
        """Return an error as findings, or as a sentence."""
        found: Sequence[Diagnostic] = ()
        if isinstance(error, ConversionError):
            found = error.findings
        elif not isinstance(error, BridgeError | OSError):
            try:
                found = [internal_error(error)]
            except BridgeError as own:  # there is not enough memory
                error = own
        return {"findings": self.plain(found)} if found else {"error": self.named(str(error)), "findings": []}


def _answering(function: Callable[[_Given], Answer]) -> Callable[..., Answer]:
    """Make a function of files and options, which raises nothing, of one of what is given."""

    @wraps(function)
    @muted()  # what conversions log is in their findings
    def answer(files: Files, options: Mapping[str, Any] | None = None) -> Answer:
        given = _given(files)
        try:
            given.options = Options.of(options or {})
            given.write(files)
            return function(given)
        except Exception as error:  # noqa: BLE001 - the page shows it, a fault of this project too
            return given.failure(error)

    return answer


_last: list[_Given] = []  # the page asks several things of the same files, and reading text takes long


def _given(files: Files) -> _Given:
    """Return what the last call was given if these are the same files."""
    digests = {name: sha256(data).digest() for name, data in files.items()}
    if not _last or _last[0].digests != digests:
        _last[:] = [_Given(digests)]
    return _last[0]


@_answering
def findings(given: _Given) -> Answer:
    """Return what does not convert to the other form.

    Keys: ``form`` (``Caffe2`` or ``ONNX``), ``covered``, ``findings``, ``summary``.
    """
    path = given.onnx
    if path is not None:
        count = len(given.imported(path).predict_net.op)
        return {"form": "ONNX", "covered": True, "findings": [], "summary": f"converts to {count} Caffe2 operators"}
    from caffe2_frontend import check

    report = check(given.load(), options=given.options.export)
    answer = {"form": "Caffe2", "covered": report.covered, "summary": report.summary()}
    return {**answer, "findings": given.plain(report.findings)}


@_answering
def picture(given: _Given) -> Answer:
    """Return the interactive picture, a whole page: ``html``."""
    from caffe2_backend.picture import picture_html

    path = given.onnx
    return {"html": picture_html(given.load(), inputs=given.options.described) if path is None else picture_html(path)}


@_answering
def convert(given: _Given) -> Answer:
    """Convert a Caffe2 model to ONNX, and an ONNX model to Caffe2.

    Keys: ``files`` (the result: ``name`` and ``data`` of each), ``lines`` (what there is to say of it), ``findings``.
    """
    path = given.onnx
    return _exported(given) if path is None else _imported(given, path)


def _exported(given: _Given) -> Answer:
    from caffe2_cli.exported import ExportedModel
    from caffe2_frontend import analyze, finish
    from caffe2_frontend.interop.files.serialize import to_proto

    export = analyze(given.load(), options=given.options.export)
    model = finish(export)
    lines = ExportedModel.of(model).lines()
    data = to_proto(model).SerializeToString()
    notes = given.plain(each for each in export.findings if each.severity is not Severity.ERROR)
    return {"files": [{"name": "model.onnx", "data": data}], "lines": lines, "findings": notes}


def _imported(given: _Given, path: Path) -> Answer:
    model = given.imported(path)
    with TemporaryDirectory(prefix="caffe2-bridge-") as name:
        save(model, name)
        files = [{"name": net, "data": Path(name, net).read_bytes()} for net in _NETS]
    lines = [*(f"input   {name}" for name in model.inputs), *(f"output  {name}" for name in model.outputs)]
    return {"files": files, "lines": lines, "findings": []}


@_answering
def synthesize(given: _Given) -> Answer:
    """Synthesize inputs of a model: ``tensors``, see :func:`arrays`, and ``notes``.

    No runtime tries them here: sizes that the model does not declare are those that its operators imply.
    """
    from caffe2_backend.admission import load_proto
    from caffe2_validation.api import synthesize as synthesized
    from caffe2_validation.options import ValidationOptions

    path, options = given.onnx, given.options
    chosen = ValidationOptions(described=options.described, outputs=options.outputs or None, seed=options.seed)
    made = synthesized(given.load() if path is None else load_proto(path), chosen)
    inputs = made.cases[1 if len(made.cases) > 1 else 0].inputs  # in the first one, batch and steps are 1
    return {"tensors": [_tensor(name, value) for name, value in inputs.items()], "notes": list(made.notes)}


@_answering
def arrays(given: _Given) -> Answer:
    """Read .npy and .npz files: ``tensors``, each with ``name``, ``type``, ``dims`` and ``data``.

    The array of an .npy file has the name of the file. ``type`` is that of onnxruntime-web. ``data`` are the bytes of
    the elements, little-endian; of strings, a list.
    """
    from caffe2_bridge.files.npz import read_npy, read_npz

    tensors = []
    for path in given.paths:
        found = {path.stem: read_npy(path)} if path.suffix == ".npy" else read_npz(path)
        tensors += [_tensor(name, value) for name, value in found.items()]
    return {"tensors": tensors}


def _tensor(name: str, value: Any) -> dict[str, Any]:
    array = value.data if isinstance(value, Int8Tensor) else np.asarray(value)
    dims = list(array.shape)
    if array.dtype.kind in "OSU":
        texts = [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in array.ravel()]
        return {"name": name, "type": "string", "dims": dims, "data": texts}
    if array.dtype.kind not in "biuf":
        raise NetFormatError(f"array {name!r} is {array.dtype}, of which there are no tensors in onnxruntime-web")
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return {"name": name, "type": array.dtype.name, "dims": dims, "data": data}


def example(name: str) -> dict[str, dict[str, bytes]]:
    """Return a trained model of the distribution, ``lstm`` or ``cnn``: ``files``, and ``arrays`` for its inputs."""
    source = package_files("caffe2_cli") / "demo_files"
    sample = _EXAMPLES[name]
    return {
        "files": {net: source.joinpath(name, net).read_bytes() for net in _NETS},
        "arrays": {sample: source.joinpath(sample).read_bytes()},
    }
