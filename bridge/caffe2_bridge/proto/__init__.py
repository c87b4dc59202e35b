"""Caffe2's protobuf messages. ``scripts/proto`` generates the code from the .proto files beside it."""

from caffe2_bridge.proto import caffe2_pb2, metanet_pb2

__all__ = ["caffe2_pb2", "metanet_pb2"]
