"""What distributions contain."""

from __future__ import annotations

from release.contents import MAXIMUM_BYTES, PACKAGES, sdist_faults, tracked_files, wheel_faults

ABOUT = "caffe2_bridge-1.dist-info"
OF_WHEELS = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")


def wheel() -> dict[str, int]:
    """Return the files of a wheel as it should be."""
    names = [name.partition("/")[2] for name in tracked_files(*PACKAGES)]
    return dict.fromkeys([*names, *(f"{ABOUT}/{name}" for name in OF_WHEELS)], 1)


def test_what_is_tracked_includes_types_tables_and_protobufs() -> None:
    assert {
        "caffe2_bridge/py.typed", "caffe2_frontend/py.typed", "caffe2_backend/py.typed",
        "caffe2_bridge/proto/caffe2.proto", "caffe2_bridge/proto/caffe2_pb2.py", "caffe2_bridge/schemas/operators.json",
        "caffe2_bridge/devices/cuda_operators.txt", "caffe2_validation/render/page.html",
    } <= wheel().keys()  # fmt: skip
    assert wheel_faults(wheel()) == []


def test_faults_of_a_wheel() -> None:
    files = wheel() | {"caffe2_bridge/model.py": MAXIMUM_BYTES + 1, "tests/test_a.py": 1}
    del files["caffe2_bridge/py.typed"], files[f"{ABOUT}/licenses/LICENSE"]
    assert wheel_faults(files) == [
        "missing: licenses/LICENSE",
        "missing: caffe2_bridge/py.typed",
        "unexpected: tests/test_a.py",
        f"larger than {MAXIMUM_BYTES} bytes: caffe2_bridge/model.py",
    ]


def test_faults_of_an_sdist() -> None:
    names = tracked_files(
        *PACKAGES, "docs", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "hatch_build.py"
    )
    files = dict.fromkeys([*names, "README.md", "PKG-INFO", ".gitignore", "tests/golden/README.md"], 1)
    assert sdist_faults(files) == ["missing: pyproject.toml", "unexpected: tests/golden/README.md"]
