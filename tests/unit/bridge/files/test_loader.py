from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

import caffe2_bridge as c2
from caffe2_bridge.files.databases import leveldb_file
from caffe2_bridge.proto.caffe2_pb2 import Argument, ExecutionStep, NetDef, OperatorDef, PlanDef

PREDICT = NetDef(
    name="predict",
    op=[OperatorDef(type="FC", input=["x", "w", "b"], output=["y"])],
    external_input=["x", "w", "b"],
    external_output=["y"],
)
INIT = NetDef(
    name="init",
    op=[
        OperatorDef(
            type="GivenTensorFill",
            output=[name],
            arg=[Argument(name="shape", ints=[2]), Argument(name="values", floats=[1.0, value])],
        )
        for name, value in (("w", 2.0), ("b", 3.0))
    ],
)


def write(folder: Path, **nets: NetDef) -> None:
    """Write nets by file name, ``__`` for the dot: .pb in binary, anything else in text."""
    for name, net in nets.items():
        path = folder / name.replace("__", ".")
        binary = path.suffix in (".pb", ".model", ".bin")
        path.write_bytes(net.SerializeToString() if binary else text_format.MessageToString(net).encode())


def assert_is_the_model(model: c2.Model) -> None:
    assert model.predict_net == PREDICT
    assert model.init_net == INIT
    assert model.inputs == ("x",)
    assert model.outputs == ("y",)
    assert {name: array.tolist() for name, array in model.params.items()} == {"w": [1.0, 2.0], "b": [1.0, 3.0]}


@pytest.mark.parametrize(
    "names",
    [
        ("predict_net__pb", "init_net__pb"),
        ("predict_net__pbtxt", "init_net__pbtxt"),
        ("predict_net__pbtxt", "init_net__pb"),
        ("model__pb", "model_init__pb"),
        ("lenet_predict_net__pb", "lenet_init_net__pb"),
        ("lenet_predict__model", "lenet_init__model"),
        ("lenet_pred_net__pbtxt", "lenet_init_net__pbtxt"),
        ("train_net__pbtxt", "train_init_net__pbtxt"),
        ("relu__pbtxt", "relu_init__pbtxt"),
        ("12predict_net__pb", "12init_net__pb"),
        ("testpredict_net__pb", "testinit_net__pbtxt"),
        ("exec_net__pb", "init_net__pb"),
        ("squeezenet_exec_net__pb", "squeezenet_init_net__pb"),
        ("predict_net_v2__pbtxt", "init_net_v2__pb"),
        ("predictNet__pb", "initNet__pb"),
        ("mobileNetPredict__pb", "mobileNetInit__pb"),
        ("netPredict_0614__pb", "netInit_0614__pb"),
        ("predict_net__pb", "exec_net__pb"),
        ("squeezenet__pb", "init_net__pb"),
    ],
)
def test_folders_and_files_beside_each_other(tmp_path: Path, names: tuple[str, str]) -> None:
    write(tmp_path, **{names[0]: PREDICT, names[1]: INIT, "notes__md": NetDef()})
    from_folder = c2.load(tmp_path)
    assert_is_the_model(from_folder)
    predict = tmp_path / names[0].replace("__", ".")
    assert from_folder.source == str(predict)
    assert_is_the_model(c2.load(predict))
    assert_is_the_model(c2.load(os.fspath(predict), os.fspath(tmp_path / names[1].replace("__", "."))))


def test_suffixes_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "predict_net.pbtxt").write_bytes(PREDICT.SerializeToString())
    (tmp_path / "init_net.pb").write_bytes(text_format.MessageToString(INIT).encode())
    assert_is_the_model(c2.load(tmp_path))


def test_binary_goes_before_text_of_the_same_name(tmp_path: Path) -> None:
    other = NetDef(name="other")
    write(tmp_path, predict_net__pb=PREDICT, predict_net__pbtxt=other, init_net__pb=INIT, init_net__pbtxt=other)
    assert_is_the_model(c2.load(tmp_path))
    text = c2.load(tmp_path / "predict_net.pbtxt")  # asked for by name, with the init net of its kind
    assert (text.predict_net, text.init_net) == (other, other)


def test_several_pairs_in_one_folder(tmp_path: Path) -> None:
    other = NetDef(name="other")
    write(tmp_path, a_predict_net__pb=PREDICT, a_init_net__pb=INIT, b_predict_net__pb=other, b_init_net__pb=other)
    assert_is_the_model(c2.load(tmp_path / "a_predict_net.pb"))
    assert c2.load(tmp_path / "b_predict_net.pb").predict_net == other
    with pytest.raises(c2.NetFormatError, match=r"a_predict_net.pb, b_predict_net.pb; give the path of one"):
        c2.load(tmp_path)


def test_an_init_net_of_another_name_is_taken_where_it_alone_fills_all_parameters(tmp_path: Path) -> None:
    write(tmp_path, deploy__pb=PREDICT, train__pb=PREDICT, init_net__pb=NetDef(name="init", op=INIT.op[:1]))
    assert dict(c2.load(tmp_path / "deploy.pb").params) == {}
    write(tmp_path, numbers__pb=INIT)
    found = c2.load(tmp_path / "deploy.pb")
    assert_is_the_model(found)
    (note,) = found.init.findings
    assert note.code == "init-net-found"
    assert note.reason == "weights are read from numbers.pb, which lies in the folder of deploy.pb"
    write(tmp_path, more__pb=INIT)
    assert dict(c2.load(tmp_path / "deploy.pb").params) == {}


def test_an_init_net_of_no_bytes_has_no_operators(tmp_path: Path) -> None:
    write(tmp_path, predict_net__pb=PREDICT)
    (tmp_path / "init_net.pb").write_bytes(b"")
    assert dict(c2.load(tmp_path).params) == {}


def test_predict_net_is_preferred_to_other_nets(tmp_path: Path) -> None:
    write(tmp_path, predict_net__pb=PREDICT, init_net__pb=INIT, train_net__pb=NetDef(name="t"), x_predict__pb=INIT)
    assert_is_the_model(c2.load(tmp_path))


def test_a_net_without_parameters(tmp_path: Path) -> None:
    write(tmp_path, odd__bin=PREDICT)
    for path in (tmp_path, tmp_path / "odd.bin"):
        model = c2.load(path)
        assert (model.inputs, dict(model.params)) == (("x", "w", "b"), {})
        assert model.init_net == NetDef(name="init")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (
            ("a_predict_net__pb", "b_predict_net__pb"),
            r"folder .* has several predict nets: a_predict_net.pb, b_",
        ),
        (("one__bin", "two__bin"), "the folder has several nets: one.bin, two.bin"),
        ((), "the folder has no net"),
        (("predict_net__pb", "init_net__txt", "init_net__prototxt"), "several init nets match predict_net.pb: "),
    ],
)
def test_ambiguous_folders(tmp_path: Path, names: tuple[str, ...], reason: str) -> None:
    write(tmp_path, **dict.fromkeys(names, PREDICT))
    with pytest.raises(c2.NetFormatError, match=reason) as caught:
        c2.load(tmp_path)
    assert caught.value.source.startswith(str(tmp_path))


def test_errors_name_the_file(tmp_path: Path) -> None:
    missing = tmp_path / "nothing.pb"
    with pytest.raises(c2.NetFormatError, match="cannot be read: No such file") as caught:
        c2.load(missing)
    assert caught.value.source == str(missing)
    write(tmp_path, predict_net__pb=PREDICT)
    page = tmp_path / "init_net.pb"
    page.write_text("<!DOCTYPE html>\n<html></html>")
    with pytest.raises(c2.NetFormatError, match=f"^{page}: this is a web page"):
        c2.load(tmp_path)
    page.write_text("op {\n  type: 'Relu'\n  colour: 3\n}\n")
    with pytest.raises(c2.NetFormatError, match=r"init_net.pb: the file is not the text of a NetDef: line 3: .*colour"):
        c2.load(tmp_path)
    page.write_bytes(b'name: "\xff"')
    with pytest.raises(c2.NetFormatError, match=r"init_net\.pb: line 1 is not UTF-8"):
        c2.load(tmp_path)
    page.write_bytes(INIT.SerializeToString()[:-3])
    with pytest.raises(c2.NetFormatError, match=r"init_net\.pb: the file is truncated"):
        c2.load(tmp_path)


def test_a_predict_net_given_as_init_net_is_a_finding(tmp_path: Path) -> None:
    write(tmp_path, predict_net__pb=PREDICT)
    model = c2.load(tmp_path / "predict_net.pb", tmp_path / "predict_net.pb")
    assert [(f.code, f.location.op_type) for f in model.init.findings] == [("not-an-init-net", "FC")]
    assert "exchange the files if this is a predict net" in str(model.init.findings[0])


def test_old_field_names_comments_and_utf8(tmp_path: Path) -> None:
    (tmp_path / "predict_net.pbtxt").write_text(
        "# cuda_gpu_id: a comment\n"
        "name: \"cuda_gpu_id: 'é'\"  # after a value\n"
        "device_option { device_type: 1 cuda_gpu_id: 3 }\n"
        'op { type: \'Relu\' arg { name: "cuda_gpu_id" s: "\\"cuda_gpu_id" } device_option { cuda_gpu_id : 2 } }\n',
        encoding="utf-8",
    )
    net = c2.load(tmp_path).predict_net
    assert net.name == "cuda_gpu_id: 'é'"
    assert net.device_option.device_id == 3
    assert net.op[0].device_option.device_id == 2
    assert (net.op[0].arg[0].name, net.op[0].arg[0].s) == ("cuda_gpu_id", b'"cuda_gpu_id')


def test_plans_of_one_net(tmp_path: Path) -> None:
    step = ExecutionStep(name="step", network=["predict"], num_iter=1)
    for plan in (PlanDef(network=[PREDICT]), PlanDef(network=[PREDICT], execution_step=[step])):
        (tmp_path / "plan").write_bytes(plan.SerializeToString())
        assert c2.load(tmp_path / "plan").predict_net == PREDICT
        (tmp_path / "plan").write_text(text_format.MessageToString(plan))
        assert c2.load(tmp_path / "plan").predict_net == PREDICT
    step.create_workspace = True
    for plan in (PlanDef(network=[PREDICT], execution_step=[step]), PlanDef(network=[INIT, PREDICT])):
        (tmp_path / "plan").write_bytes(plan.SerializeToString())
        with pytest.raises(c2.NetFormatError, match=r"plan: this is a PlanDef of \d nets"):
            c2.load(tmp_path / "plan")


def test_large_files_are_mapped_and_arrays_are_their_own(tmp_path: Path) -> None:
    values = np.arange(500_000, dtype=np.float32)
    net = NetDef(op=[OperatorDef(type="GivenTensorFill", output=["w"])])
    net.op[0].arg.add(name="shape", ints=[500, 1000])
    net.op[0].arg.add(name="values", floats=values)
    write(tmp_path, predict_net__pb=PREDICT, init_net__pb=net)
    model = c2.load(tmp_path)
    first = model.params["w"]
    np.testing.assert_array_equal(first, values.reshape(500, 1000))
    first[:] = 0
    np.testing.assert_array_equal(model.params["w"].reshape(-1), values)
    assert model.init_net == net


@pytest.mark.parametrize("seed", range(6))
def test_damaged_files_are_read_or_refused_and_nothing_else(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    model = c2.Model.of(PREDICT, INIT)
    for layout in ("pb", "pbtxt", "minidb"):
        c2.save(model, tmp_path / "good" / layout, layout)
    originals = [file.read_bytes() for file in sorted((tmp_path / "good").rglob("*")) if file.is_file()]
    bad = tmp_path / "bad"
    refused = 0
    for original in originals * 20:
        data = bytearray(original)
        for _ in range(generator.integers(1, 4)):
            at = int(generator.integers(len(data)))
            data[at : at + int(generator.integers(3))] = generator.bytes(int(generator.integers(3)))
        bad.write_bytes(data)
        try:
            found = c2.load(bad)
            for parameter in (*c2.load_init_net(bad).parameters.values(), *found.init.parameters.values()):
                if parameter.size < 1_000_000:
                    parameter.load()
        except c2.NetFormatError:
            refused += 1
    assert refused


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for net, where in ((PREDICT, "predict_net.pb"), (INIT, "init_net.pb")):
        write(tmp_path, predict_net__pb=PREDICT, init_net__pb=INIT)
        data = (tmp_path / where).read_bytes()
        name = net.op[0].output[0].encode()
        (tmp_path / where).write_bytes(data.replace(b"\x12\x01" + name, b"\x12\x01\xff"))
        with pytest.raises(c2.NetFormatError, match=r"operator 0: the name b'\\xff' is not UTF-8 text"):
            c2.load(tmp_path)


def test_names_within_bodies_are_text_too(tmp_path: Path) -> None:
    body = NetDef(op=[OperatorDef(type="Relu", input=["zz"])])
    net = NetDef(op=[OperatorDef(type="If", arg=[Argument(name="then_net", n=body)])])
    (tmp_path / "net").write_bytes(net.SerializeToString().replace(b"zz", b"\xff\xfe"))
    with pytest.raises(c2.NetFormatError, match="is not UTF-8 text"):
        c2.load(tmp_path / "net")


def test_a_folder_that_is_replaced_while_it_is_listed_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, newer = tmp_path / "model", tmp_path / "newer"
    folder.mkdir()
    newer.mkdir()
    (newer / "predict_net.pb").write_bytes(NetDef(name="n", op=[OperatorDef(type="Relu")]).SerializeToString())
    asked = leveldb_file.is_leveldb

    def replaced(path: Path) -> bool:
        if newer.exists():
            folder.rename(tmp_path / "older")
            newer.rename(folder)
        return asked(path)

    monkeypatch.setattr(leveldb_file, "is_leveldb", replaced)
    assert c2.load(folder).predict_net.name == "n"


def test_a_folder_without_a_net(tmp_path: Path) -> None:
    with pytest.raises(c2.NetFormatError, match="the folder has no net"):
        c2.load(tmp_path)


def test_a_folder_that_goes_away_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    asked = leveldb_file.is_leveldb

    def removed(path: Path) -> bool:
        folder.rmdir()
        return asked(path)

    monkeypatch.setattr(leveldb_file, "is_leveldb", removed)
    with pytest.raises(c2.NetFormatError, match="cannot be read: No such file or directory"):
        c2.load(folder)
