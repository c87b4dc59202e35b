"""Exports through ``to_netdef``, run in real Caffe2 and in this project's own runtime, against PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import torch
from conformance.oracle import OracleRun
from onnx_suite.cases import difference
from onnx_suite.strict import answers
from torch.utils import _pytree

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from torch_exports.cases import Case
from torch_exports.export import Exporter, ExporterError, build, export


@dataclass(frozen=True)
class Exported:
    """A case in ONNX form, and for each of its sizes the inputs and what PyTorch makes of them."""

    case: Case
    model: onnx.ModelProto
    data: tuple[tuple[Mapping[str, Any], list[Any]], ...]

    @cached_property
    def strict(self) -> Model:
        """The import into operators of Caffe2 alone. Raises BridgeError."""
        return to_netdef(self.model)


def exported(case: Case, exporter: Exporter) -> Exported:
    """Export and run in PyTorch. Raises ExporterError."""
    module = build(case)
    model = export(case, module, exporter)
    names = [value.name for value in model.graph.input]
    data = []
    for size in case.sizes:
        args = case.inputs(*size)
        with torch.no_grad():
            expected = [item.numpy() for item in _pytree.tree_leaves(module(*args))]
        data.append((dict(zip(names, (arg.numpy() for arg in args), strict=False)), expected))
    return Exported(case, model, tuple(data))


def refusals(cases: Iterable[Case], exporter: Exporter) -> tuple[list[Exported], dict[str, str]]:
    """Return what could be exported, and by name what the exporter says of the others."""
    made, refused = [], {}
    for case in cases:
        try:
            made.append(exported(case, exporter))
        except ExporterError as error:
            refused[case.name] = str(error)
    return made, refused


def in_caffe2(exports: Iterable[Exported]) -> dict[str, str]:
    """Return for each case why the strict import or real Caffe2 fails; empty where it passes."""
    outcome: dict[str, str] = {}
    runs: list[tuple[Exported, list[OracleRun]]] = []
    for item in exports:
        try:
            model = item.strict
        except BridgeError as error:
            outcome[item.case.name] = f"import: {error}"
            continue
        wanted = list(dict.fromkeys(model.predict_net.external_output))
        runs.append((item, [OracleRun(model.predict_net, fed, model.init_net, wanted) for fed, _ in item.data]))
    for (item, _), results in zip(runs, answers([run for _, run in runs]), strict=True):
        outcome[item.case.name] = next(
            filter(
                None, (result.error or _judged(item, number, result.outputs) for number, result in enumerate(results))
            ),
            "",
        )
    return outcome


def in_onnxruntime(exports: Iterable[Exported]) -> dict[str, str]:
    """Return the same for the exporter's own model: where that is wrong, no import can be right."""
    outcome = {}
    for item in exports:
        wanted = [value.name for value in item.model.graph.output]
        try:
            run = OnnxSession(item.model.SerializeToString(), threads=1).run_values
            results = (dict(zip(wanted, run(fed), strict=True)) for fed, _ in item.data)
            outcome[item.case.name] = next(filter(None, (_judged(item, i, made) for i, made in enumerate(results))), "")
        except BridgeError as error:
            outcome[item.case.name] = f"{type(error).__name__}: {error}"
    return outcome


def in_predictor(exports: Iterable[Exported], *, strict: bool) -> dict[str, str]:
    """Return the same in this project's Predictor, of the strict import or of one that carries ONNX's operators."""
    outcome = {}
    for item in exports:
        try:
            model = item.strict if strict else to_netdef(item.model, foreign="carry")
            outcome[item.case.name] = _predicted(item, model)
        except BridgeError as error:
            outcome[item.case.name] = f"{type(error).__name__}: {error}"
    return outcome


def _predicted(item: Exported, model: Model) -> str:
    predictor = Predictor(model)
    return next(filter(None, (_judged(item, i, predictor.run(fed)) for i, (fed, _) in enumerate(item.data))), "")


def _judged(item: Exported, number: int, outputs: Mapping[str, Any]) -> str:
    names = [value.name for value in item.model.graph.output]
    expected = item.data[number][1]
    if len(names) != len(expected):
        return f"{len(names)} outputs instead of {len(expected)}"
    for name, value in zip(names, expected, strict=True):
        wrong = difference(value, np.asarray(outputs[name]), item.case.rtol, item.case.atol)
        if wrong:
            return f"{item.case.sizes[number]} output {name!r}: {wrong}"
    return ""
