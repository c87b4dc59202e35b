"""ImageInput."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np

from caffe2_backend.databases import DatabaseError, Mode, create_database
from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.images.image_records import Item, read_item
from caffe2_backend.runtime.host.images.settings import Settings, read_settings
from caffe2_backend.runtime.host.images.transform import transform
from caffe2_backend.runtime.host.storage.database_input import read_record
from caffe2_backend.runtime.host.storage.prefetching import next_batch
from caffe2_backend.runtime.host.storage.readers import HostReader
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import BridgeError

family = HostFamily("images")


@family.runs("ImageInput")
def image_input(op: HostOp) -> None:
    """ImageInput(reader; batch_size, crop, ...) -> images, labels, further outputs...

    The images are float32 [batch, crop, crop, channels], of three channels blue, green and red. What is random follows
    the workspace's seed. Requires the package Pillow (extra ``images``) for encoded images.
    """
    if "settings" not in op.state:
        op.state["settings"] = read_settings(op)
        op.state["seed"] = op.frame.draw_seed()
        op.state["batches"] = count()
        op.state["reader"] = None if op.inputs else _own_reader(op)
    settings: Settings = op.state["settings"]
    for i, value in enumerate(next_batch(op, lambda: _read_batch(op, settings))):
        op.set(i, value)


def _own_reader(op: HostOp) -> HostReader:
    """Return the reader of an operator in the old form, whose arguments name the database."""
    path, db_type = op.args.text("db", default=""), op.args.text("db_type", default="leveldb")
    if not path:
        raise op.error("the operator must have a reader, or the path of a database in the argument db")
    with op.translating(DatabaseError):
        return HostReader(db_type, path, create_database(db_type, path, Mode.READ))


def _read_batch(op: HostOp, settings: Settings) -> list[Array]:
    """Read the records in order, and work on them in threads; each image has random numbers of its own."""
    reader = op.state["reader"] or op.object(0, HostReader)
    batch = next(op.state["batches"])
    seed = op.state["seed"]
    contents = [read_record(op, reader) for _ in range(settings.batch_size)]

    def work(index: int) -> tuple[Item, Array]:
        item = read_item(contents[index], settings)
        return item, transform(item, settings, np.random.default_rng([seed, batch, index]))

    with op.translating(BridgeError), ThreadPoolExecutor(settings.threads) as pool:
        done = list(pool.map(work, range(settings.batch_size)))
    unreadable = sum(not item.is_readable for item, _ in done)
    if unreadable / settings.batch_size > settings.max_error_ratio:
        raise op.error(f"{unreadable} of {settings.batch_size} images cannot be decoded")
    images = np.stack([image for _, image in done])
    if settings.is_planar:
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).astype(settings.output_dtype)
    items = [item for item, _ in done]
    further = [_stacked(op, [item.outputs[i] for item in items]) for i in range(len(settings.output_sizes))]
    return [images, _stacked(op, [item.label for item in items]), *further]


def _stacked(op: HostOp, values: Sequence[Array]) -> Array:
    if len({value.dtype for value in values}) > 1:
        raise op.error("the labels, or further outputs, of a batch differ in element types")
    return np.stack(values)
