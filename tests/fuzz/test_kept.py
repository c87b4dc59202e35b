"""What a process keeps of the models that it has converted: it may convert any number of them, of any size."""

from __future__ import annotations

import gc
import io
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import get_args

import onnx
import onnx.parser
import pytest

from caffe2_backend import to_netdef
from caffe2_backend.options import Foreign
from caffe2_bridge import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import check, to_onnx
from fuzz.robust import doors

_LONG = 50_000  # letters or numbers
_MODELS = 3


def _model(text: str = "Y = Relu(A)") -> onnx.ModelProto:
    head = '<ir_version: 9, opset_import: ["" : 11]> g (float[2] X) => (float[2] Y)'
    return onnx.parser.parse_model(f"{head} {{ A = Relu(X) {text} }}")


def _operator(name: str) -> onnx.ModelProto:
    model = _model()
    model.graph.node[1].op_type = name
    return model


def _domain(name: str) -> onnx.ModelProto:
    model = _model()
    model.graph.node[1].domain = name
    model.opset_import.add(domain=name, version=1)
    return model


def _value(name: str) -> onnx.ModelProto:
    model = _model()
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = model.graph.name = model.graph.node[0].name = name
    return model


def _dim(name: str) -> onnx.ModelProto:
    model = _model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
    return model


def _axes(name: str) -> onnx.ModelProto:
    model = _model("Y = Squeeze <axes = [0]> (A)")
    model.graph.node[1].attribute[0].ints.extend([int(name[0])] * _LONG)
    return model


def _text(name: str) -> onnx.ModelProto:
    model = _model()
    model.graph.node[1].op_type = "MaxPool"
    model.graph.node[1].attribute.add(name="auto_pad", type=onnx.AttributeProto.STRING, s=name.encode())
    return model


def _function(name: str) -> onnx.ModelProto:
    model = _operator(name)
    model.graph.node[1].domain = "local"
    model.opset_import.add(domain="local", version=1)
    function = model.functions.add(name=name, domain="local", input=["a"], output=["b"])
    function.opset_import.add(domain="", version=11)
    function.node.add(op_type="Relu", input=["a"], output=["b"])
    return model


def _net(change: Callable[[NetDef, str], object]) -> Callable[[str], NetDef]:
    def make(name: str) -> NetDef:
        net = NetDef(name="net", external_input=["X"], external_output=["Y"])
        net.op.add(type="Squeeze", input=["X"], output=["Y"]).arg.add(name="dims", ints=[0])
        change(net, name)
        return net

    return make


def _rename(net: NetDef, name: str) -> None:
    net.op[0].input[0] = net.external_input[0] = net.name = net.op[0].name = name


_NETS = {
    "operator": _net(lambda net, name: setattr(net.op[0], "type", name)),
    "engine": _net(lambda net, name: setattr(net.op[0], "engine", name)),
    "blob": _net(_rename),
    "argument": _net(lambda net, name: net.op[0].arg.add(name=name, i=1)),
    "numbers": _net(lambda net, name: net.op[0].arg[0].ints.extend([int(name[0])] * _LONG)),
    "operands": _net(lambda net, name: net.op[0].input.extend(name[0] + letter for letter in name)),
}
_MODELS_OF = {
    "operator": _operator, "domain": _domain, "value": _value, "dim": _dim, "numbers": _axes, "text": _text,
    "function": _function,
}  # fmt: skip


def _kept(convert: Callable[[str], object]) -> float:
    """The bytes kept of each model, as a share of its size."""

    def run(numbers: range) -> None:
        for number in numbers:
            with suppress(BridgeError):
                convert(str(number).ljust(_LONG, "x"))

    run(range(2))  # what is kept of any model, such as schemas
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        run(range(2, 2 + _MODELS))
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / _MODELS / _LONG
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("foreign", get_args(Foreign))
@pytest.mark.parametrize("make", _MODELS_OF.values(), ids=_MODELS_OF)
def test_nothing_large_is_kept_of_an_imported_model(make: Callable[[str], onnx.ModelProto], foreign: Foreign) -> None:
    assert _kept(lambda name: to_netdef(make(name), foreign=foreign)) < 0.2


@pytest.mark.parametrize("convert", [to_onnx, check])
@pytest.mark.parametrize("make", _NETS.values(), ids=_NETS)
def test_nothing_large_is_kept_of_a_converted_net(
    make: Callable[[str], NetDef], convert: Callable[[NetDef], object]
) -> None:
    assert _kept(lambda name: convert(make(name))) < 0.2


def test_commands_print_to_one_stream() -> None:
    def streams() -> int:
        gc.collect()
        return sum(issubclass(type(found), io.TextIOWrapper) for found in gc.get_objects())  # __class__ may be computed

    assert doors._run(["--version"])[0] == 0
    before = streams()
    status, printed = doors._run(["show"])
    assert status == 2
    assert printed.startswith("Usage:")
    assert streams() == before
