"""Import Caffe2's Python files: find a copy, rewrite in memory what libraries of today refuse, and run programs."""
