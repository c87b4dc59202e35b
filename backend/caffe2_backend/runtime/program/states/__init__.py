"""States that stay where they are from step to step: in one buffer, or in the memory of onnxruntime."""
