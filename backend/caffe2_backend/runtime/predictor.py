"""Predictors: a model with its parameters, arrays in, arrays out."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from caffe2_backend.runtime.device_names import CPU, device_name, names_gpu
from caffe2_backend.runtime.program import Program
from caffe2_backend.runtime.session_options import DEFAULTS, Choices
from caffe2_backend.runtime.sessions import Session, real_device
from caffe2_backend.runtime.staged import Runnable, make_program
from caffe2_backend.runtime.values import DeviceTensor, Int8Tensor, NoBlobError, Tensor, Value, as_value
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.files import load
from caffe2_bridge.model import Model

if TYPE_CHECKING:
    import onnx

Result = Any  # an array; for Int8 tensors an Int8Tensor; on request a DeviceTensor


class Predictor:
    """A model, ready to run; several threads may run it at a time.

    Args:
        model: a loaded model, what ``caffe2_bridge.load`` reads, an ``.onnx`` file, or an ONNX model in memory.
        device: None runs every operator where its device option says; ``cpu`` ignores device options (a warning says
            so); ``cuda:N`` runs a model without device options there as a whole, and puts this GPU in the place of
            those that options name. An ONNX model runs on the one device, default ``cpu``.
        choices: how sessions are made.

    Raises:
        NetFormatError, OSError: the model cannot be read.
        ConversionError: an ONNX model is malformed, or names external data outside of its folder.
        RunError: there is no such device.
    """

    def __init__(
        self,
        model: Model | onnx.ModelProto | bytes | str | PathLike[str],
        device: str | None = None,
        *,
        choices: Choices = DEFAULTS,
    ) -> None:
        self.device = None if device is None else device_name(device)
        if self.device is not None:
            real_device(self.device, choices)
        self._choices = choices
        if isinstance(model, str | PathLike) and Path(model).suffix != ".onnx":
            model = load(model)
        self._session: Session | None = None
        self._model: Model | None = None
        self._programs: dict[frozenset[str], Runnable] = {}
        self._lock = threading.Lock()
        if isinstance(model, Model):
            self._start(model)
            return
        from caffe2_backend.admission import admit_file, load_proto

        if isinstance(model, str | PathLike):
            admit_file(model)
            model = fspath(model)
        else:
            model = load_proto(model).SerializeToString()
        self._session = Session(model, self.device or CPU, choices=choices)
        self.inputs, self.outputs = self._session.inputs, self._session.outputs

    def _start(self, model: Model) -> None:
        if self.device == CPU and names_gpu(model.predict_net):
            text = "the model asks for GPUs: its device options are ignored, everything runs on the CPU"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        self._model = model
        self._program = self._make(model)
        self._on_host = isinstance(self._program, Program) and self._program.device == CPU
        self.inputs, self.outputs = model.inputs, model.outputs

    def _make(self, model: Model) -> Runnable:
        return make_program(model.predict_net, self.device, self._choices, init=model.init, state=False)

    def run(self, inputs: Mapping[str, Any], *, on_device: bool = False) -> dict[str, Result]:
        """The model's outputs by name; without declared outputs, what the net writes and never reads.

        Args:
            inputs: arrays by name, or tensors of a library that speaks DLPack, such as torch: one on a GPU is used
                where it lies. Names that the model does not have are not used; a parameter that is given here is used
                in the place of the model's own.
            on_device: whether what was computed on a GPU stays there, as DeviceTensor; else all are NumPy arrays.

        Raises:
            ConversionError: the model cannot be converted for inputs of these types and ranks.
            RunError: an input is missing, or the run fails.
        """
        if self._session is not None:
            return self._run_onnx(inputs, on_device=on_device)
        program = self._program
        if not program.made.isdisjoint(inputs):
            program = self._overriding(inputs)
        if self._on_host and isinstance(program, Program):
            found = program.run_prepared(inputs)
            if found is not None:
                return found
        results: dict[str, Tensor] = program.run_plain(_given(program, inputs))
        if not on_device and not self._on_host:
            for name, value in results.items():
                if isinstance(value, DeviceTensor):
                    results[name] = value.numpy()
        return results

    def _overriding(self, inputs: Mapping[str, Any]) -> Runnable:
        """The program in which parameters that are given are inputs."""
        assert self._model is not None
        names = self._program.made.intersection(inputs)
        with self._lock:
            if names not in self._programs:
                model = self._model
                kept = model.init.with_inputs(names)
                self._programs[names] = self._make(Model(model.predict_net, kept, model.source))
            return self._programs[names]

    def _run_onnx(self, inputs: Mapping[str, Any], *, on_device: bool) -> dict[str, Result]:
        assert self._session is not None
        given = {}
        for name in self._session.inputs:
            if name not in inputs:
                raise NoBlobError(f"input {name!r} is not given")
            value = as_value(name, inputs[name], copy=False)
            if not isinstance(value, np.ndarray | DeviceTensor | Int8Tensor):
                raise RunError(f"input {name!r} is no tensor")
            given[name] = value.data if isinstance(value, Int8Tensor) else value
        results = self._session.run_on_device(given)
        return {n: v.numpy() if isinstance(v, DeviceTensor) and not on_device else v for n, v in results.items()}


def _given(program: Runnable, inputs: Mapping[str, Any]) -> dict[str, Value]:
    given: dict[str, Value] = {}
    for name in program.needs:
        value = inputs.get(name)
        if value is None:
            raise NoBlobError(f"input {name!r} is not given")
        if type(value) is np.ndarray and value.dtype.isnative and value.dtype.kind in "fiub":
            given[name] = value
        else:
            given[name] = as_value(name, value, copy=False)
    for name in program.may_need:
        if name in inputs:
            given[name] = as_value(name, inputs[name], copy=False)
    return given
