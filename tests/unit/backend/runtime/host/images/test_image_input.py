"""ImageInput: every kind of record and label, cropping, scaling and normalizing, and what is random.

Modules: image_records.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.databases import Mode, create_database
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, NetDef, OperatorDef, TensorProto, TensorProtos
from caffe2_bridge.wire import write as wire_write

INT32, FLOAT = TensorProto.INT32, TensorProto.FLOAT


def pixels(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def raw(image: Array) -> TensorProto:
    return TensorProto(data_type=TensorProto.BYTE, dims=image.shape, byte_data=image.tobytes())


def encoded(data: bytes) -> TensorProto:
    return TensorProto(data_type=TensorProto.STRING, string_data=[data])


def integers(*values: int) -> TensorProto:
    return TensorProto(data_type=INT32, int32_data=values)


def numbers(*values: float) -> TensorProto:
    return TensorProto(data_type=FLOAT, float_data=values)


def record(*protos: TensorProto) -> bytes:
    return TensorProtos(protos=protos).SerializeToString()


def image_input(outputs: int = 2, *, inputs: tuple[str, ...] = ("r",), **args: Any) -> OperatorDef:
    given = {"batch_size": 1, "crop": 4, "minsize": 4, "is_test": 1, **args}
    return operator("ImageInput", list(inputs), [f"o{i}" for i in range(outputs)], **given)


def reading(tmp_path: Path, *records: bytes, seed: int | None = None) -> Workspace:
    database = create_database("minidb", tmp_path / "images", Mode.NEW)
    transaction = database.transaction()
    for index, content in enumerate(records):
        transaction.put(f"{index:03}".encode(), content)
    transaction.commit()
    workspace = Workspace(seed=seed)
    create = operator("CreateDB", [], ["r"], db=str(tmp_path / "images"), db_type="minidb")
    workspace.run_operator_once(create)
    return workspace


def run(workspace: Workspace, op: OperatorDef) -> list[Array]:
    workspace.run_operator_once(op)
    return [np.asarray(workspace.fetch(name)) for name in op.output]


def test_the_center_is_normalized(tmp_path: Path) -> None:
    image = pixels(1, 6, 9, 3)
    workspace = reading(tmp_path, record(raw(image), integers(7)))
    data, label = run(workspace, image_input(mean_per_channel=[1.0, 2.0, 3.0], std_per_channel=[2.0, 4.0, 8.0]))
    assert (data.dtype, data.shape, label.dtype, label.tolist()) == (np.float32, (1, 4, 4, 3), np.int32, [7])
    expected = (image[1:5, 2:6].astype(np.float32) - np.float32([1, 2, 3])) / np.float32([2, 4, 8])
    assert np.array_equal(data[0], expected)


def test_mean_and_std_may_be_one_number(tmp_path: Path) -> None:
    image = pixels(1, 4, 4)
    data, _ = run(reading(tmp_path, record(raw(image), integers(0))), image_input(color=0, mean=8.0, std=2.0))
    assert np.array_equal(data[0, :, :, 0], (image.astype(np.float32) - 8) / 2)


@pytest.mark.parametrize(
    ("shape", "args", "size"),
    [
        ((8, 12), {"scale": 4, "minsize": -1}, (4, 6)),
        ((8, 12), {"scale": 4, "minsize": -1, "warp": 1}, (4, 4)),
        ((12, 8), {"scale": 6, "minsize": -1}, (9, 6)),
        ((8, 12), {"minsize": 6}, (8, 12)),
        ((3, 5), {"minsize": 4}, (4, 6)),
    ],
)
def test_sides_are_scaled(shape: tuple[int, int], args: dict[str, int], size: tuple[int, int], tmp_path: Path) -> None:
    from caffe2_backend.runtime.host.images.resize import resize

    image = pixels(1, *shape, 3)
    data, _ = run(reading(tmp_path, record(raw(image), integers(0))), image_input(**args))
    scaled = resize(image, *size)
    top, left = (size[0] - 4) // 2, (size[1] - 4) // 2
    assert np.array_equal(data[0], scaled[top : top + 4, left : left + 4].astype(np.float32))


def test_boxes_of_records_and_of_arguments(tmp_path: Path) -> None:
    image = pixels(1, 8, 8, 3)
    box = {f"bounding_{name}": value for name, value in (("ymin", 1), ("xmin", 2), ("height", 4), ("width", 5))}
    records = [
        record(raw(image), integers(0)),
        record(raw(image), integers(0), integers(3, 3, 4, 4)),
        record(raw(image), integers(0), integers(3, 3, 4, 9)),  # outside, so that it does not count
    ]
    data, _ = run(reading(tmp_path, *records), image_input(batch_size=3, **box))
    for found, (top, left) in zip(data, [(1, 2), (3, 3), (2, 2)], strict=True):
        assert np.array_equal(found, image[top : top + 4, left : left + 4].astype(np.float32))


@pytest.mark.parametrize(
    ("label_type", "protos", "expected"),
    [
        (0, [numbers(2.5)], 2.5),
        (1, [integers(0, 3)], [1, 0, 0, 1]),
        (1, [numbers(0, 3)], [1, 0, 0, 1]),
        (2, [integers(4, 5, 6, 7)], [4, 5, 6, 7]),
        (3, [integers(1, 2), numbers(0.5, 7)], [0, 0, 7, 0]),
        (3, [numbers(1, 2), numbers(0.5, 7)], [0, 0.5, 7, 0]),
        (4, [integers(9), numbers(1)], 9),
        (5, [numbers(1, 2, 3, 4)], [1, 2, 3, 4]),
    ],
)
def test_labels(label_type: int, protos: list[TensorProto], expected: Any, tmp_path: Path) -> None:
    workspace = reading(tmp_path, record(raw(pixels(1, 4, 4, 3)), *protos))
    _, label = run(workspace, image_input(label_type=label_type, num_labels=4))
    assert label.dtype == (np.float32 if protos[0].data_type == FLOAT else np.int32)
    assert label.tolist() == [expected]


def test_further_outputs(tmp_path: Path) -> None:
    long = TensorProto(data_type=TensorProto.INT64, int64_data=[2**40, 1])
    byte = TensorProto(data_type=TensorProto.UINT8, int32_data=[200])
    workspace = reading(tmp_path, record(raw(pixels(1, 4, 4, 3)), integers(0), numbers(0.5), long, byte))
    found = run(workspace, image_input(5, output_sizes=[1, 2, 1]))[2:]
    assert [(array.dtype.name, array.tolist()) for array in found] == [
        ("float32", [[0.5]]), ("int64", [[2**40, 1]]), ("uint8", [[200]]),
    ]  # fmt: skip


def varint(number: int, value: int) -> bytes:
    return bytes([number << 3, *([value] if value < 128 else [value & 127 | 128, value >> 7])])


def test_datums_of_caffe(tmp_path: Path) -> None:
    image = pixels(1, 3, 5, 4)  # CHW
    datum = b"".join(varint(i, v) for i, v in ((1, 3), (2, 5), (3, 4), (5, 300)))
    datum += wire_write.encode_len(4, image.tobytes())
    data, label = run(reading(tmp_path, datum), image_input(use_caffe_datum=1))
    assert label.tolist() == [300]
    assert np.array_equal(data[0], image.transpose(1, 2, 0)[:4].astype(np.float32))


def test_gray_is_made_of_colors_and_colors_of_gray(tmp_path: Path) -> None:
    color, gray = pixels(1, 4, 4, 3), pixels(2, 4, 4)
    workspace = reading(tmp_path, record(raw(color), integers(0)), record(raw(gray), integers(0)))
    data, _ = run(workspace, image_input(batch_size=2, color=0))
    blue, green, red = np.moveaxis(color.astype(np.float64), -1, 0)
    assert np.abs(data[0, :, :, 0] - (0.114 * blue + 0.587 * green + 0.299 * red)).max() < 0.51
    data, _ = run(workspace, image_input(batch_size=2, color=3))  # any number but 0
    assert np.array_equal(data[1], np.repeat(gray[:, :, None], 3, 2).astype(np.float32))


def test_encoded_images_are_decoded(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    from PIL import Image  # type: ignore[import-not-found,unused-ignore]  # of the extra images

    image = pixels(1, 4, 4, 3)
    records = []
    for form, mode in (("PNG", "RGB"), ("PNG", "L"), ("BMP", "RGB")):
        file = io.BytesIO()
        Image.fromarray(image).convert(mode).save(file, form)
        records.append(record(encoded(file.getvalue()), integers(0)))
    data, _ = run(reading(tmp_path, *records), image_input(batch_size=3))
    assert np.array_equal(data[0], image[:, :, ::-1].astype(np.float32))
    assert np.array_equal(data[2], data[0])
    assert np.array_equal(data[1, :, :, 0], data[1, :, :, 2])


def test_images_that_cannot_be_decoded_are_black_up_to_a_ratio(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    records = [record(encoded(b"junk"), integers(0)), record(raw(pixels(1, 4, 4, 3)), integers(0))]
    data, _ = run(reading(tmp_path, *records), image_input(batch_size=2, max_decode_error_ratio=0.5))
    assert not data[0].any()
    with pytest.raises(RunError, match="1 of 2 images cannot be decoded"):
        run(reading(tmp_path, *records), image_input(batch_size=2, max_decode_error_ratio=0.4))


def trained(tmp_path: Path, seed: int, **args: Any) -> list[Array]:
    """Return two batches that are read in training."""
    image = pixels(1, 12, 9, 3)
    workspace = reading(tmp_path, record(raw(image), integers(0)), seed=seed)
    op = image_input(batch_size=8, is_test=0, **args)
    net = workspace.create_net(NetDef(name="net", op=[op]))
    batches = []
    for _ in range(2):
        workspace.run_net(net)
        batches.append(np.asarray(workspace.fetch("o0")))
    return batches


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"mirror": 1},
        {"random_scale": [4, 12], "minsize": -1},
        {"scale_jitter_type": 1},
        {"color_jitter": 1, "color_lighting": 1},
    ],
)
def test_what_is_random_follows_the_seed(args: dict[str, Any], tmp_path: Path) -> None:
    first, again, other = (trained(tmp_path, seed, **args) for seed in (1, 1, 2))
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one, two)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], other[0])
    assert first[0].shape == (8, 4, 4, 3)


def test_random_crops_are_parts_of_the_image_and_some_are_mirrored(tmp_path: Path) -> None:
    image = pixels(1, 12, 9, 3).astype(np.float32)
    parts = {image[y : y + 4, x : x + 4].tobytes() for y in range(9) for x in range(6)}
    flipped = {image[y : y + 4, x : x + 4][:, ::-1].tobytes() for y in range(9) for x in range(6)}
    seen = [item.tobytes() for batch in trained(tmp_path, 1, mirror=1) for item in batch]
    assert all(item in parts | flipped for item in seen)
    assert 0 < sum(item in flipped for item in seen) < len(seen)


def test_a_gpu_transform_is_left_to_the_net_or_done_here(tmp_path: Path) -> None:
    image = pixels(1, 4, 4, 3)
    workspace = reading(tmp_path, record(raw(image), integers(0)))
    op = image_input(use_gpu_transform=1, mean=4.0, std=2.0)
    data, _ = run(workspace, op)
    assert (data.dtype, data.tolist()) == (np.uint8, [image.tolist()])
    op.device_option.device_type = PROTO_CUDA
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no GPU
        data, _ = run(workspace, op)
    assert np.array_equal(data[0], (image.transpose(2, 0, 1).astype(np.float32) - 4) / 2)


def test_an_operator_may_have_its_own_reader(tmp_path: Path) -> None:
    workspace = reading(tmp_path, record(raw(pixels(1, 4, 4, 3)), integers(5)))
    _, label = run(workspace, image_input(inputs=(), db=str(tmp_path / "images"), db_type="minidb"))
    assert label.tolist() == [5]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"batch_size": 0}, "batch_size must be 1 at least"),
        ({"scale": 4}, "either scale or minsize"),
        ({"crop": 5}, r"crop must be from 1 to the scale or minsize \(4\), not 5"),
        ({"label_type": 1}, "num_labels"),
        ({"label_type": 9}, "label_type must be from 0 to 5"),
        ({"output_sizes": [1]}, "a size for each output after the label"),
        ({"mean_per_channel": [1.0, 2.0]}, "1 or 3 values, not 2"),
        ({"random_scale": [4]}, "a minimum and a maximum"),
        ({"use_caffe_datum": 1, "label_type": 2, "num_labels": 1}, "a single label"),
        ({"label_type": 2, "num_labels": 3}, "must have 3 labels, not 1"),
        ({"use_caffe_datum": 1}, "a datum of 0 x 0 x 0"),
    ],
)
def test_errors(args: dict[str, Any], message: str, tmp_path: Path) -> None:
    workspace = reading(tmp_path, record(raw(pixels(1, 4, 4, 3)), integers(0)))
    with pytest.raises(RunError, match=message):
        run(workspace, image_input(**args))


def test_images_that_are_too_small_are_errors(tmp_path: Path) -> None:
    box = {"bounding_ymin": 0, "bounding_xmin": 0, "bounding_height": 4, "bounding_width": 2}
    workspace = reading(tmp_path, record(raw(pixels(1, 4, 4, 3)), integers(0)))
    data, _ = run(workspace, image_input(**box))  # scaled up
    assert data.shape == (1, 4, 4, 3)
    with pytest.raises(RunError, match="a record of the database is not a TensorProtos"):
        run(reading(tmp_path, b"\xff"), image_input())
