"""The text of findings: where, how bad, what, and what to do."""

from __future__ import annotations

import json

from conformance.recording import operator

from caffe2_bridge import ConversionError, Diagnostic, Location, NetFormatError, Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import check


def test_a_place_reads_from_the_outside_in() -> None:
    outer = Location("predict", 12, "RecurrentNetwork")
    assert str(outer.enter("step_net", 3, "FC")) == "predict[12] RecurrentNetwork > step_net[3] FC"
    named = Location("predict", 1, "If", "choose").enter("then_net", 0, "While").enter("loop_net", 2, "FC", "last")
    assert str(named) == "predict[1] If (choose) > then_net[0] While > loop_net[2] FC (last)"
    assert str(Location("predict")) == "predict"
    assert str(Location()) == "net"
    assert str(outer.enter("step_net")) == "predict[12] RecurrentNetwork > step_net"


def test_a_finding_is_a_line() -> None:
    place = Location("predict", 3, "Foo")
    assert str(Diagnostic("unknown-operator", "no conversion", place)) == (
        "predict[3] Foo: error: no conversion [unknown-operator]"
    )
    note = Diagnostic("note", "a Scan", place, Severity.NOTE, "ask for loop")
    assert str(note) == "predict[3] Foo: note: a Scan [note] (ask for loop)"
    assert str(ConversionError([note, note])) == f"{note}\n{note}"
    assert str(NetFormatError("the file is empty", "a.pb")) == "a.pb: the file is empty"


def test_a_finding_as_plain_data() -> None:
    place = Location("predict", 2, "RecurrentNetwork", "rnn").enter("step_net", 1, "Foo")
    assert json.loads(json.dumps(Diagnostic("placeholder", "r", place, Severity.WARNING, "h").to_dict())) == {
        "code": "placeholder",
        "reason": "r",
        "severity": "warning",
        "hint": "h",
        "place": "predict[2] RecurrentNetwork (rnn) > step_net[1] Foo",
        "location": {
            "net": "step_net",
            "index": 1,
            "op_type": "Foo",
            "op_name": "",
            "path": [{"net": "predict", "index": 2, "op_type": "RecurrentNetwork", "op_name": "rnn", "path": []}],
        },
    }


def test_the_report_of_a_check() -> None:
    net = NetDef(
        name="predict",
        op=[operator("Relu", ["x"], ["a"]), operator("Foo", ["a"], ["y"])],
        external_input=["x"],
        external_output=["y"],
    )
    report = json.loads(check(net, inputs={"x": ("float32", ["N"])}).to_json())
    assert report["covered"] is False
    assert report["converted"] == {"Relu": 1}
    (finding,) = report["findings"]
    assert finding["place"] == "predict[1] Foo"
    assert finding["code"] == "unknown-operator"
    assert finding["reason"] == "operator 'Foo' has no conversion"
    assert finding["severity"] == "error"
