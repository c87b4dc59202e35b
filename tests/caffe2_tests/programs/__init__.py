"""Programs that run under this project's Python and under real Caffe2's Python 3.8, to compare what they print."""
