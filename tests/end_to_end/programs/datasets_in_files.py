"""A dataset that is written, saved, and read from the file in shuffled batches, with Caffe2's own Python.

usage: datasets_in_files.py FILE    writes the database FILE, and prints what was read, as JSON
"""
# ruff: noqa: ANN001, ANN201, T201 - a program of Caffe2's time, as users have it

import json
import sys

import numpy as np
from caffe2.python import core, dataset, schema, workspace
from caffe2.python.db_file_reader import DBFileReader

SCHEMA = schema.Struct(
    ("name", schema.Scalar(str)),
    ("score", schema.Scalar((np.float32, 2))),
    ("words", schema.List(schema.Scalar(np.int64))),
)


def write_dataset(records):
    init = core.Net("init")
    data = dataset.Dataset(SCHEMA, name="data")
    data.init_empty(init)
    content = schema.NewRecord(init, SCHEMA)
    schema.FeedRecord(content, records)
    data.writer(init).write_record(init, content)
    data.trim(init, multiple_of=2)
    workspace.RunNetOnce(init)
    return data


def save(data, path):
    operator = core.CreateOperator(
        "Save",
        [str(blob) for blob in data.get_blobs()],
        [],
        db=path,
        db_type="minidb",
        absolute_path=1,
        blob_name_overrides=SCHEMA.field_names(),
    )
    workspace.RunOperatorOnce(operator)


def read_batches(path):
    reader = DBFileReader(db_path=path, db_type="minidb", batch_size=3)
    init, read = core.Net("read_init"), core.Net("read")
    reader.setup_ex(init, None)
    stop, batch = reader.read_record(read)
    workspace.RunNetOnce(init)
    workspace.CreateNet(read)
    batches = []
    while True:
        workspace.RunNet(read)
        if workspace.FetchBlob(str(stop)):
            return reader.schema().field_names(), batches
        batches.append([workspace.FetchBlob(str(blob)).tolist() for blob in batch.field_blobs()])


def main(path):
    names = np.array(["record {}".format(i) for i in range(11)], dtype=object)  # noqa: UP032 - as of its time
    lengths = np.array([i % 3 for i in range(11)], np.int32)
    scores = np.arange(22, dtype=np.float32).reshape(11, 2)
    data = write_dataset([names, scores, lengths, np.arange(lengths.sum())])
    save(data, path)
    workspace.ResetWorkspace()
    fields, batches = read_batches(path)
    print(json.dumps([fields, batches], default=bytes.decode))


if __name__ == "__main__":
    main(sys.argv[1])
