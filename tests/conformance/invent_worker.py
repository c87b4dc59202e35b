"""Makes up what a net lacks, by running it in real Caffe2: invent_worker.py REQUEST.npz RESPONSE.npz.

Operators run one by one. Before one runs, the blobs that it reads and nobody made are made up: their shapes follow from
the operator and from the operands that are there already. This file runs under the oldest Python that Caffe2 was built
for (3.6) and imports nothing of this project.

Request: ``meta``, JSON ``{inputs, int8, strings, described, rows, scales, width, seed}``; ``net``, a serialized NetDef;
``in/NAME``, what is given. ``described`` says of inputs ``[numpy dtype, rank or null]``, ``rows`` how many rows the
weights of that name have, ``scales`` what they are multiplied with. Response: ``meta``, JSON
``{inputs, int8, missing, error}``; ``in/NAME``, the given inputs and those made up.
``missing`` are operator types that real Caffe2 does not have; they are left out, and what they write is made up.
"""
# ruff: noqa: UP006, UP035, UP045 - Python 3.6 knows Dict, List and Optional alone, and no postponed annotations

import json
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np
from caffe2.python import workspace  # type: ignore[import-not-found]  # oracle's own
from oracle_worker import feed, on_cpu  # type: ignore[import-not-found]  # lies beside it when it runs

Shape = Tuple[int, ...]
PASS = {
    "AffineChannel", "AveragePool", "Dropout", "Elu", "Int8AveragePool", "Int8MaxPool", "Int8Relu", "Int8ResizeNearest",
    "LRN", "LeakyRelu", "MaxPool", "PRelu", "Relu", "ResizeNearest", "Sigmoid", "SpatialBN", "Tanh",
}  # fmt: skip
SUMS = {"Add", "Int8Add", "Int8Sum", "Int8SumRelu", "Mul", "Sum", "SumRelu"}
CONVOLUTIONS = {"Conv", "ConvRelu", "ConvTranspose", "Int8Conv", "Int8ConvRelu", "Int8ConvTranspose"}
LAYERS = {"FC", "FCTransposed", "Int8FC", "FbFCPacked"}
PER_CHANNEL = {"AffineChannel", "InstanceNorm", "PRelu", "SpatialBN"}
LOOKUPS = {"Gather", "LengthsSum", "SparseLengthsMean", "SparseLengthsSum", "SparseLengthsWeightedSum"}
# Where the spread of quantized sums of products shall lie, in steps, and that of bytes drawn evenly.
SPREAD, EVEN = 40.0, 74.0
TABLE_ROWS = 50


class Inventor:
    """One net in an empty workspace; ``made`` are the inputs so far."""

    def __init__(self, meta: Dict[str, Any], given: Dict[str, Any]) -> None:
        self.meta = meta
        self.made = dict(given)
        self.int8 = dict(meta["int8"])
        self.random = np.random.RandomState(meta["seed"])
        self.missing = []  # type: List[str]
        self.known = set(workspace.RegisteredOperators())
        self.written: Set[str] = set()
        for name in meta["inputs"]:
            feed(name, meta, given.get(name))

    def run(self, ops: List[Any], later: Dict[str, List[Any]]) -> None:
        """Run operators in order, those of a branch that is taken as if they stood in the place of the If."""
        for op in ops:
            if op.type not in self.known and not any(k.startswith(op.type + "_ENGINE_") for k in self.known):
                self.missing.append(op.type)
                continue
            for index, name in enumerate(op.input):
                if not workspace.HasBlob(name):
                    self.make(op, index, later)
            nets = {arg.name: arg.n for arg in op.arg if arg.HasField("n")}
            if op.type == "If":
                taken = nets.get("then_net" if workspace.FetchBlob(op.input[0]).item() else "else_net")
                self.run(list(taken.op) if taken else [], readers(taken) if taken else {})
                continue
            if op.type in ("RecurrentNetwork", "While", "Do"):
                self.inside(nets)
            if not workspace.RunOperatorOnce(op):
                raise RuntimeError(op.type + " failed")

    def inside(self, nets: Dict[str, Any]) -> None:
        """What a body reads from the workspace around it."""
        for net in nets.values():
            written = set(net.external_input)
            for inner in net.op:
                for index, name in enumerate(inner.input):
                    if name not in written and not workspace.HasBlob(name):
                        self.make(inner, index, {})
                written.update(inner.output)

    def make(self, op: Any, index: int, later: Dict[str, List[Any]]) -> None:
        """Make up one operand."""
        name = op.input[index]
        array, kind = self.invented(op, index, later)
        self.made[name] = array
        if kind is not None:
            self.int8[name] = kind
        feed(name, {"int8": self.int8, "strings": {}}, array)

    def invented(self, op: Any, index: int, later: Dict[str, List[Any]]) -> Tuple[Any, Optional[Tuple[float, int]]]:
        args = {arg.name: arg for arg in op.arg}
        first = shape_of(op.input[0]) if index else None
        if op.type.startswith("Int8") and first is not None and op.type in CONVOLUTIONS | LAYERS:
            return self.quantized(op, index, args, first, later)
        shape = self.shape(op, index, args, first, later)
        if op.type == "SpatialBN" and index == 4:
            return self.random.uniform(0.5, 1.5, shape).astype(np.float32), None
        if op.type in PER_CHANNEL and index == 1:
            return self.random.uniform(0.5, 1.5, shape).astype(np.float32), None
        described = self.meta["described"].get(op.input[index], ["float32", None])
        dtype = np.dtype(described[0])
        if shape is None:
            rank = described[1]
            shape = (
                (2, 3, 4, 5)[:rank] if rank is not None and rank <= 4 else (2, 3, 4) if rank is None else (2,) * rank
            )
        if dtype.kind == "f":
            spread = np.sqrt(max(np.prod(shape[1:]), 1)) if op.type in CONVOLUTIONS | LAYERS and index == 1 else 1.0
            spread /= self.meta["scales"].get(op.input[index], 1.0)
            return (self.random.standard_normal(shape) / spread).astype(dtype), None
        if dtype.kind == "b":
            return self.random.randint(0, 2, shape).astype(bool), None
        return self.random.randint(0, 3, shape).astype(dtype), None

    def shape(
        self, op: Any, index: int, args: Dict[str, Any], first: Optional[Shape], later: Dict[str, List[Any]]
    ) -> Optional[Shape]:
        """The shape that an operand must have, None where the operator does not say."""
        if first is None:
            return (TABLE_ROWS, self.meta["width"]) if op.type in LOOKUPS and index == 0 else None
        shape = None  # type: Optional[Shape]
        if op.type in CONVOLUTIONS:
            shape = self.convolution(op, index, args, first, later)
        elif op.type in LAYERS:
            shape = self.layer(op, index, args, first)
        elif op.type == "MatMul":
            inner = first[-2 if number(args, "trans_a", 0) else -1]
            shape = (self.rows(op), inner) if number(args, "trans_b", 0) else (inner, self.rows(op))
        elif op.type in PER_CHANNEL:
            shape = (channels_of(first, args),)
        elif op.type in SUMS and number(args, "broadcast", 0):
            axis = number(args, "axis", -1)
            shape = (first[axis],) if axis != -1 else first[-1:]
        elif op.type in SUMS:
            shape = first
        return shape

    def convolution(
        self, op: Any, index: int, args: Dict[str, Any], first: Shape, later: Dict[str, List[Any]]
    ) -> Shape:
        """The shape of a weight or bias."""
        channels = channels_of(first, args)
        filters = self.filters(op, args, channels, later)
        if index == 2:
            return (filters,)
        last = text(args, "order") == "NHWC"
        kernel = tuple(kernel_of(args))
        if "Transpose" in op.type:
            return (channels, *kernel, filters) if last else (channels, filters, *kernel)
        depth = channels // number(args, "group", 1)
        return (filters, *kernel, depth) if last else (filters, depth, *kernel)

    def layer(self, op: Any, index: int, args: Dict[str, Any], first: Shape) -> Shape:
        """The shape of a weight or bias."""
        transposed = op.type == "FCTransposed"
        if index == 2:
            return (shape_of(op.input[1])[-1 if transposed else -2],)
        rows, columns = self.rows(op), int(np.prod(first[number(args, "axis", 1) :]))
        before = (1,) * (number(args, "axis_w", 1) - 1)
        return (*before, columns, rows) if transposed else (*before, rows, columns)

    def rows(self, op: Any) -> int:
        """How many rows a weight has."""
        return int(self.meta["rows"].get(op.input[1], self.meta["width"]))

    def filters(self, op: Any, args: Dict[str, Any], channels: int, later: Dict[str, List[Any]]) -> int:
        """How many filters a convolution has: as many as what reads it asks for."""
        group = number(args, "group", 1)
        if op.input[1] in self.meta["rows"]:
            return int(self.meta["rows"][op.input[1]])
        if workspace.HasBlob(op.input[1]):
            shape = shape_of(op.input[1])
            transposed = "Transpose" in op.type
            return shape[(-1 if text(args, "order") == "NHWC" else 1) if transposed else 0]
        wanted = self.wanted(op.output[0], later, text(args, "order") == "NHWC")
        if wanted:
            return wanted
        return channels if group == channels and group > 1 else -(-self.meta["width"] // group) * group

    def wanted(self, name: str, later: Dict[str, List[Any]], last: bool) -> int:
        """The channels that the readers of a blob ask for; 0 where they take any."""
        for reader in later.get(name, []):
            args = {arg.name: arg for arg in reader.arg}
            if reader.type in CONVOLUTIONS and number(args, "group", 1) > 1 and reader.input[0] == name:
                return number(args, "group", 1)
            if reader.type in SUMS:
                for other in reader.input:
                    if other != name and workspace.HasBlob(other):
                        return shape_of(other)[-1 if last else 1]
            if reader.type in PASS and reader.input[0] == name and reader.output[0] != name:
                found = self.wanted(reader.output[0], later, last)
                if found:
                    return found
        return 0

    def quantized(
        self, op: Any, index: int, args: Dict[str, Any], first: Shape, later: Dict[str, List[Any]]
    ) -> Tuple[Any, Tuple[float, int]]:
        """Bytes of a weight, scaled so that the sums of products spread well; the int32 of a bias."""
        shape = self.shape(op, index, args, first, later)
        assert shape is not None
        x_scale = workspace.FetchInt8Blob(op.input[0]).scale
        if index == 2:
            w_scale = workspace.FetchInt8Blob(op.input[1]).scale
            return self.random.randint(-500, 500, shape).astype(np.int32), (float(x_scale * w_scale), 0)
        y_scale = args["Y_scale"].f if "Y_scale" in args else 1.0
        fan = np.prod(shape) / (shape[-1] if "Transpose" in op.type else shape[0])
        scale = min(SPREAD / (np.sqrt(fan) * EVEN * EVEN), 0.5) * y_scale / x_scale
        return self.random.randint(0, 256, shape).astype(np.uint8), (float(np.float32(scale)), 128)


def readers(net: Any) -> Dict[str, List[Any]]:
    """The operators that read each blob."""
    found = {}  # type: Dict[str, List[Any]]
    for op in net.op:
        for name in op.input:
            found.setdefault(name, []).append(op)
    return found


def shape_of(name: str) -> Shape:
    """The shape of a blob that exists."""
    try:
        value = workspace.FetchBlob(name)
    except Exception:  # noqa: BLE001 - Caffe2 says in no other way that a blob is no plain tensor
        value = None
    if not isinstance(value, np.ndarray):
        value = workspace.FetchInt8Blob(name).data
    return tuple(value.shape)


def channels_of(shape: Shape, args: Dict[str, Any]) -> int:
    """The channels of an image, or the columns of a matrix."""
    if len(shape) < 2:
        return shape[0]
    return shape[-1 if text(args, "order") == "NHWC" else 1]


def number(args: Dict[str, Any], name: str, default: int) -> int:
    """An integer argument."""
    return args[name].i if name in args else default


def text(args: Dict[str, Any], name: str) -> str:
    """A string argument, empty where it is not given."""
    return args[name].s.decode() if name in args else ""


def kernel_of(args: Dict[str, Any]) -> List[int]:
    """The window of a convolution, in any of its spellings."""
    if "kernels" in args:
        return list(args["kernels"].ints)
    if "kernel_h" in args:
        return [args["kernel_h"].i, args["kernel_w"].i]
    return [args["kernel"].i] * 2


def main(request_path: str, response_path: str) -> None:
    """Answer one request."""
    with np.load(request_path, allow_pickle=False) as archive:
        request = dict(archive)
    meta = json.loads(request["meta"].tobytes().decode())
    net = on_cpu(request["net"].tobytes())
    given = {name[3:]: array for name, array in request.items() if name.startswith("in/")}
    workspace.ResetWorkspace()
    error = ""
    inventor = Inventor(meta, given)
    try:
        inventor.run(list(net.op), readers(net))
    except Exception as caught:  # noqa: BLE001 - whatever Caffe2 throws is its answer
        error = str(caught)
    arrays = {"in/" + name: array for name, array in inventor.made.items()}
    answer = {"inputs": list(inventor.made), "int8": inventor.int8, "missing": inventor.missing, "error": error}
    arrays["meta"] = np.frombuffer(json.dumps(answer).encode(), dtype=np.uint8)
    np.savez(response_path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
