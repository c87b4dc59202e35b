"""Runs nets in real Caffe2: caffe2_worker.py MEMORY_MIB FOLDER. Started by validation.runtimes.real_caffe2.

This file runs under the oldest Python that Caffe2 was built for (3.6) and imports nothing of this project.

Requests come on standard input and answers go to standard output, each a frame: two unsigned 64-bit numbers (big
endian), the lengths of the header and of the body; the header, JSON; the body, the values' bytes one after another.
The header's ``values`` lists them: ``{name, dtype, shape, bytes}``, with ``texts`` (latin-1) in the place of dtype and
bytes for string tensors, and ``int8`` ([scale, zero point]) for Int8 tensors. Nothing is pickled.
"""
# ruff: noqa: PTH103, PTH108, PTH120 - paths are bytes, as nets have them
# ruff: noqa: UP006, UP035, UP045 - Python 3.6 knows Dict, List and Optional alone, and no postponed annotations

import json
import os
import shutil
import signal
import struct
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

try:
    import resource
except ImportError:  # Windows: there is no limit of address space
    resource = None  # type: ignore[assignment]

LENGTHS = struct.Struct(">QQ")
MIB = 1 << 20
GPU_ENGINES = ("CUDNN", "MIOPEN")
# Copies between devices, which a CPU does not have.
COLLECTIVES = ("NCCLAllGather", "NCCLAllreduce", "NCCLBroadcast", "NCCLReduce")  # of one GPU they do nothing
COPIES = ("CopyCPUToGPU", "CopyGPUToCPU", "CopyFromCPUInput", "EnsureCPUOutput")

# Arguments of operators that read or write files, which are paths.
PATHS = ("db", "db_name", "dbs", "filename", "path")

# A value is an array, or for an Int8 tensor (array, scale, zero point).
Values = Dict[str, Any]
Frame = Tuple[Dict[str, Any], Values]


def pack(header: Dict[str, Any], values: Values) -> List[Any]:
    """Return the parts of a frame: bytes, or views of them."""
    listed, parts = [], []
    for name, value in values.items():
        array, quantization = (
            (value[0], [float(value[1]), int(value[2])]) if isinstance(value, tuple) else (value, None)
        )
        entry: Dict[str, Any] = {"name": name, "shape": list(array.shape)}
        if array.dtype.kind in "OSU":
            entry["texts"] = [t.decode("latin-1") if isinstance(t, bytes) else str(t) for t in array.ravel().tolist()]
        else:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            plain: Any = np.ascontiguousarray(little).reshape(-1).view(np.uint8)
            data = memoryview(plain)  # not copied: it may be large
            entry["dtype"], entry["bytes"] = little.dtype.str, len(data)
            parts.append(data)
        if quantization is not None:
            entry["int8"] = quantization
        listed.append(entry)
    text = json.dumps(dict(header, values=listed)).encode()
    return [LENGTHS.pack(len(text), sum(map(len, parts))), text, *parts]


def read_frame(read: Callable[[int], bytes]) -> Optional[Frame]:
    """Return the next frame; None at the end. ``read`` gives exactly so many bytes, or fewer at the end."""
    start = read(LENGTHS.size)
    if len(start) < LENGTHS.size:
        return None
    length, size = LENGTHS.unpack(start)
    header = json.loads(read(length).decode())
    body = read(size)
    values, offset = {}, 0
    for entry in header.pop("values"):
        if "texts" in entry:
            array = np.empty(len(entry["texts"]), dtype=object)
            array[:] = entry["texts"]
        else:
            count = int(np.prod(entry["shape"], dtype=np.int64))
            array = np.frombuffer(body, np.dtype(entry["dtype"]), count, offset)
            offset += entry["bytes"]
        array = array.reshape(entry["shape"])
        values[entry["name"]] = tuple([array] + entry["int8"]) if "int8" in entry else array
    return header, values


class Server:
    """The models that were loaded, and what runs them."""

    def __init__(self) -> None:
        from caffe2.proto import caffe2_pb2  # type: ignore[import-not-found] # Caffe2's own
        from caffe2.python import core, workspace  # type: ignore[import-not-found] # the same

        self.proto, self.core, self.workspace = caffe2_pb2, core, workspace
        self.models: Dict[str, Tuple[bytes, Any, List[bytes], Values]] = {}

    def answer(self, header: Dict[str, Any], values: Values) -> Frame:
        """Forget the models that a request lists, and do what it asks for."""
        for key in header["forget"]:
            self.models.pop(key, None)
        if header["do"] == "about":
            return self.about(), {}
        if header["do"] == "load":
            init, net = (self.parse(values[name].tobytes()) for name in ("init", "net"))
            folders = sorted({folder for each in (init, net) for folder in isolate(each)})
            self.models[header["key"]] = (init.SerializeToString() if init.op else b"", net, folders, {})
            return {}, {}
        if header["do"] == "fill":
            self.models[header["key"]][3].update(values)
            return {}, {}
        return self.run(header["key"], values, header["outputs"])

    def about(self) -> Dict[str, Any]:
        """Return versions."""
        try:
            import torch

            version = str(torch.__version__)
        except ImportError:
            version = "before torch"
        return {"versions": {"caffe2 of torch": version, "caffe2's python": sys.version.split()[0]}}

    def run(self, key: str, inputs: Values, wanted: Optional[List[str]]) -> Frame:
        """Run a model in an empty workspace: parameters that were sent, the init net, the inputs, then the net."""
        init, net, folders, parameters = self.models[key]
        self.workspace.ResetWorkspace()
        clear_folder()
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
        for name, value in parameters.items():
            self.feed(name, value)
        if init:
            self.workspace.C.run_net_once(init)
        for name, value in inputs.items():
            self.feed(name, value)
        self.workspace.C.run_net_once(net.SerializeToString())
        names = wanted
        if names is None:
            names = list(dict.fromkeys(name for op in net.op for name in op.output if name))
        values, opaque = {}, []
        for name in names:
            value = self.fetch(name)
            if value is None:
                opaque.append(name)
            else:
                values[name] = value
        self.workspace.ResetWorkspace()
        return {"opaque": opaque}, values

    def feed(self, name: str, value: Any) -> None:
        """Put one input into the workspace: an array, a string tensor, or an Int8 tensor."""
        if isinstance(value, tuple):
            array, scale, zero_point = value
            whole = array.dtype == np.int32
            kind = "Int8GivenIntTensorFill" if whole else "Int8GivenTensorFill"
            values = array.ravel().tolist() if whole else array.tobytes()
            shape = list(array.shape)
            self.workspace.RunOperatorOnce(
                self.core.CreateOperator(
                    kind, [], [name], shape=shape, values=values, Y_scale=scale, Y_zero_point=zero_point
                )
            )
        elif value.dtype == object:
            texts = np.empty(value.size, dtype=object)
            texts[:] = [text.encode("latin-1") for text in value.ravel()]
            self.workspace.FeedBlob(name, texts.reshape(value.shape))
        else:
            self.workspace.FeedBlob(name, value)

    def fetch(self, name: str) -> Any:
        """Return the value of a blob; None if it is not a tensor."""
        try:
            value = self.workspace.FetchBlob(name)
        except Exception:  # noqa: BLE001 - Caffe2's only way to report that a blob is not a tensor
            value = None
        if isinstance(value, np.ndarray):
            return value
        try:
            quantized = self.workspace.FetchInt8Blob(name)
        except Exception:  # noqa: BLE001 - nor an Int8 tensor
            return None
        return quantized.data, quantized.scale, quantized.zero_point

    def parse(self, data: bytes) -> Any:
        """Return the net with every operator on the CPU, in bodies too."""
        net = self.proto.NetDef()
        net.ParseFromString(data)
        self.clear(net)
        return net

    def clear(self, net: Any) -> None:
        """Take the devices off a net, and what only devices have."""
        net.ClearField("device_option")
        for index in reversed(range(len(net.op))):
            if net.op[index].type in COLLECTIVES and len(net.op[index].input) == 1:
                del net.op[index]
        for op in net.op:
            op.ClearField("device_option")
            if op.engine in GPU_ENGINES:
                op.ClearField("engine")
            if op.type in COPIES:
                op.type = "Copy"
            for arg in op.arg:
                for body in list(arg.nets) + ([arg.n] if arg.HasField("n") else []):
                    self.clear(body)


def isolate(net: Any) -> List[bytes]:
    """Move the paths of a net into the current folder, and return the folders that they need. Print writes no file."""
    folders = []
    for op in net.op:
        for index in reversed(range(len(op.arg))):
            arg = op.arg[index]
            if arg.name in PATHS:
                if arg.s:
                    arg.s = isolated(arg.s)
                arg.strings[:] = [isolated(path) for path in arg.strings]
                folders += [os.path.dirname(path) for path in (arg.s, *arg.strings)]
            elif arg.name == "to_file":
                del op.arg[index]
        for arg in op.arg:
            for body in list(arg.nets) + ([arg.n] if arg.HasField("n") else []):
                folders += isolate(body)
    return [folder for folder in folders if folder]


def isolated(path: bytes) -> bytes:
    """Return where a path lies in the current folder: ``/home/user/a`` and ``../home/user/a`` at ``home/user/a``."""
    return os.path.normpath(b"/" + path).lstrip(b"/")


def clear_folder() -> None:
    """Remove what nets have written into the current folder."""
    for entry in os.scandir("."):
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


def hard_limit() -> Optional[int]:
    """Return the bytes of address space that this process and its children cannot exceed; None for no limit."""
    if resource is None:
        return None
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def limit_memory(wanted: int) -> None:
    """Limit the address space, unless the process has a lower limit already: a hard limit cannot be raised."""
    hard = hard_limit()
    if wanted and (hard is None or wanted < hard):
        resource.setrlimit(resource.RLIMIT_AS, (wanted, wanted))


def main(memory: int, folder: str) -> None:
    """Answer requests until there are no more. Paths of nets lie in ``folder``, which is made for this process."""
    os.chdir(folder)
    # What Caffe2 itself prints must not fall between the frames.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    limit_memory(memory * MIB)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks, and ends this one
    server = Server()
    while True:
        frame = read_frame(sys.stdin.buffer.read)
        if frame is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        try:
            header, values = server.answer(*frame)
        except Exception as error:  # noqa: BLE001 - whatever Caffe2 throws is its answer
            header, values = {"error": str(error) or type(error).__name__}, {}
        for part in pack(header, values):
            out.write(part)
        out.flush()


if __name__ == "__main__":
    del sys.path[0]  # this file's folder, whose other modules are for another version of Python
    main(int(sys.argv[1]), sys.argv[2])
