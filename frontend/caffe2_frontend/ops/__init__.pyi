from caffe2_frontend.ops.index import supported_operators
from caffe2_frontend.ops.registered import register_converter
from caffe2_frontend.ops.table import converters, expectations, uniform_operators

__all__ = ["converters", "expectations", "register_converter", "supported_operators", "uniform_operators"]
