"""Data types by number or name, names that are not text, and arguments that nobody read."""

from __future__ import annotations

import pytest
from conformance.recording import ArgumentValue, operator

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.netdef.data_type import data_type
from caffe2_bridge.netdef.names import require_text_in_net, require_text_in_plan
from caffe2_bridge.netdef.unread_arguments import unread_arguments
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, PlanDef, TensorProto


@pytest.mark.parametrize("to", [TensorProto.INT32, "int32", "Int32"])
def test_data_types_by_number_and_name(to: ArgumentValue) -> None:
    assert data_type(OpView(operator("Cast", ["X"], ["Y"], to=to), 0).args, "to") == TensorProto.INT32


def test_data_types_that_are_missing_or_unknown() -> None:
    args = OpView(operator("Cast", ["X"], ["Y"], to="integer"), 0).args
    with pytest.raises(ArgumentError, match="argument 'to' must name a data type, not 'INTEGER'"):
        data_type(args, "to")
    assert data_type(args, "from", default=1) == 1
    with pytest.raises(ArgumentError):
        data_type(args, "from")


def test_names_that_are_not_text_are_refused_wherever_they_are() -> None:
    # In proto2, a string field may hold any bytes: field 1 (output), 3 bytes; field 2 (input).
    broken = NetDef.FromString(b"\x12\x05\x0a\x03\xff\xfe\xfd")
    with pytest.raises(NetFormatError, match=r"operator 0: the name b'\\xff\\xfe\\xfd' is not UTF-8 text"):
        require_text_in_net(broken)
    body = NetDef(op=[operator("If", ["c"], [], then_net=broken)])
    with pytest.raises(NetFormatError, match="not UTF-8 text"):
        require_text_in_net(body)
    plan = PlanDef(execution_step=[ExecutionStep(substep=[ExecutionStep.FromString(b"\x0a\x01\xff")])])
    with pytest.raises(NetFormatError, match="step of the plan: the name"):
        require_text_in_plan(plan)
    require_text_in_net(NetDef(op=[operator("If", ["c"], [], then_net=NetDef())]))


def test_arguments_that_nobody_read() -> None:
    op = OpView(operator("Relu", ["X"], ["Y"], alpha=1.0, order="NCHW", use_cudnn=1), 0)
    assert unread_arguments(op) == (("alpha",), ())
    unknown = OpView(operator("NoSuchOperator", ["X"], ["Y"], alpha=1.0, order="NCHW"), 0)
    assert unread_arguments(unknown) == ((), ("alpha",))
    read = OpView(operator("LeakyRelu", ["X"], ["Y"], alpha=0.5), 0)
    assert unread_arguments(read) == ((), ("alpha",))
    read.args.number("alpha")
    assert unread_arguments(read) == ((), ())
