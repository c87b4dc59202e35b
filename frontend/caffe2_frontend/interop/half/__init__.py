"""Half precision: onnxruntime's converter, and the nodes and casts that it leaves to mend."""
