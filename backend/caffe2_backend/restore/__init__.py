"""Restoration of Caffe2 operators from the metadata that the export wrote."""
