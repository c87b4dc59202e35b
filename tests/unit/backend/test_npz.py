"""Arrays that are written as .npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from caffe2_backend.npz import write_npz


def test_strings_are_written_as_text(tmp_path: Path) -> None:
    strings = np.array([[b"a", "\u00e9".encode()], ["\u00e9", b"\xff"]], object)
    write_npz(tmp_path / "x.npz", {"x": strings, "none": strings[:0]})
    with (tmp_path / "x.npz").open("rb") as opened, np.lib.npyio.NpzFile(opened) as found:
        assert found["x"].tolist() == [["a", "\u00e9"], ["\u00e9", "\udcff"]]
        assert found["none"].shape == (0, 2)
