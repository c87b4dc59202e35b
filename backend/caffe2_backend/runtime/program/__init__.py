"""Programs: nets converted to ONNX and run on one device.

Reading order: ``interface`` (what a net reads and writes), ``program`` (runs), ``signature`` (kinds of inputs),
``compiler`` and ``conversion`` (a net for one kind of inputs, as ONNX), ``variant`` (its session).
"""
