"""A model in both forms: the Caffe2 net and the ONNX model, the second one converted when a runtime needs it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx

from caffe2_backend.admission import load_proto
from caffe2_backend.importer import to_netdef
from caffe2_backend.runtime.sessions.missing_inputs import exported_inputs
from caffe2_backend.runtime.sessions.session import require_outputs
from caffe2_backend.runtime.sessions.wrong_inputs import wrong_inputs_of_net
from caffe2_bridge import Int8Tensor, Model, load
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, RunError
from caffe2_bridge.files.detect import is_onnx_file
from caffe2_bridge.readers import cut_readers
from caffe2_bridge.storage import Location, locate
from caffe2_frontend import ExportOptions, analyze, finish
from caffe2_frontend.interop.files.serialize import to_proto
from caffe2_frontend.interop.input_defaults import without_defaults
from caffe2_validation.options import Described
from caffe2_validation.roles import find_roles
from caffe2_validation.runtimes import AnyModel, Runtime

ModelLike: TypeAlias = AnyModel | str | os.PathLike[str]


def read_model(model: ModelLike, init: Location | None = None, databases: Location | None = None) -> AnyModel:
    """Read a model, unless it is given: a path or URL that ``caffe2_bridge.load`` reads, or an .onnx file.

    Readers of databases at the head of a Caffe2 net become its inputs, and what of its init net nothing reads is left
    out.

    Raises NetFormatError, OSError, and ConversionError if an ONNX model is malformed or its external data are missing.
    """
    if isinstance(model, Model):
        return cut_readers(model).without_unneeded()
    if isinstance(model, str | os.PathLike) and not is_onnx_file(locate(model)):
        return cut_readers(load(model, init, databases=databases)).without_unneeded()
    return load_proto(model)


def with_outputs(model: AnyModel, names: Sequence[str] | None) -> AnyModel:
    """Return the model with these outputs instead of its own; of an ONNX model they must be among its outputs.

    Raises OptionError if the model does not have an output of that name.
    """
    if names is None:
        return model
    if isinstance(model, Model):
        return model.with_outputs(names)
    outputs = {value.name: value for value in model.graph.output}
    require_outputs(names, tuple(outputs))
    chosen = onnx.ModelProto()
    chosen.CopyFrom(model)
    del chosen.graph.output[:]
    chosen.graph.output.extend(outputs[name] for name in dict.fromkeys(names))
    return chosen


def with_inputs(model: AnyModel, names: Collection[str]) -> AnyModel:
    """Return the model in which these are plain inputs, where they are parameters or inputs that have defaults.

    No conversion then takes them for constants.
    """
    return model.with_inputs(names) if isinstance(model, Model) else without_defaults(model, names)


def known_inputs(model: AnyModel) -> tuple[Sequence[str], Collection[str]]:
    """Return the inputs of a model, with those that have defaults, and the parameters that a value may replace."""
    if isinstance(model, Model):
        return model.inputs, model.init.replaceable
    return tuple(value.name for value in model.graph.input), ()


class Forms:
    """A model in both forms.

    Args:
        model: the model.
        described: what the caller knows of its inputs, as :func:`caffe2_frontend.to_onnx` takes it.
        inputs: given inputs, whose dtypes and ranks the net may not declare.
        export: options of the export, by the names of :class:`caffe2_frontend.ExportOptions`.

    Attributes:
        guessed: inputs whose shape was guessed, as neither the net nor the caller says anything about it.
        diagnostics: warnings and notes of the export.
    """

    def __init__(
        self,
        model: AnyModel,
        described: Described | None = None,
        inputs: Mapping[str, Any] | None = None,
        export: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.described = dict(described or {})
        self.export = dict(export or {})
        self.guessed: tuple[str, ...] = ()
        self.diagnostics: tuple[Diagnostic, ...] = ()
        self._inputs = dict(inputs or {})
        self._converted: AnyModel | None = None
        self._sized = False

    @property
    def graph(self) -> onnx.ModelProto:
        """The ONNX model, or the net's export. Raises ConversionError."""
        if isinstance(self.model, onnx.ModelProto):
            return self.model
        if self._converted is None:
            self._converted = self._export(self.model)
        assert isinstance(self._converted, onnx.ModelProto)
        return self._converted

    @property
    def net(self) -> Model:
        """The Caffe2 model, or the ONNX model's import. Raises ConversionError."""
        if isinstance(self.model, Model):
            return self.model
        if self._converted is None:
            self._converted = to_netdef(self.model)
        assert isinstance(self._converted, Model)
        return self._converted

    @property
    def is_sized(self) -> bool:
        """Whether the export is valid for the sizes of the given inputs only. Raises ConversionError."""
        if isinstance(self.model, Model):
            self.graph  # noqa: B018 - converts now
        return self._sized

    def take(self, runtime: Runtime) -> AnyModel:
        """Return the form that a runtime takes. Raises ConversionError."""
        return self.graph if runtime.form == "onnx" else self.net

    def _export(self, model: Model) -> onnx.ModelProto:
        """Export with as little information about the inputs as possible, so that the export stays general.

        The attempts: dtypes only, ranks as well, sizes as well; at last guesses for inputs without any information.
        """
        names = set(model.inputs)
        given = {name: value for name, value in self._inputs.items() if name in names}
        ranks = {name: describe_value(value, (None,) * len(shape_of(value))) for name, value in given.items()}
        filled = model.init.placeholders  # parameters that are replaced, whose rank no operator need tell
        dtypes = {n: ranks[n] if n in filled else describe_value(v, None) for n, v in given.items()} | self.described
        attempts: list[dict[str, tuple[Any, ...]]] = [dtypes]
        if given:
            attempts.append(ranks | self.described)
            attempts.append({n: describe_value(v, shape_of(v)) for n, v in given.items()} | self.described)
        for index, described in enumerate(attempts):
            try:
                converted = self._export_with(model, described)
            except ConversionError as failed:
                error = failed
                if not any(finding.code == "needs-shape" for finding in error.findings):
                    break
            else:
                self._sized = index == 2
                return converted
        try:
            return self._export_guessing(model, dtypes, error)
        except ConversionError as failure:
            wrong = wrong_inputs_of_net(given, exported_inputs(model), failure)
            if wrong:
                raise RunError(wrong) from error
            raise

    def _export_guessing(
        self, model: Model, described: dict[str, tuple[Any, ...]], error: ConversionError
    ) -> onnx.ModelProto:
        """Export with guessed shapes of inputs of unknown or assumed rank. Raises ``error`` if that fails."""
        reasons = [finding.reason for finding in error.findings if finding.code in ("needs-shape", "assumed-rank")]
        unknown = [n for n in model.inputs if n not in described and any(repr(n) in r for r in reasons)]
        if not unknown:
            raise error
        # Lengths have one element per row of the batch; conditions and counters have one element.
        roles = find_roles(None, model)
        guesses = {n: ("int32", ("N",)) if n in roles and roles[n].steps else (None, (1,)) for n in unknown}
        try:
            converted = self._export_with(model, described | guesses)
        except ConversionError:  # an error that a wrong guess caused would mislead
            raise error from None
        self.guessed = tuple(unknown)
        return converted

    def _export_with(self, model: Model, described: Described) -> onnx.ModelProto:
        export = analyze(model, options=ExportOptions(inputs=described, training=False, **self.export))
        converted = to_proto(finish(export))
        self.diagnostics = export.findings
        return converted


def describe_value(value: Any, shape: tuple[int | None, ...] | None) -> tuple[Any, ...]:
    """Return an input as :func:`caffe2_frontend.to_onnx` takes it."""
    if isinstance(value, Int8Tensor):
        return value.data.dtype, shape, (value.scale, value.zero_point)
    return np.asarray(value).dtype, shape


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of an input."""
    return value.data.shape if isinstance(value, Int8Tensor) else np.asarray(value).shape
