"""Profiles as files and as a cost model."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.nets import net, op

from caffe2_bridge import BridgeError, Device, NetFormatError, Profile, ProfiledCosts, place
from caffe2_bridge.devices.placement.profile import BlobProfile, OperatorProfile

GPU = Device("cuda", 0)
NET = net(op("FC", "x w b", "h"), op("Where", "m h h", "k"), op("FC", "k w b", "y"), inputs="x w b m")


def profile(device: str, fc: float) -> Profile:
    """Return what a run of the net gave; of the first FC, each of three runs."""
    big, small = (BlobProfile(name, "float32", (1000, 1000), 4_000_000) for name in "wx"), BlobProfile("b")
    weights, x = big
    first = OperatorProfile(0, "FC", "", (x, weights, small), (BlobProfile("h", "float32", (5,), 20),), (9.0, fc, fc))
    mask = BlobProfile("m", "bool", (5,), 5)
    hidden, kept = first.outputs[0], BlobProfile("k", "float32", (5,), 20)
    second = OperatorProfile(1, "Where", "", (mask, hidden, hidden), (kept,), (0.5,))
    return Profile("n", device, (first, second))


def test_a_file_gives_the_profile_back(tmp_path: Path) -> None:
    given = profile("cuda:0", 0.25)
    path = tmp_path / "profile.json"
    path.write_text(given.to_json(), encoding="utf-8")
    assert Profile.read(path) == given


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": "other", "version": 1}', profile("cpu", 1).to_json().replace("0.5", "-1")]
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NetFormatError, match=r"profile\.json"):
        Profile.read(path)
    with pytest.raises(NetFormatError, match="cannot be read"):
        Profile.read(tmp_path / "missing.json")


def test_costs_are_the_median_of_what_was_measured() -> None:
    costs = ProfiledCosts(profile("cpu", 2.0), profile("cuda:0", 0.25), bandwidth=4e6, latency=0.125)
    first, where, last = NET.op
    host = Device("cpu")
    assert (costs.operator(first, host), costs.operator(first, GPU)) == (2.0, 0.25)
    assert (costs.operator(where, host), costs.operator(where, GPU)) == (0.5, None)  # Caffe2 has no CUDA version
    assert costs.operator(last, host) == 2.0  # not measured: as others of its type
    assert costs.operator(op("Relu", "y", "z"), host) == 0.125
    assert (costs.transfer("w"), costs.transfer("other")) == (1.125, 0.125)
    assert (costs.memory("w"), costs.memory("other")) == (4_000_000, 0)


def test_place_with_a_profile() -> None:
    costs = ProfiledCosts(profile("cpu", 2.0), speedup=8, bandwidth=4e6, latency=0.125)
    placement = place(NET, costs, inputs={"x": "cuda:0", "m": "cpu"}, outputs={"y": "cuda:0"})
    assert [str(device) for device in placement.devices.values()] == ["cuda:0", "cpu", "cuda:0"]
    assert placement.cost == pytest.approx(0.25 + 0.125 + 20 / 4e6 + 0.5 + 0.125 + 20 / 4e6 + 0.25)
    alone = place(NET, ProfiledCosts(profile("cpu", 2.0)))
    assert {str(device) for device in alone.devices.values()} == {"cpu"}


def test_a_cost_model_needs_one_profile_of_a_kind_and_positive_numbers() -> None:
    with pytest.raises(BridgeError, match="two profiles are of the device cpu"):
        ProfiledCosts(profile("cpu", 1), profile("cpu", 2))
    with pytest.raises(BridgeError, match="bandwidth must be positive, not 0"):
        ProfiledCosts(profile("cpu", 1), bandwidth=0)
