"""onnxruntime sessions: the library, the options of a session, the choice of its device, and its inputs."""
