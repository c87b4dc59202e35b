from __future__ import annotations

import pytest

from caffe2_bridge.diagnostics import (
    BridgeError,
    ConversionError,
    Diagnostic,
    Location,
    NetFormatError,
    RunError,
    Severity,
)


def test_entering_bodies_grows_the_path() -> None:
    place = Location("predict", 12, "RecurrentNetwork")
    body = place.enter("step_net")
    inner = place.enter("step_net", 3, "FC", "gates")
    assert body == Location("step_net", path=(place,))
    assert inner.path == (place,)
    deeper = inner.enter("net", 0, "Relu")
    assert deeper.path == (place, Location("step_net", 3, "FC", "gates"))
    assert str(deeper) == "predict[12] RecurrentNetwork > step_net[3] FC (gates) > net[0] Relu"


def test_findings_are_values() -> None:
    a, b = (Diagnostic("opset", "r", Location("n", 1, "FC")) for _ in range(2))
    assert a == b
    assert len({a, b}) == 1
    with pytest.raises(AttributeError):
        a.reason = "other"  # type: ignore[misc] # frozen


def test_defaults() -> None:
    finding = Diagnostic("opset", "reason")
    assert finding.severity is Severity.ERROR
    assert finding.location == Location()
    assert str(finding) == "net: error: reason [opset]"


def test_errors_hold_plain_data() -> None:
    findings = [Diagnostic("opset", "x"), Diagnostic("dtype", "y")]
    error = ConversionError(findings)
    findings.clear()
    assert [finding.code for finding in error.findings] == ["opset", "dtype"]
    assert str(error).count("\n") == 1
    plain = NetFormatError("cut off")
    assert (plain.reason, plain.source, str(plain)) == ("cut off", "", "cut off")
    named = NetFormatError("cut off", "net.pb")
    assert (named.reason, named.source, str(named)) == ("cut off", "net.pb", "net.pb: cut off")


@pytest.mark.parametrize("kind", [ConversionError, NetFormatError, RunError])
def test_all_errors_are_bridge_errors(kind: type[Exception]) -> None:
    assert issubclass(kind, BridgeError)
    assert issubclass(kind, RuntimeError)  # what Caffe2 raises for a net that it cannot read or run
    assert not issubclass(kind, ValueError)


def test_errors_are_told_from_warnings_and_notes() -> None:
    note = Diagnostic("note", "a choice", severity=Severity.NOTE)
    warning = Diagnostic("placeholder", "a sample", severity=Severity.WARNING)
    first, second = Diagnostic("opset", "x"), Diagnostic("dtype", "y")
    error = ConversionError([note, first, warning, second])
    assert error.findings == (note, first, warning, second)
    assert error.errors == (first, second)
