from caffe2_frontend.ops.index import supported_operators
from caffe2_frontend.ops.table import converters, expectations, uniform_operators

__all__ = ["converters", "expectations", "supported_operators", "uniform_operators"]
