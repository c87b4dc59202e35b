from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conformance.corpus import find_cases, read_case
from conformance.oracle import OracleError, OracleRun, find_oracle, run_oracle
from conformance.recording import case, net, operator, read_recorded, record, spec_name

from caffe2_bridge.proto.caffe2_pb2 import NetDef

SPEC = """
import numpy as np
from conformance.recording import case, net, operator

CASES = [
    case("Relu", {"X": np.array([[-1, 2]], np.float32)}),
    case("UniformFill", {}, args={"shape": [100], "min": 0.0, "max": 1.0}),
    case("FC", {"X": np.ones((2, 3), np.float32), "W": np.ones((2, 4), np.float32), "b": np.ones(2, np.float32)}),
    case("Cast", {"X": np.array([1, 2], np.int32)}, args={"to": "string"}),
    net(
        [operator("Int8Relu", ["q"], ["r"], Y_scale=0.5, Y_zero_point=7), operator("CreateScope", [], ["scope"])],
        {"q": np.array([3, 9], np.uint8)},
        quantized={"q": (0.5, 7)},
    ),
]
"""


def test_operator_arguments_by_kind() -> None:
    op = operator(
        "T", ["X"], ["Y"], i=3, flag=True, f=2.0, s="x", ints=[1, 2], floats=[1, 2.5], names=["a"], n=NetDef()
    )
    args = {arg.name: arg for arg in op.arg}
    assert (args["i"].i, args["flag"].i, args["f"].f, args["s"].s) == (3, 1, 2.0, b"x")
    assert (list(args["ints"].ints), list(args["floats"].floats)) == ([1, 2], [1.0, 2.5])
    assert list(args["names"].strings) == [b"a"]
    assert args["n"].HasField("n")


def test_oracle_is_found_where_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAFFE2_PYTHON", str(tmp_path / "python"))
    assert find_oracle() == tmp_path / "python"
    monkeypatch.delenv("CAFFE2_PYTHON")
    monkeypatch.setenv("CAFFE2_ORACLE_DIR", str(tmp_path))
    assert find_oracle() is None
    with pytest.raises(OracleError, match="scripts/oracle installs it"):
        run_oracle([])


@pytest.mark.oracle
def test_record(tmp_path: Path) -> None:
    spec = tmp_path / "spec.py"
    spec.write_text(SPEC)
    folder = tmp_path / "recorded"
    lines = record(spec, folder)
    assert ["differ from run to run" in line for line in lines] == [False, True, False, False, False]

    cases = {ref.group: read_case(ref) for ref in find_cases(folder)}
    assert sorted(cases) == ["Cast", "Relu", "nets/spec"]
    np.testing.assert_array_equal(cases["Relu"].outputs["Y"], [[0, 2]])
    assert cases["Cast"].outputs["Y"].tolist() == ["1", "2"]
    assert list(cases["nets/spec"].outputs) == ["r"]
    assert cases["nets/spec"].outputs["r"].tolist() == [7, 9]
    assert cases["nets/spec"].quantized == {"q": (0.5, 7), "r": (0.5, 7)}

    (refused,) = read_recorded(folder / "errors.npz")
    assert refused.meta["types"] == ["FC"]
    assert "frame #" not in refused.meta["error"]


@pytest.mark.oracle
def test_recording_again_replaces_own_cases_only(tmp_path: Path) -> None:
    spec, other = tmp_path / "spec.py", tmp_path / "other.py"
    spec.write_text(SPEC)
    other.write_text(SPEC)
    folder = tmp_path / "recorded"
    record(spec, folder)
    record(other, folder)
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*.npz"))}
    record(spec, folder)
    assert {path: path.read_bytes() for path in sorted(folder.rglob("*.npz"))} == before

    spec.write_text("from conformance.recording import case\nCASES = []\n")
    record(spec, folder)
    assert [item.meta["test"] for item in read_recorded(folder / "ops" / "Relu.npz")] == ["other.py::0"]
    assert not (folder / "nets" / "spec.npz").exists()


@pytest.mark.oracle
def test_oracle_measures_and_reports_errors() -> None:
    relu = net([operator("Relu", ["X"], ["Y"])], {})
    good, bad = run_oracle([
        OracleRun(relu.net, {"X": np.array([-1, 1], np.float32)}, times=3),
        OracleRun(case("FC", {"X": np.ones(1, np.float32)}).net),
    ])  # fmt: skip
    assert good.outputs["Y"].tolist() == [0, 1]
    assert len(good.seconds) == 3
    assert min(good.seconds) > 0
    assert bad.error
    assert not bad.outputs


@pytest.mark.oracle
def test_parameters_come_from_the_init_net() -> None:
    fill = operator("GivenTensorFill", [], ["W"], shape=[2], values=[3.0, 4.0])
    run = OracleRun(NetDef(op=[operator("Copy", ["W"], ["Y"])]), init_net=NetDef(op=[fill]), outputs=["Y"])
    (result,) = run_oracle([run])
    assert result.outputs["Y"].tolist() == [3, 4]


def test_two_specs_of_one_name_would_replace_each_other(tmp_path: Path) -> None:
    folders = [tmp_path / "specs" / name for name in ("tensor", "nn", "gradients/nn")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "shape.py").write_text("CASES = []")
    with pytest.raises(ValueError, match=r"nn.shape\.py has the same name"):
        record(folders[0] / "shape.py", tmp_path / "recorded")
    assert spec_name(folders[2] / "shape.py") == "gradients/shape.py"  # of gradients there is one


def test_every_recorded_case_has_a_spec() -> None:
    golden = Path(__file__).parents[2] / "golden"
    specs = {spec_name(path) for path in (golden / "specs").rglob("*.py")}
    for path in (golden / "recorded").rglob("*.npz"):
        tests = [item.meta["test"] for item in read_recorded(path)] if "models" not in path.parts else []
        assert {test.partition("::")[0] for test in tests} <= specs, path
