from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.netdef.views import Args, ArgumentError, NetView, OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef


def args(**values: Any) -> Args:
    return Args(operator("Op", [], [], **values).arg)


FULL: dict[str, Any] = {
    "i": 3, "zero": 0, "f": 0.5, "s": "text", "ints": [1, 2], "floats": [0.5, 1.5], "strings": ["a", "b"],
    "n": NetDef(name="inner"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda a: a.integer("i"), 3),
        (lambda a: a.optional_integer("i"), 3),
        (lambda a: a.number("f"), 0.5),
        (lambda a: a.flag("zero"), False),
        (lambda a: a.text("s"), "text"),
        (lambda a: a.integers("ints"), (1, 2)),
        (lambda a: a.numbers("floats"), (0.5, 1.5)),
        (lambda a: a.texts("strings"), ("a", "b")),
        (lambda a: a.blobs("strings"), (b"a", b"b")),
        (lambda a: a.net("n").name, "inner"),
    ],
)
def test_each_kind_is_read_as_what_it_is(read: Callable[[Args], Any], expected: Any) -> None:
    assert read(args(**FULL)) == expected


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda a: a.integer("f"), "argument 'f' must be an integer, not a float"),
        (lambda a: a.number("i"), "argument 'i' must be a float, not an integer"),
        (lambda a: a.flag("f"), "argument 'f' must be an integer, not a float"),
        (lambda a: a.text("n"), "argument 'n' must be a string, not a net"),
        (lambda a: a.integers("i"), "argument 'i' must be a list of integers, not an integer"),
        (lambda a: a.numbers("ints"), "argument 'ints' must be a list of floats, not integers"),
        (lambda a: a.texts("s"), "argument 's' must be a list of strings, not a string"),
        (lambda a: a.net("ints"), "argument 'ints' must be a net, not integers"),
        (lambda a: a.net("s"), "argument 's' is not the protobuf text of a net"),
        (lambda a: a.integer("none"), "argument 'none' is missing; it must be an integer"),
        (lambda a: a.numbers("none"), "argument 'none' is missing; it must be a list of floats"),
        (lambda a: a.array("none"), "argument 'none' is missing"),
    ],
)
def test_another_kind_is_an_error(read: Callable[[Args], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read(args(**FULL))


def test_defaults_are_for_what_is_absent() -> None:
    empty = args()
    assert empty.integer("a", 7) == 7
    assert empty.optional_integer("a") is None
    assert empty.number("a", 0.5) == 0.5
    assert empty.flag("a", default=True) is True
    assert empty.text("a", "x") == "x"
    assert empty.integers("a", ()) == ()
    assert empty.net("a", None) is None
    with pytest.raises(ArgumentError):
        args(a=0.5).integer("a", 7)


def test_what_nobody_read_is_known() -> None:
    given = args(a=1, b=2, c=3)
    given.integer("b")
    given.ignore("c")
    assert given.unread == ["a"]
    assert list(given) == ["a", "b", "c"]
    assert "a" in given
    assert "z" not in given


def test_an_argument_given_twice() -> None:
    same = [Argument(name="a", i=1), Argument(name="a", i=1)]
    assert Args(same).integer("a") == 1
    with pytest.raises(ArgumentError, match="'a' is given twice with different values"):
        Args([Argument(name="a", i=1), Argument(name="a", i=2)])


def test_lists_as_arrays() -> None:
    np.testing.assert_array_equal(args(a=[0.5, -1.0]).array("a"), np.array([0.5, -1.0], np.float32))
    assert args(a=[2**40]).array("a").dtype == np.int64


def test_text_that_is_none() -> None:
    bad = Args([Argument(name="a", s=b"\xff"), Argument(name="b", strings=[b"\xff"])])
    for read in (bad.text, bad.texts):
        with pytest.raises(ArgumentError, match="is not UTF-8 text"):
            read("a" if read == bad.text else "b")


def test_a_net_in_text() -> None:
    net = args(step='op { type: "Relu" input: "x" output: "y" }', none="  ")
    assert net.net("step").op[0].type == "Relu"  # type: ignore[union-attr] # given
    assert net.net("none") == NetDef()


def test_views() -> None:
    proto = NetDef(
        op=[OperatorDef(type="FC", name="fc", engine="E", input=["x", "w"], output=["y"])],
        external_input=["x", "w", "x"],
        external_output=["y", "y"],
    )
    net = NetView(proto)
    (op,) = net.ops
    assert (op.type, op.name, op.engine, op.index) == ("FC", "fc", "E", 0)
    assert (op.inputs, op.outputs, op.random_seed) == (("x", "w"), ("y",), None)
    assert (net.name, net.external_inputs, net.external_outputs) == ("net", ("x", "w"), ("y",))
    proto.op[0].device_option.random_seed = 5
    assert OpView(proto.op[0], 0).random_seed == 5.0


def test_what_is_taken_for_a_net() -> None:
    net = NetDef(name="n")
    assert as_net_def(net) is net
    assert as_net_def(net.SerializeToString()) == net
    with pytest.raises(NetFormatError, match="predict net: the bytes are not a serialized NetDef"):
        as_net_def(b"\xff\xff", "predict net")
    for wrong in (OperatorDef(), "text", None):
        with pytest.raises(NetFormatError, match="must be a NetDef or a serialized one, not"):
            as_net_def(wrong)  # type: ignore[arg-type] # what is tested


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1])
def test_an_integer_beyond_what_the_operator_reads_is_an_error(value: int) -> None:
    wide = OpView(
        operator("MaxPool", [], [], kernel=value, strides=[1, value], pads=[-(1 << 31), (1 << 31) - 1]), 0
    ).args
    for read in (wide.integer, wide.optional_integer):
        with pytest.raises(ArgumentError, match=rf"argument 'kernel' must fit into 32 bits, not {value}"):
            read("kernel")
    with pytest.raises(ArgumentError, match="argument 'strides' must fit into 32 bits"):
        wide.integers("strides")
    assert wide.integers("pads") == (-(1 << 31), (1 << 31) - 1)
    assert OpView(operator("Slice", [], [], starts=[value]), 0).args.integers("starts") == (value,)
    assert OpView(operator("NoSuchOperator", [], [], kernel=value), 0).args.integer("kernel") == value
