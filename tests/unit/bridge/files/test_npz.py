from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import caffe2_bridge as c2
from caffe2_bridge import limits
from caffe2_bridge.diagnostics import BridgeError, NetFormatError
from caffe2_bridge.files.npz import holds_npz, read_npz
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def archive(path: Path, header: str, data: bytes = b"", method: int = zipfile.ZIP_STORED) -> Path:
    text = header.encode()
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("x.npy", array)
    return path


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000,), }", "does not have 40,000,000,000 bytes"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }", "not negative"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (0,), }", "numbers or text"),
        ("{'descr': '<U0', 'fortran_order': False, 'shape': (9,), }", "numbers or text"),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': ((((((((((((1,), }", ""),
        ("(" * 3000, ""),
    ],
)
def test_headers_that_are_not_true(tmp_path: Path, header: str, reason: str) -> None:
    with pytest.raises(NetFormatError, match=r"not an .npz file of plain arrays") as raised:
        read_npz(archive(tmp_path / "a.npz", header))
    assert reason in str(raised.value)


def test_compression_that_numpy_does_not_use(tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }"
    with pytest.raises(NetFormatError, match="compressed in a way"):
        read_npz(archive(tmp_path / "a.npz", header, method=zipfile.ZIP_LZMA))


def test_a_header_that_numpy_finds_too_long(tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1, " * 10_000 + "), }"
    with pytest.raises(NetFormatError, match=r"header of 'x\.npy' has more than 10,000 bytes") as raised:
        read_npz(archive(tmp_path / "a.npz", header))
    assert "pickle" not in str(raised.value)


def test_arrays_that_unpack_to_much(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros(200_000), y=np.zeros(200_000))
    with limits(unpacked_bytes=2_000_000), pytest.raises(NetFormatError, match=r"3,200,\d\d\d.* --limit unpacked_byt"):
        read_npz(path)
    assert len(read_npz(path)) == 2


def test_damage(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.arange(1000.0))
    whole = stream.getvalue()
    path = tmp_path / "a.npz"
    for index in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[index] ^= 0xFF
        path.write_bytes(damaged)
        try:
            read_npz(path)
        except NetFormatError as error:
            assert "not an .npz file" in str(error)  # noqa: PT017 - other bytes are unused ones


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_read_as_numpy_reads_them(tmp_path: Path, save: object) -> None:
    arrays = {
        "a": np.arange(6, dtype=">i2").reshape(2, 3), "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "t": np.array(["a", "bc"]), "e": np.zeros((0, 3)), "s": np.float32(3), "é": np.array([True]),
    }  # fmt: skip
    path = tmp_path / "a.npz"
    save(path, **arrays)  # type: ignore[operator]
    found = read_npz(path)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == np.asarray(array).dtype
        assert found[name].shape == np.shape(array)
        assert found[name].flags.writeable


def test_an_array_that_is_larger_than_memory_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise MemoryError

    np.savez(tmp_path / "x.npz", x=np.ones(4, np.float32))
    read = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda self, n=-1: broken() if n == 17 else read(self, n))
    with pytest.raises(BridgeError, match=r"x\.npz: there is not enough memory for an array of 16 bytes"):
        read_npz(tmp_path / "x.npz")


NET = NetDef(
    name="predict", op=[OperatorDef(type="FC", input=["x", "w", "b"], output=["y"])], external_input=["x", "w", "b"],
    external_output=["y"],
)  # fmt: skip


def test_weights_of_an_npz_file_are_an_init_net(tmp_path: Path) -> None:
    (tmp_path / "predict_net.pb").write_bytes(NET.SerializeToString())
    weights = {"w": np.arange(6, dtype=">f4").reshape(2, 3), "b": np.ones(2, np.float32), "t": np.array(["text"])}
    np.savez(tmp_path / "weights.npz", **weights)  # type: ignore[arg-type]
    assert not c2.load(tmp_path).params  # a file of arrays may as well hold inputs
    model = c2.load(tmp_path, tmp_path / "weights.npz")
    assert set(model.params) == {"w", "b"}
    np.testing.assert_array_equal(model.params["w"], weights["w"])
    assert model.params["w"].dtype == np.float32
    (note,) = model.init.findings
    assert note.reason == "1 blobs of the checkpoint are left out ('t'): they are not tensors that Caffe2 has"
    c2.save(model, tmp_path / "saved")
    np.testing.assert_array_equal(c2.load(tmp_path / "saved").params["w"], weights["w"])
    assert set(c2.load_weights(tmp_path / "weights.npz").parameters) == {"w", "b"}
    with pytest.raises(NetFormatError, match=r"an \.npz archive of arrays, which has parameters and no net"):
        c2.load(tmp_path / "weights.npz")


def test_an_npz_file_without_numbers(tmp_path: Path) -> None:
    (tmp_path / "predict_net.pb").write_bytes(NET.SerializeToString())
    np.savez(tmp_path / "text.npz", t=np.array(["text"]))
    with pytest.raises(NetFormatError, match=r"text\.npz: the file has no arrays of parameters; it has 't'"):
        c2.load(tmp_path, tmp_path / "text.npz")


def test_other_zip_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as file:
        file.writestr("archive/data.pkl", b"")
    assert not holds_npz((tmp_path / "model.pt").read_bytes())
    with pytest.raises(NetFormatError, match="a zip archive"):
        c2.load_init_net(tmp_path / "model.pt")
