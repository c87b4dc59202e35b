"""Stand-ins for a GPU: the CPU, emulated CUDA libraries, WebGPU on a software GPU."""
