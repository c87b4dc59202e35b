"""Blobs as Caffe2 serializes them: records of a key and a BlobProto, in chunks."""
