"""Recurrent operators of ONNX as RecurrentNetwork."""
