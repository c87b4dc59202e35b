"""onnxruntime sessions: ONNX models ready to run on one device."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Self

import numpy as np

from caffe2_backend.runtime.devices.device_names import CPU, WEBGPU, device_index, device_kind, device_name
from caffe2_backend.runtime.sending.sendable import Recipe, Sendable
from caffe2_backend.runtime.sending.sources import graph_source
from caffe2_backend.runtime.sessions.constant_defaults import ConstantDefaults
from caffe2_backend.runtime.sessions.failure_text import failure_text
from caffe2_backend.runtime.sessions.fixed_binding import FixedBinding
from caffe2_backend.runtime.sessions.guard import Guard, failure_of
from caffe2_backend.runtime.sessions.missing_inputs import (
    missing_inputs,
    onnx_type_text,
    require_inputs,
    require_mapping,
)
from caffe2_backend.runtime.sessions.onnxruntime_library import (
    add_webgpu,
    copy_to_device,
    execution_providers,
    failures,
    library_options,
    onnxruntime,
    real_device,
    releasing_run,
    require_provider,
)
from caffe2_backend.runtime.sessions.session_options import DEFAULTS, SessionOptions
from caffe2_backend.runtime.sessions.unsafe_optimizers import failed_optimizers, unsafe_optimizers
from caffe2_backend.runtime.sessions.utf8_paths import WEIGHTS_FOLDER, utf8_paths
from caffe2_backend.runtime.values import Array, DeviceTensor
from caffe2_bridge.diagnostics import OptionError, RunError
from caffe2_bridge.diagnostics.short_repr import short_repr

# What onnxruntime says of a model with nodes on the host, control flow, or copies to the host.
_NOT_CAPTURED: Final = "graph capture"
_HOST: Final = "CPUExecutionProvider"


class Session(Sendable):
    """An ONNX model ready to run; several threads may run it at the same time.

    It can be pickled, and opens on first use in each process: a file goes by its path and a digest, bytes as they are.

    Args:
        model: the serialized model, or the path of a file.
        device: ``cpu``, ``cuda:N`` or ``webgpu``.
        threads: threads within an operator; None leaves it to ``options``.
        verbose: show onnxruntime's warnings.
        options: everything else.

    Raises:
        RunError: onnxruntime is missing, cannot load the model, does not support the device, or would end the process.
    """

    _is_sent: ClassVar[bool] = True

    def __init__(
        self,
        model: bytes | str,
        device: str = CPU,
        *,
        threads: int | None = None,
        verbose: bool = False,
        options: SessionOptions = DEFAULTS,
    ) -> None:
        source = graph_source(model)
        model = source.given()
        if threads is not None or verbose:
            options = dataclasses.replace(options, threads=threads, verbose=verbose)
        self.device = device_name(device)
        self._recipe = Recipe(source, {"device": device, "options": options}) if self._is_sent else None
        self._real = real_device(self.device, options)
        self._constant_defaults = ConstantDefaults.of(model)
        self._guard = Guard.of(model, adds_checks=self._real == CPU)
        if self._guard.folder:
            options = dataclasses.replace(options, entries={WEIGHTS_FOLDER: self._guard.folder, **options.entries})
        model = self._guard.model
        if options.optimization != "none" and (unsafe := unsafe_optimizers(model)):
            options = dataclasses.replace(options, disabled_optimizers=(*options.disabled_optimizers, *unsafe))
        try:
            self._session = self._load(model, options)
        except RunError as error:
            if not (options.cuda_graphs and _NOT_CAPTURED in str(error)):
                raise
            warnings.warn(
                "the model cannot be recorded as a CUDA graph, since not all of it runs on the GPU: it runs without",
                RuntimeWarning, stacklevel=2,
            )  # fmt: skip
            options = dataclasses.replace(options, cuda_graphs=False)
            self._session = self._load(model, options)
        require_provider(self._session, self._real)
        self.inputs = tuple(value.name for value in self._session.get_inputs())
        self.outputs = tuple(value.name for value in self._session.get_outputs())
        # Outputs whose rank the model does not declare: onnxruntime 1.32 lists no dims of them, as of scalars.
        self.unranked: frozenset[str] = frozenset()
        self._optional = tuple(value.name for value in self._session.get_overridable_initializers())
        self._names = frozenset((*self.inputs, *self._optional))
        self._others: dict[frozenset[str], Self] = {}
        self._options = options
        self._outputs = list(self.outputs)
        self._strings = {value.name for value in self._session.get_outputs() if value.type == "tensor(string)"}
        self._on_cpu = self._real == CPU and self.device == CPU
        # On the host, without the public method's checks for other devices, which take as long as a tiny model.
        plain = self._on_cpu and not options.providers
        self._run = self._session._sess.run if plain else self._session.run  # noqa: SLF001 - the method behind it
        if self._guard.inputs:
            self._run = partial(_run_checked, self._run, self._guard)
        self._graphs = options.cuda_graphs and device_kind(self._real) == "cuda"
        self._fixed: dict[Any, FixedBinding] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        known = {} if self._waits else {"inputs": self.inputs, "outputs": self.outputs, "device": self.device}
        return short_repr(self, str(self._recipe.source) if self._recipe else "", **known)

    def _load(self, model: bytes | str, options: SessionOptions) -> Any:
        try:
            with utf8_paths(model, options) as (readable, readable_options):
                made = library_options(readable_options)
                if self._real == WEBGPU:
                    add_webgpu(made)
                # The fallback prints, and on the host does the same again.
                session = onnxruntime().InferenceSession(
                    readable, made, providers=execution_providers(self._real, options) or None,
                    disabled_optimizers=list(options.disabled_optimizers) or None,
                    enable_fallback=int(device_kind(self._real) == "cuda"),
                )  # fmt: skip
        except failures() as error:
            failed = failed_optimizers(str(error))
            if not set(failed) <= set(options.disabled_optimizers):
                disabled = (*options.disabled_optimizers, *failed)
                return self._load(model, dataclasses.replace(options, disabled_optimizers=disabled))
            raise RunError(f"onnxruntime cannot load the model: {failure_text(str(error))}") from error
        if self._real == CPU and not options.providers:
            session._model_bytes = None  # noqa: SLF001 - kept for a change of providers, which does not happen here
        return session

    @property
    def optional(self) -> tuple[str, ...]:
        """The inputs that may be left out, because the model has a default for each."""
        return (*self._optional, *(self._constant_defaults.names if self._constant_defaults else ()))

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """Run the model: host arrays in and out, by name.

        Raises RunError if an input is missing, a name is not an input of the model, or the run fails.
        """
        session = self._taking(inputs)
        if session is not self:
            return session.run(inputs, outputs)
        wanted = self._outputs if outputs is None else list(outputs)
        return dict(zip(wanted, self.run_list(self._feed(inputs), wanted), strict=True))

    def _taking(self, inputs: Mapping[str, Any]) -> Self:
        """Return the session that takes values for these inputs. Raises RunError for a name that is not an input."""
        if type(inputs) is not dict:
            require_mapping(inputs, self.inputs, self.input_types)
        if self._names.issuperset(inputs):
            return self
        require_inputs(inputs, (*self.inputs, *self.optional))
        old = self._constant_defaults
        assert old is not None  # the other names are known
        given = frozenset(inputs).difference(self._names)
        with self._lock:
            if given not in self._others:
                options = self._options
                if old.folder:
                    options = dataclasses.replace(options, entries={WEIGHTS_FOLDER: old.folder, **options.entries})
                self._others[given] = type(self)(old.as_inputs(given), self.device, options=options)
            return self._others[given]

    def input_types(self) -> dict[str, str]:
        """Return the element types and shapes of the inputs as text, such as ``float32[N,3]``."""
        return {value.name: onnx_type_text(value.type, value.shape) for value in self._session.get_inputs()}

    def host_nodes(self) -> frozenset[str]:
        """Return the names of the nodes that run on the host, bodies included: of a session that recorded them."""
        parts = self._session.get_provider_graph_assignment_info()
        return frozenset(node.name for part in parts if part.ep_name == _HOST for node in part.get_nodes())

    def static_outputs(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of outputs of which the model declares every dim; none where an output is also an input."""
        found = self._ranked_outputs()
        return {value.name: tuple(value.shape) for value in found if all(isinstance(dim, int) for dim in value.shape)}

    def sized_outputs(self) -> frozenset[str]:
        """Return the outputs whose dims the model declares as numbers or dims of inputs; none that are also inputs."""
        known = {dim for value in self._session.get_inputs() for dim in value.shape if isinstance(dim, str)}
        found = {value.name: value.shape for value in self._ranked_outputs()}
        return frozenset(name for name in found if all(isinstance(dim, int) or dim in known for dim in found[name]))

    def _ranked_outputs(self) -> list[Any]:
        return [value for value in self._session.get_outputs() if value.name not in self.unranked.union(self.inputs)]

    def buffer(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, Array]:
        """Return memory on the host, not initialized: onnxruntime's value, and an array that shares it."""
        ort = onnxruntime().OrtValue.ortvalue_from_shape_and_type(shape, dtype)
        return ort, ort.numpy()

    def shared(self, array: Array) -> Any:
        """Make a value of onnxruntime of the memory of an array on the host."""
        return onnxruntime().OrtValue.ortvalue_from_numpy(array)

    def _feed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        missing = [name for name in self.inputs if name not in inputs]
        if missing:
            raise missing_inputs(missing, self.input_types())
        found = {name: inputs[name] for name in self.inputs}
        if self._optional:
            found |= {name: inputs[name] for name in self._optional if name in inputs}
        return found

    def run_list(
        self, feed: dict[str, Array], outputs: list[str] | None = None, *, release: bool = False
    ) -> list[Array]:
        """Run the model without checks: ``feed`` holds exactly the model's inputs.

        ``release``: of a run on the host, whether memory is given back after it, and not kept for the next one.
        """
        how = releasing_run() if release and self._options.arena else None
        try:
            values: list[Array] = self._run(outputs or self._outputs, feed, how)
        except failures() as error:
            raise failure_of(error) from error
        return values

    def run_on_device(self, inputs: Mapping[str, Array | DeviceTensor]) -> dict[str, Array | DeviceTensor]:
        """Run the model without copies to the host: outputs stay on the session's device, strings on the host.

        Raises RunError as :meth:`run`.
        """
        session = self._taking(inputs)
        if session is not self:
            return session.run_on_device(inputs)
        feed = self._feed(inputs)
        if self._on_cpu:
            return dict(zip(self._outputs, self.run_list(_on_host(feed), self._outputs), strict=True))
        if any(isinstance(v, np.ndarray) and v.dtype == object for v in feed.values()):
            # Strings cannot be bound: onnxruntime copies all values of this run to the host and back.
            values = zip(self._outputs, self.run_list(_on_host(feed), self._outputs), strict=True)
            return {name: v if v.dtype == object else self._copy(v) for name, v in values}
        self._guard.check(feed)
        try:
            return self._run_fixed(feed) if self._graphs else self._run_bound(feed)
        except failures() as error:
            raise failure_of(error) from error

    def _copy(self, array: Array) -> DeviceTensor:
        return copy_to_device(array, self.device, self._real)

    def _run_bound(self, feed: Mapping[str, Array | DeviceTensor]) -> dict[str, Array | DeviceTensor]:
        binding = self._session.io_binding()
        for name, value in feed.items():
            if isinstance(value, DeviceTensor):
                binding.bind_ortvalue_input(name, value.ort)
            else:
                binding.bind_cpu_input(name, np.ascontiguousarray(value).reshape(value.shape))
        for name in self.outputs:
            if name in self._strings:
                binding.bind_output(name)
            else:
                binding.bind_output(name, device_kind(self._real), device_index(self._real))
        binding.synchronize_inputs()
        self._session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return {
            name: value.numpy() if name in self._strings else DeviceTensor(value, self.device)
            for name, value in zip(self.outputs, binding.get_outputs(), strict=True)
        }

    def _run_fixed(self, feed: Mapping[str, Array | DeviceTensor]) -> dict[str, Array | DeviceTensor]:
        """Run with fixed buffers, one set for each combination of input shapes: what a CUDA graph replays."""
        key = tuple((value.dtype.str, *value.shape) for value in feed.values())
        with self._lock:
            fixed = self._fixed.get(key)
            if fixed is None:
                fixed = FixedBinding(self._session, feed, self.device, self._real, len(self._fixed) + 1)
                self._fixed[key] = fixed
            return fixed.run(feed)


class InnerSession(Session):
    """A session inside of an object that is sent as a whole, if at all: it does not keep its model."""

    _is_sent = False


def require_outputs(names: Sequence[str], available: Sequence[str]) -> None:
    """Raise OptionError if a name is not among the outputs of an ONNX model."""
    unknown = [name for name in names if name not in available]
    if unknown:
        texts = ", ".join(map(repr, unknown))
        raise OptionError(f"the ONNX model does not output {texts}: it outputs {', '.join(available)}")


def _run_checked(run: Any, guard: Guard, outputs: list[str], feed: dict[str, Array], how: Any) -> Any:
    """Run a session on inputs that do not end the process."""
    guard.check(feed)
    return run(outputs, feed, how)


def _on_host(feed: Mapping[str, Array | DeviceTensor]) -> dict[str, Array]:
    return {name: v.numpy() if isinstance(v, DeviceTensor) else v for name, v in feed.items()}


class Binding:
    """Inputs and outputs bound to a session for many runs; what stays bound is not bound again."""

    def __init__(self, session: Session) -> None:
        self._session = session._session  # noqa: SLF001 - the same module
        self._guard = session._guard  # noqa: SLF001 - the same module
        self._binding = self._session.io_binding()
        self._kind, self._index = device_kind(session._real), device_index(session._real)  # noqa: SLF001 - as above
        self._device = session.device
        self._on_cpu = session._on_cpu  # noqa: SLF001 - as above
        # What the public method calls, which takes long, as does making the options of each run.
        run, bound = self._session._sess.run_with_iobinding, self._binding._iobinding  # noqa: SLF001 - no other way
        self._run = partial(run, bound, onnxruntime().RunOptions())
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}
        self._bound: set[str] = set()  # all outputs that are bound

    def bind_input(self, name: str, value: Array | DeviceTensor) -> None:
        """Bind an input to a value, which is not kept."""
        if self._guard.inputs:
            self._guard.check({name: value})
        self._inputs.pop(name, None)
        if isinstance(value, DeviceTensor):
            self._binding.bind_ortvalue_input(name, value.ort)
        else:
            self._binding.bind_cpu_input(name, np.ascontiguousarray(value).reshape(value.shape))

    def bind_input_value(self, name: str, ort: Any) -> None:
        """Bind an input to one of onnxruntime's values, or leave it bound to that."""
        if self._inputs.get(name) is not ort:
            if self._guard.inputs:
                self._guard.check({name: DeviceTensor(ort, self._device)})
            self._binding.bind_ortvalue_input(name, ort)
            self._inputs[name] = ort

    def bind_output(self, name: str, ort: Any | None) -> None:
        """Bind an output to one of onnxruntime's values, or leave it bound to that; None binds it to a new one."""
        self._bound.add(name)
        if ort is None:
            self._outputs.pop(name, None)
            self._binding.bind_output(name, self._kind, self._index)
        elif self._outputs.get(name) is not ort:
            self._binding.bind_ortvalue_output(name, ort)
            self._outputs[name] = ort

    def run(self) -> list[Any]:
        """Run once: onnxruntime's values of the outputs, in the order in which they were first bound.

        Raises RunError if the run fails.
        """
        self.run_only()
        return self.values()

    def values(self) -> list[Any]:
        """Return onnxruntime's values of the outputs of the last run, in the order in which they were first bound."""
        values: list[Any] = self._binding.get_outputs()
        return values

    def run_from(self, first: int) -> list[Any]:
        """Run as :meth:`run`, but return only values from this position on, which have ``numpy`` and ``data_ptr``."""
        self.run_only()
        if first == len(self._bound):
            return []
        values = self._binding._iobinding.get_outputs()  # noqa: SLF001 - the public method wraps all, which takes long
        return [values[i] for i in range(first, len(self._bound))]

    def run_only(self) -> None:
        """Run once. Raises RunError if the run fails."""
        try:
            if self._on_cpu:
                self._run()
                return
            self._binding.synchronize_inputs()
            self._run()
            self._binding.synchronize_outputs()
        except failures() as error:
            raise failure_of(error) from error

    def value(self, ort: Any) -> Array | DeviceTensor:
        """Return one of onnxruntime's values as a value of a workspace, which shares its memory."""
        if self._on_cpu:
            array: Array = ort.numpy()
            return array
        return DeviceTensor(ort, self._device)
