"""Tools that trace the schemas of real Caffe2's operators."""
