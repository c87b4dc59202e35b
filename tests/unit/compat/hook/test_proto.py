from __future__ import annotations

from caffe2_bridge.proto import caffe2_pb2
from caffe2_compat.hook.proto import proto_modules


def test_the_messages_are_this_projects() -> None:
    names = proto_modules()["caffe2_pb2"]
    assert names["NetDef"] is caffe2_pb2.NetDef
    assert (names["CUDA"], names["PROTO_CUDA"]) == (1, 1)


def test_messages_that_only_caffe2s_python_uses() -> None:
    modules = proto_modules()
    consts = modules["predictor_consts_pb2"]["PredictorConsts"]()
    assert (consts.META_NET_DEF, consts.PREDICT_NET_TYPE) == ("!!META_NET_DEF", "PREDICT_NET_TYPE")
    tree = modules["hsm_pb2"]["TreeProto"]()
    tree.root_node.children.add(name="a", word_ids=[1, 2], scores=[0.5])
    # Field numbers as in real Caffe2, from which these bytes are.
    assert tree.SerializeToString().hex() == "0a0e0a0c100110022201612d0000003f"
    profile = modules["prof_dag_pb2"]["ProfDAGProto"](name="n", extra_info=["x"])
    assert profile.SerializeToString() == b"\x0a\x01n\x3a\x01x"
    assert modules["caffe2_legacy_pb2"]["CAFFE_LEGACY_POOLING"] == 3
