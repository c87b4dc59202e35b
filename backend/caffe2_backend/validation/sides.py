"""The sides of a comparison: a model in the form that its runtime takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from caffe2_backend.admission import load_proto
from caffe2_backend.runtime import Int8Tensor
from caffe2_backend.validation.inputs.roles import find_roles
from caffe2_backend.validation.runtimes import AnyModel, Runtime
from caffe2_bridge import Model, load
from caffe2_bridge.diagnostics import ConversionError, Diagnostic
from caffe2_bridge.init.fills import RANDOM
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend import ExportOptions, analyze, finish

Described: TypeAlias = Mapping[str, tuple[Any, ...]]
ModelLike: TypeAlias = AnyModel | str | Path


@dataclass(frozen=True, eq=False)
class Side:
    """One side: a runtime, and the model in the form that it takes. ``label`` is unique in a comparison."""

    label: str
    runtime: Runtime
    model: AnyModel = field(repr=False)


def read_model(model: ModelLike, init: str | Path | None = None) -> AnyModel:
    """A model: given, or read from what ``caffe2_bridge.load`` reads, or from an .onnx file.

    Raises NetFormatError, OSError, and ConversionError where an ONNX model is malformed or its external data missing.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, str | Path) and Path(model).suffix != ".onnx":
        return load(model, init)
    return load_proto(model)


class Forms:
    """A model in both forms; the other one is made when a runtime needs it.

    Args:
        model: the model.
        described: what the caller knows of its inputs, as :func:`caffe2_frontend.to_onnx` takes it.
        inputs: what it is to run on, where that is given: it says dtypes and ranks that the net does not.
        recurrent: the form of recurrent nets in the export.
    """

    def __init__(
        self,
        model: AnyModel,
        described: Described | None = None,
        inputs: Mapping[str, Any] | None = None,
        recurrent: Any = "auto",
    ) -> None:
        self.model = model
        self.described = dict(described or {})
        self._inputs = dict(inputs or {})
        self.recurrent = recurrent
        self._made: AnyModel | None = None
        self.guessed: tuple[str, ...] = ()
        self.diagnostics: tuple[Diagnostic, ...] = ()
        self._sized = False

    @property
    def graph(self) -> onnx.ModelProto:
        """The ONNX model, or the net's export. Raises ConversionError."""
        if isinstance(self.model, onnx.ModelProto):
            return self.model
        if self._made is None:
            self._made = self._export(self.model)
        assert isinstance(self._made, onnx.ModelProto)
        return self._made

    @property
    def net(self) -> Model:
        """The Caffe2 model, or the ONNX model's import. Raises ConversionError."""
        if isinstance(self.model, Model):
            return self.model
        if self._made is None:
            from caffe2_backend.importer import to_netdef

            self._made = to_netdef(self.model)
        assert isinstance(self._made, Model)
        return self._made

    @property
    def is_sized(self) -> bool:
        """Whether the export holds for the sizes of the given inputs alone. Raises ConversionError."""
        if isinstance(self.model, Model):
            self.graph  # noqa: B018 - made now
        return self._sized

    def take(self, runtime: Runtime) -> AnyModel:
        """The form that a runtime takes."""
        return self.graph if runtime.form == "onnx" else self.net

    def _export(self, model: Model) -> onnx.ModelProto:
        """The export, told no more of the inputs than it needs: dtypes, ranks, sizes, then what has to be guessed."""
        names = set(model.inputs)
        given = {name: value for name, value in self._inputs.items() if name in names}
        first = {name: _description(value, None) for name, value in given.items()} | self.described
        attempts: list[dict[str, tuple[Any, ...]]] = [first]
        if given:
            attempts.append({n: _description(v, (None,) * _rank(v)) for n, v in given.items()} | self.described)
            attempts.append({n: _description(v, _shape(v)) for n, v in given.items()} | self.described)
        for index, described in enumerate(attempts):
            try:
                made = self._converted(model, described)
            except ConversionError as failed:
                error = failed
                if not any(finding.code == "needs-shape" for finding in error.findings):
                    break
            else:
                self._sized = index == 2
                return made
        reasons = [finding.reason for finding in error.findings if finding.code == "needs-shape"]
        unknown = [n for n in model.inputs if n not in first and any(f"input {n!r} " in r for r in reasons)]
        if not unknown:
            raise error
        # The net says nothing of them: lengths are one a row, and one element is what conditions and counters have.
        roles = find_roles(None, model)
        guesses = {n: ("int32", ("N",)) if n in roles and roles[n].steps else (None, (1,)) for n in unknown}
        try:
            made = self._converted(model, first | guesses)
        except ConversionError:  # a guess that was wrong is nothing to tell
            raise error from None
        self.guessed = tuple(unknown)
        return made

    def _converted(self, model: Model, described: Described) -> onnx.ModelProto:
        """The export with these inputs; keeps its warnings and notes. Raises ConversionError."""
        export = analyze(model, options=ExportOptions(inputs=described, recurrent=self.recurrent))
        made = ir.to_proto(finish(export))
        self.diagnostics = export.findings
        return made


def _description(value: Any, shape: tuple[int | None, ...] | None) -> tuple[Any, ...]:
    """An input as :func:`caffe2_frontend.to_onnx` takes it."""
    if isinstance(value, Int8Tensor):
        return value.data.dtype, shape, (value.scale, value.zero_point)
    return np.asarray(value).dtype, shape


def _rank(value: Any) -> int:
    return len(_shape(value))


def _shape(value: Any) -> tuple[int, ...]:
    return value.data.shape if isinstance(value, Int8Tensor) else np.asarray(value).shape


def every_value(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every value that a node of its outer graph makes as an output."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    listed = {value.name for value in whole.graph.output}
    made = dict.fromkeys(name for node in whole.graph.node for name in node.output if name and name not in listed)
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    return whole


def depths(model: AnyModel) -> dict[str, int]:
    """How many operators lie between the inputs and each value of the outer net, those of loops counted once."""
    found: dict[str, int] = {}
    if isinstance(model, Model):
        for op in model.predict_net.op:
            depth = 1 + max((found.get(name, 0) for name in op.input), default=0)
            found.update((name, depth) for name in op.output)
        return found
    for node in model.graph.node:
        depth = 1 + max((found.get(name, 0) for name in node.input), default=0)
        found.update((name, depth) for name in node.output)
    return found


_DRAWN: Final = frozenset(["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"])


def random_values(model: AnyModel) -> frozenset[str]:
    """The values of the outer net that hang on random numbers: no two runtimes draw the same."""
    found: set[str] = set()
    ops: Iterable[OperatorDef | onnx.NodeProto]
    ops, drawing = (model.predict_net.op, RANDOM) if isinstance(model, Model) else (model.graph.node, _DRAWN)
    for op in ops:
        kind = op.type if isinstance(op, OperatorDef) else op.op_type
        if kind in drawing or not found.isdisjoint(op.input):
            found.update(op.output)
        else:
            found.difference_update(op.output)
    return frozenset(found)
