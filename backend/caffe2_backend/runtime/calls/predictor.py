"""Predictors: a model with its parameters, arrays in, arrays out."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from caffe2_backend.admission import admit_file, load_proto
from caffe2_backend.runtime.blobs.feeding import as_value
from caffe2_backend.runtime.devices.device_names import CPU, device_name
from caffe2_backend.runtime.memory import lack_of_memory
from caffe2_backend.runtime.placement.automatic import PlacedProgram
from caffe2_backend.runtime.placement.make import Runnable, make_program
from caffe2_backend.runtime.placement.report import Placement
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.program.row_updates.lookup_program import LookupProgram
from caffe2_backend.runtime.sending.sendable import Recipe, Sendable
from caffe2_backend.runtime.sending.sources import source_of
from caffe2_backend.runtime.sessions.device_choice import choose_device
from caffe2_backend.runtime.sessions.missing_inputs import (
    exported_inputs,
    missing_inputs,
    net_inputs,
    require_inputs,
    require_mapping,
)
from caffe2_backend.runtime.sessions.model_session import model_session
from caffe2_backend.runtime.sessions.onnxruntime_library import real_device
from caffe2_backend.runtime.sessions.session import Session, require_outputs
from caffe2_backend.runtime.sessions.session_options import DEFAULTS, SessionOptions
from caffe2_backend.runtime.sessions.wrong_inputs import wrong_inputs, wrong_inputs_of_net
from caffe2_backend.runtime.values import Array, DeviceTensor, Int8Tensor, NoBlobError, Tensor, Value
from caffe2_bridge.diagnostics import BridgeError, ConversionError, OptionError, RunError
from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_bridge.model import Model
from caffe2_bridge.readers import cut_readers

Result = Any  # an array; an Int8Tensor for Int8 tensors; a DeviceTensor on request


class Predictor(Sendable):
    """A model, ready to run; several threads may run it at the same time.

    It can be pickled: a model that was given as a path goes by the path and a digest of its content, another one by
    value. The sessions open on first use in each process, where RunError says if the model is another one there.

    Args:
        model: a loaded model, a path or URL that ``caffe2_bridge.load`` reads, that of an ``.onnx`` file, or an ONNX
            model in memory (a ModelProto or its bytes).
        device: None runs every operator where its device option says, or on the CPU (with a warning) on a machine
            without a GPU; ``cpu`` ignores device options (with a warning);
            ``cuda:N`` and ``webgpu`` run a model without device options there as a whole, or what has a kernel there,
            and replace the GPUs that options name. An ONNX model runs as a whole on the device, default ``cpu``.
        options: of the sessions.
        outputs: the blobs to return instead of the model's own outputs; those of an ONNX model must be among its own.

    Raises:
        NetFormatError, OSError: the model cannot be read.
        OptionError: the model does not have an output of that name.
        ConversionError: an ONNX model is malformed, or names external data outside of its folder.
        RunError: the device is not supported, or onnxruntime cannot load the ONNX model.
    """

    def __init__(
        self,
        model: Model | onnx.ModelProto | bytes | str | PathLike[str],
        device: str | None = None,
        *,
        options: SessionOptions = DEFAULTS,
        outputs: Sequence[str] | None = None,
    ) -> None:
        self.device = None if device is None else device_name(device)
        if self.device is not None:
            real_device(self.device, options)
        source = source_of(model)
        self._recipe = Recipe(source, {"device": device, "options": options, "outputs": outputs})
        found = source.given()
        self._runner: _NetRunner | _OnnxRunner
        if isinstance(found, Model):
            net = cut_readers(found)
            chosen, warning = choose_device(net.predict_net, self.device, options, "the model")
            if warning:
                warnings.warn(warning, RuntimeWarning, stacklevel=2)
            self._runner = _NetRunner(net.with_outputs(outputs), chosen, options)
        else:
            self._runner = _OnnxRunner(found, self.device or CPU, options, outputs)
        self.inputs, self.outputs = self._runner.inputs, self._runner.outputs

    def __repr__(self) -> str:
        assert self._recipe is not None  # a Predictor has one
        known = {} if self._waits else {"inputs": self.inputs, "outputs": self.outputs, "device": self.device}
        return short_repr(self, str(self._recipe.source), **known)

    @property
    def placement(self) -> Placement | None:
        """Where the operators ran in the last new kind of run; None for a model that was not placed automatically.

        Models without device options that are given a GPU are, when they first run.
        """
        return self._runner.placement

    def run(self, inputs: Mapping[str, Any], *, on_device: bool = False) -> dict[str, Result]:
        """Run the model: its outputs by name; without declared outputs, the blobs that the net writes and never reads.

        Args:
            inputs: arrays by name, or tensors of a library that supports DLPack, such as torch: one on a GPU is used
                without a copy. The name of a parameter, or of an input that has a default, replaces the model's own
                value.
            on_device: whether tensors that were computed on a GPU stay there, as DeviceTensor; if not, all are NumPy
                arrays.

        Raises:
            ConversionError: the model cannot be converted for inputs of these types and ranks.
            RunError: the inputs are not given by name, an input is missing or not of the type and shape that the model
                takes, a name is neither an input nor a parameter, the run fails, or there is not enough memory.
        """
        if type(inputs) is not dict:
            require_mapping(inputs, self.inputs, self._runner.input_types)
        try:
            results = self._runner.run(inputs)
            return dict(results) if on_device else _fetched(results)
        except MemoryError as error:
            raise lack_of_memory("the model", error) from error
        except (ConversionError, RunError) as error:
            wrong = "" if isinstance(error, NoBlobError) else self._runner.wrong_inputs(inputs, error)
            if wrong:
                raise RunError(wrong) from error
            raise

    def run_many(
        self,
        steps: Iterable[Mapping[str, Any]],
        states: Mapping[str, str] = MappingProxyType({}),
        *,
        on_device: bool = False,
    ) -> Iterator[dict[str, Result]]:
        """Run the model step by step, or batch by batch: the outputs of each, when they are asked for.

        States stay where the model runs, in memory of the session's, so that a step takes less time than :meth:`run`.

        Args:
            steps: the inputs of each step, as for :meth:`run`. The first has the initial states; a later one that has
                a state replaces what the step before it left.
            states: by input, the output that it is in the next step: ``{"hidden_init": "hidden_last"}``. Arrays of
                these outputs must not be changed. None by default: the steps are batches that do not depend on one
                another.
            on_device: see :meth:`run`.

        Raises:
            OptionError: a state is not an input of the model, or not fed by one of its outputs.
            ConversionError, RunError: see :meth:`run`.
        """
        _require_states(states, self._runner)
        run = self._runner.stepping(states)

        def results() -> Iterator[dict[str, Result]]:
            carried: dict[str, Any] = {}
            for inputs in steps:
                require_mapping(inputs, self.inputs, self._runner.input_types)
                try:
                    found = run({**carried, **inputs})
                    carried = {name: found[output] for name, output in states.items()}
                    results = dict(found) if on_device else _fetched(found)
                except MemoryError as error:
                    raise lack_of_memory("the model", error) from error
                yield results

        return results()


def _fetched(results: Mapping[str, Result]) -> dict[str, Result]:
    """Return the results on the host."""
    return {name: value.numpy() if isinstance(value, DeviceTensor) else value for name, value in results.items()}


def _require_states(states: Mapping[str, str], runner: _NetRunner | _OnnxRunner) -> None:
    """Raise OptionError if a state is not one of the inputs, or not fed by one of the outputs."""
    for name, output in states.items():
        if name not in runner.inputs and name not in runner.optional:
            listed = ", ".join(runner.inputs)
            raise OptionError(f"state {name!r} is not an input of the model: its inputs are {listed}")
        if output not in runner.outputs:
            raise OptionError(f"the model does not output {output!r}, which feeds state {name!r}: name it in outputs=")


class _NetRunner:
    """Runs a Caffe2 model."""

    def __init__(self, model: Model, device: str | None, options: SessionOptions) -> None:
        self.inputs, self.outputs = model.inputs, model.outputs
        self._model = model
        self._device = device
        self._options = options
        self._program = self._make(model)
        self._overriding: dict[frozenset[str], Runnable] = {}
        self._lock = threading.Lock()
        interface = self._program.interface
        self.optional: Collection[str] = model.init.replaceable
        self._names = frozenset((*model.inputs, *interface.needs, *interface.may_need, *self.optional))

    @property
    def placement(self) -> Placement | None:
        """See Predictor."""
        return self._program.placement if isinstance(self._program, PlacedProgram) else None

    def input_types(self) -> Mapping[str, str]:
        """Return the element types and shapes of the inputs as text: those of the export, where there is one."""
        return {**net_inputs(self._model), **exported_inputs(self._model)}

    def wrong_inputs(self, inputs: Mapping[str, Any], error: BridgeError) -> str:
        """Return which inputs of a run that failed contradict the export, as a sentence; empty if none is known to."""
        return wrong_inputs_of_net(inputs, exported_inputs(self._model), error)

    def _make(self, model: Model, feeds: Mapping[str, str] = MappingProxyType({})) -> Runnable:
        return make_program(model.predict_net, self._device, self._options, init=model.init, state=False, feeds=feeds)

    def run(self, inputs: Mapping[str, Any], program: Runnable | None = None) -> Mapping[str, Tensor]:
        if program is None:
            program = self._program
        if isinstance(program, Program):
            known = program.recognize(inputs.get)
            if known is not None and len(known) == len(inputs):
                return program.run(known).values
        self._require_names(inputs)
        if not program.interface.made.isdisjoint(inputs):
            program = self._overridden(program.interface.made.intersection(inputs))
        return program.run(self._given(program, inputs)).values

    def stepping(self, states: Mapping[str, str]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
        """Return what runs steps, of which ``states`` has the outputs by the inputs that they are in the next step."""
        if not (states and isinstance(self._program, Program | LookupProgram)):
            return self.run
        return partial(self.run, program=self._make(self._model, states))

    def _require_names(self, inputs: Mapping[str, Any]) -> None:
        """Raise RunError for a name that is neither an input nor a parameter."""
        if not self._names.issuperset(inputs):
            require_inputs(inputs, self.inputs, self._names)

    def _given(self, program: Runnable, inputs: Mapping[str, Any]) -> dict[str, Value]:
        missing = [name for name in program.interface.needs if inputs.get(name) is None]
        if missing:
            raise missing_inputs(missing, self.input_types())
        return _values(program, inputs)

    def _overridden(self, names: frozenset[str]) -> Runnable:
        """Return the program in which these parameters are inputs."""
        with self._lock:
            if names not in self._overriding:
                self._overriding[names] = self._make(self._model.with_inputs(names))
            return self._overriding[names]


def _values(program: Runnable, inputs: Mapping[str, Any]) -> dict[str, Value]:
    given: dict[str, Value] = {}
    for name in program.interface.needs:
        value = inputs[name]
        if type(value) is np.ndarray and value.dtype.isnative and value.dtype.kind in "fiub":
            given[name] = value
        else:
            given[name] = as_value(name, value, copy=False)
    for name in program.interface.may_need:
        if name in inputs:
            given[name] = as_value(name, inputs[name], copy=False)
    return given


class _OnnxRunner:
    """Runs an ONNX model as it is."""

    placement: Placement | None = None

    def __init__(
        self,
        model: onnx.ModelProto | bytes | str | PathLike[str],
        device: str,
        options: SessionOptions,
        outputs: Sequence[str] | None,
    ) -> None:
        if isinstance(model, str | PathLike):
            admitted = admit_file(model)
            self._session = Session(admitted.path, device, options=options)
        else:
            self._session = model_session(load_proto(model), device, options)
        self.inputs, self.outputs = self._session.inputs, self._session.outputs
        if outputs is not None:
            require_outputs(outputs, self.outputs)
            self.outputs = tuple(dict.fromkeys(outputs))

    def input_types(self) -> Mapping[str, str]:
        """Return the element types and shapes of the inputs as text."""
        return self._session.input_types()

    def wrong_inputs(self, inputs: Mapping[str, Any], _: BridgeError) -> str:
        """Return which inputs of a run that failed are not what the model takes, as a sentence; empty if all are."""
        return wrong_inputs(inputs, self._session.input_types())

    @property
    def optional(self) -> Collection[str]:
        """The inputs that may be left out."""
        return self._session.optional

    def stepping(self, _: Mapping[str, str]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
        """Return what runs steps: states on a device stay there."""
        return self.run

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array | DeviceTensor]:
        given = {}
        for name, fed in inputs.items():
            value = as_value(name, fed, copy=False)
            if not isinstance(value, np.ndarray | DeviceTensor | Int8Tensor):
                raise RunError(f"input {name!r} is not a tensor")
            given[name] = value.data if isinstance(value, Int8Tensor) else value
        results = self._session.run_on_device(given)
        return {name: results[name] for name in self.outputs}
