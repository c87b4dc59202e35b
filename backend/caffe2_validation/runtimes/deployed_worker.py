"""Runs ONNX models in a runtime for Python: ``python -m`` this module RUNTIME FOLDER. Started by :mod:`.deployed`.

Requests and answers are frames (:mod:`.caffe2_worker`). ``load`` has the model in the value ``model``; ``run`` answers
with the values of the outputs that are asked for.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from caffe2_frontend.interop.bodies import proto_bodies
from caffe2_frontend.interop.input_defaults import inputs_with_defaults
from caffe2_validation.runtimes.caffe2_worker import pack, read_frame

Arrays = Mapping[str, Any]
Run = Callable[[Arrays, Sequence[str]], Sequence[Any]]


class FeedError(Exception):
    """An input that the loaded model does not have, or does not get."""


def check_inputs(given: Arrays, wanted: Sequence[str]) -> None:
    """Raise FeedError unless the values are those of the inputs, in a runtime that knows no optional inputs."""
    for name in wanted:
        if name not in given:
            raise FeedError(f"input {name!r} is not given")
    for name in given:
        if name not in wanted:
            raise FeedError(f"{name!r} has a default, which the runtime takes as a constant")


def load_openvino(model: bytes) -> Run:
    """Load a model in OpenVINO, on the CPU, in float32: by itself it may choose shorter floats."""
    import openvino as ov

    core = ov.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    ports = {name: port for port in compiled.inputs for name in port.names}
    results = {name: port for port in compiled.outputs for name in port.names}
    names = input_names(onnx.ModelProto.FromString(model))

    def run(given: Arrays, outputs: Sequence[str]) -> list[Any]:
        check_inputs(given, names)
        # Values that came in a frame are read-only, which it refuses; an input that nothing reads has no port.
        found = compiled({ports[name]: value.copy() for name, value in given.items() if name in ports})
        return [found[results[name]] for name in outputs]

    return run


def load_opencv(model: bytes) -> Run:
    """Load a model in OpenCV's module dnn."""
    import cv2

    net = cv2.dnn.readNetFromONNX(np.frombuffer(model, np.uint8))
    proto = onnx.ModelProto.FromString(model)
    names = input_names(proto)
    # Its module for Python gives a scalar a dim.
    scalars = {each.name for each in proto.graph.output if is_scalar(each)}

    def run(given: Arrays, outputs: Sequence[str]) -> list[Any]:
        check_inputs(given, names)  # it would go on with the values of the last run
        for name, value in given.items():
            net.setInput(np.asarray(value, order="C"), name)
        found = zip(outputs, net.forward(list(outputs)), strict=True)
        return [value.reshape(()) if name in scalars and value is not None else value for name, value in found]

    return run


def load_tract(model: bytes) -> Run:
    """Load a model in tract, which is compiled for each combination of the inputs' shapes."""
    import tract

    proto = onnx.ModelProto.FromString(model)
    names = input_names(proto)
    results = [value.name for value in proto.graph.output]
    forget_dims(proto.graph)
    path = Path("model.onnx")
    compiled: dict[Any, Any] = {}

    def compile_for(given: Arrays) -> Any:
        path.write_bytes(proto.SerializeToString())
        loaded = tract.onnx().load(path)
        for index, name in enumerate(names):
            dims = ",".join([*map(str, given[name].shape), _TRACT_TYPES[given[name].dtype.name]])
            loaded.set_input_fact(index, dims)
        return loaded.into_model().into_runnable()

    def run(given: Arrays, outputs: Sequence[str]) -> list[Any]:
        check_inputs(given, names)
        key = tuple((name, value.shape, value.dtype.str) for name, value in given.items())
        if key not in compiled:
            compiled[key] = compile_for(given)
        values = compiled[key].run([np.asarray(given[name], order="C") for name in names])
        found = dict(zip(results, values, strict=True))
        return [found[name].to_numpy() for name in outputs]

    return run


def input_names(model: onnx.ModelProto) -> list[str]:
    """Return the names of the inputs without a default."""
    optional = inputs_with_defaults(model)
    return [value.name for value in model.graph.input if value.name not in optional]


def is_scalar(value: onnx.ValueInfoProto) -> bool:
    """Whether a value is declared without dims."""
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and not tensor.shape.dim


def forget_dims(graph: onnx.GraphProto) -> None:
    """Remove the shapes in a graph and its bodies: dims with names contradict the sizes that tract is given."""
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for body in proto_bodies(node):
            forget_dims(body)


_TRACT_TYPES: Final = {
    "float16": "f16", "float32": "f32", "float64": "f64", "bool": "bool",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip

# By runtime: its distribution on the Python index, and what loads a model.
_RUNTIMES: Final[Mapping[str, tuple[str, Callable[[bytes], Run]]]] = {
    "openvino": ("openvino", load_openvino),
    "opencv": ("opencv-python-headless", load_opencv),
    "tract": ("tract", load_tract),
}


class Server:
    """The models that were loaded."""

    def __init__(self, runtime: str) -> None:
        self.distribution, self.load = _RUNTIMES[runtime]
        self.models: dict[str, Run] = {}

    def answer(self, header: dict[str, Any], values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Forget the models that a request lists, and do what it asks for."""
        for key in header["forget"]:
            self.models.pop(key, None)
        if header["do"] == "about":
            return {"versions": {self.distribution: version(self.distribution)}}, {}
        if header["do"] == "load":
            self.models[header["key"]] = self.load(values["model"].tobytes())
            return {}, {}
        outputs = header["outputs"]
        found = self.models[header["key"]](values, outputs)
        for name, value in zip(outputs, found, strict=True):
            if value is None:  # OpenCV, of a tensor without elements
                raise FeedError(f"the runtime gives no value of output {name!r}")
        return {}, {name: np.asarray(value) for name, value in zip(outputs, found, strict=True)}


def main(runtime: str, folder: str) -> None:
    """Answer requests until there are no more."""
    os.chdir(folder)
    # What the runtimes themselves print must not fall between the frames.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks, and ends this one
    server = Server(runtime)
    while True:
        frame = read_frame(sys.stdin.buffer.read)
        if frame is None:
            return
        try:
            header, values = server.answer(*frame)
        except Exception as error:  # noqa: BLE001 - whatever a runtime throws is its answer
            header, values = {"error": str(error) or type(error).__name__}, {}
        for part in pack(header, values):
            out.write(part)
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
