"""The outputs of a net: declared ones, and objects among them."""

import pytest
from support.nets import net, op
from support.paths import CAFFE2_MODELS

from caffe2_bridge import Model, load
from caffe2_bridge.diagnostics import OptionError, Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.objects import final_objects
from caffe2_bridge.ssa.outputs import net_outputs, omitted_outputs


def test_declared_objects_are_not_outputs() -> None:
    mobile = load(CAFFE2_MODELS / "mobile_lstm")

    assert "lstm/step_workspaces" in mobile.predict_net.external_output
    assert mobile.outputs == ("lstm/hidden_state_last", "lstm/cell_state_all", "lstm/cell_state_last", "prob")
    assert net_outputs(mobile.predict_net) == mobile.outputs


def test_each_omitted_output_has_a_warning() -> None:
    predict = net(op("CreateCounter", "", "c"), op("CreateMutex", "", "m"), op("Relu", "x", "y"), outputs="c y m")

    found = omitted_outputs(predict)

    assert [(each.code, each.severity) for each in found] == [("object-output", Severity.WARNING)] * 2
    assert "'c'" in found[0].reason
    assert "--output y, or outputs=['y']" in found[0].hint
    assert net_outputs(predict) == ("y",)


def test_a_net_that_declares_objects_only_outputs_what_is_not_read() -> None:
    predict = net(op("CreateMutex", "", "m"), op("Relu", "x", "y"), outputs="m")

    assert net_outputs(predict) == ("y",)


def test_a_tensor_written_over_an_object_is_an_output() -> None:
    predict = net(op("CreateMutex", "", "b"), op("Relu", "x", "b"), outputs="b")

    assert final_objects(predict) == frozenset()
    assert Model(predict).outputs == ("b",)


def test_a_model_with_other_outputs_shares_the_parameters() -> None:
    model = load(CAFFE2_MODELS / "mobile_lstm")

    chosen = model.with_outputs(["prob", "lstm/i2h", "prob"])

    assert chosen.outputs == ("prob", "lstm/i2h")
    assert chosen.init is model.init
    assert model.with_outputs(None) is model


@pytest.mark.parametrize(
    ("name", "message"), [("nowhere", "no operator writes output 'nowhere'"), ("m", "is an object and not a tensor")]
)
def test_outputs_that_the_net_lacks_are_refused(name: str, message: str) -> None:
    predict = NetDef(op=[op("CreateMutex", "", "m"), op("Relu", "x", "y")])

    with pytest.raises(OptionError, match=message):
        Model(predict).with_outputs([name])
