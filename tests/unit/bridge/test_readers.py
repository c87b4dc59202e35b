"""Readers at the head of a net become its inputs."""

from __future__ import annotations

import numpy as np
import pytest
from support.nets import arrows, net, op

from caffe2_backend.runtime import Predictor
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.readers import cut_readers
from caffe2_frontend import check, to_onnx

CREATE = op("CreateDB", "", "reader", db="/data/mnist", db_type="leveldb")
FILLS = [op("ConstantFill", "", "w", shape=[3, 4], value=0.5), op("ConstantFill", "", "b", shape=[3], value=0.0)]
TEST_NET = net(
    op("TensorProtosDBInput", "reader", "data_uint8 label", batch_size=100),
    op("Cast", "data_uint8", "data", to=1),
    op("Scale", "data", "data", scale=0.5),
    op("StopGradient", "data", "data"),
    op("FC", "data w b", "pred"),
    op("Softmax", "pred", "softmax"),
    op("LabelCrossEntropy", "softmax label", "xent"),
    op("AveragedLoss", "xent", "loss"),
    inputs="reader w b",
    outputs="softmax loss",
)
INIT_NET = NetDef(name="i", op=[CREATE, *FILLS])
INPUTS = {"data_uint8": ("uint8", ["N", 4])}


def test_a_test_net() -> None:
    model = Model.of(TEST_NET, INIT_NET)
    cut = cut_readers(model)
    assert cut.inputs == ("data_uint8", "label")
    assert [o.type for o in cut.predict_net.op][:2] == ["Cast", "Scale"]
    assert cut.init.rest == ()
    assert [o.type for o in cut.init_net.op] == ["GivenTensorFill", "GivenTensorFill"]
    (note,) = cut.init.findings
    assert note.code == "cut-reader"
    assert "'data_uint8', 'label'" in note.reason
    assert cut_readers(cut) is cut
    assert len(model.predict_net.op) == 8  # the given one is not changed


def test_export_and_check() -> None:
    model = to_onnx(TEST_NET, INIT_NET, inputs=INPUTS)
    assert [value.name for value in model.graph.input] == ["data_uint8", "label"]
    report = check(TEST_NET, INIT_NET, inputs=INPUTS)
    assert report.covered
    assert [finding.code for finding in report.findings] == ["cut-reader"]


def test_run() -> None:
    found = Predictor(Model.of(TEST_NET, INIT_NET)).run(
        {"data_uint8": np.ones((2, 4), np.uint8), "label": np.array([0, 2], np.int32)}
    )
    np.testing.assert_allclose(found["softmax"], np.full((2, 3), 1 / 3), rtol=1e-6)


def test_an_output_that_no_operator_reads_is_not_an_input() -> None:
    predict = net(op("ImageInput", "reader", "data label"), op("NHWC2NCHW", "data", "y"), inputs="reader")
    assert cut_readers(Model.of(predict)).inputs == ("data",)


def test_the_source_is_made_in_the_net() -> None:
    predict = net(CREATE, op("TensorProtosDBInput", "reader", "x"), op("Relu", "x", "y"), inputs="")
    cut = cut_readers(Model.of(predict))
    assert arrows(cut.predict_net) == ["Relu: x -> y"]
    assert cut.inputs == ("x",)


def test_a_source_that_another_operator_reads_stays() -> None:
    init = NetDef(op=[CREATE])
    predict = net(op("TensorProtosDBInput", "reader", "x"), op("Relu", "x", "y"), inputs="reader", outputs="y reader")
    cut = cut_readers(Model.of(predict, init))
    assert list(cut.predict_net.external_input) == ["x", "reader"]
    assert [view.type for view in cut.init.rest] == ["CreateDB"]


@pytest.mark.parametrize(
    "ops",
    [
        [op("Unknown", "a", "reader"), op("TensorProtosDBInput", "reader", "x"), op("Relu", "x", "y")],
        [op("Relu", "x", "h"), op("TensorProtosDBInput", "reader", "x"), op("Sum", "x h", "y")],
    ],
    ids=["the source is computed", "the output has an earlier value"],
)
def test_not_at_the_head(ops: list[OperatorDef]) -> None:
    model = Model.of(net(*ops, inputs="a reader x"))
    assert cut_readers(model) is model


def test_a_fill_of_the_batch_is_a_placeholder() -> None:
    init = NetDef(op=[CREATE, op("ConstantFill", "", "x", shape=[1, 3])])
    predict = net(op("TensorProtosDBInput", "reader", "x"), op("Relu", "x", "y"), inputs="reader")
    cut = cut_readers(Model.of(predict, init))
    assert cut.inputs == ("x",)
    assert cut.init.placeholders["x"].shape == (1, 3)
