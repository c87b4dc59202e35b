"""Print the schema of every operator of real Caffe2, and the arguments that its implementation reads, as JSON.

usage: LD_PRELOAD=trace.so ORACLE_PYTHON collect.py KNOWN.json CORPUS...

What a run sees is a lower bound: the arguments that KNOWN.json, an earlier result, has seen are kept.

Each operator is constructed alone, then run on every recorded case of its type, then constructed with each argument
that it was seen to read, since some arguments are read only where another is given, until nothing new is read. All of
that happens in child processes, because operators that are constructed carelessly end the process.
"""
# The interpreter that runs this has Caffe2, and is older.
# mypy: ignore-errors

import collections
import ctypes
import glob
import json
import os
import resource
import sys
import tempfile

import numpy as np

TRACER = ctypes.CDLL(None)

import torch
from caffe2.proto import caffe2_pb2
from caffe2.python import core, dyndep, workspace

core.GlobalInit(["collect", "--caffe2_log_level=4"])
# Detectron's operators, in a library that programs load.
for path in glob.glob(os.path.join(os.path.dirname(torch.__file__), "lib", "libcaffe2_detectron_ops*.so")):
    dyndep.InitOpsLibrary(path)

FOLDER = tempfile.mkdtemp()
LOG, DONE = os.path.join(FOLDER, "read"), os.path.join(FOLDER, "done")
CPU_SECONDS = 30
INTEGERS = {"int", "long", "unsigned long"}
MANY = 12  # operands tried of operators that take any number

# Operators with bodies read their arguments through inner operators too, and some only while a net runs: traced apart,
# by hand, on nets of Caffe2's own helpers.
CONTROL = {
    "RecurrentNetwork": (
        "alias_dst alias_offset alias_src backward_step_net enable_rnn_executor initial_recurrent_state_ids "
        "link_external link_internal link_offset link_window num_workspaces offset recompute_blobs_on_backward "
        "recurrent_states rnn_executor.num_threads rnn_executor.max_cuda_streams rnn_executor_debug step_net timestep "
        "window"
    ).split(),
    "If": ["else_net", "then_net"],
    "While": ["cond_net", "loop_net"],
    "Do": ["copy_external_blobs", "inner_blobs", "net", "outer_blobs_idx", "reuse_workspace", "saved_fwd_blobs"],
}
CONTROL["AsyncIf"] = CONTROL["If"]
WITH_BODIES = {*CONTROL, "ONNXWhile", "RecurrentNetworkGradient"}


def in_child(work):
    """Run ``work`` in a child process that may crash, logging which arguments are read."""
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        TRACER.argtrace_open(LOG.encode())
        try:
            work(open(DONE, "a", buffering=1))
        except Exception:
            pass
        TRACER.argtrace_set(b"")
        os._exit(0)
    os.waitpid(pid, 0)


def recorded_cases(path):
    """Yield the nets of one file of the corpus, each with its inputs."""
    with np.load(path) as file:
        for number, meta in enumerate(json.loads(bytes(file["meta"]))):
            prefix, texts, feeds = "%03d/" % number, meta.get("strings", {}), {}
            for name in meta["inputs"]:
                key = "in/" + name
                if key in texts:
                    shape, values = texts[key]
                    feeds[name] = np.array([text.encode("latin-1") for text in values], object).reshape(shape)
                elif prefix + key in file.files:
                    feeds[name] = file[prefix + key]
            net = caffe2_pb2.NetDef()
            data = bytes(file[prefix + "proto"])
            if meta["kind"] == "op":
                net.op.add().ParseFromString(data)
            else:
                net.ParseFromString(data)
            yield net, feeds


def read_so_far():
    """Return, by operator type, the names of arguments, each with the C++ types as which it was read."""
    names = collections.defaultdict(lambda: collections.defaultdict(set))
    if os.path.exists(LOG):
        for line in open(LOG, errors="replace"):
            op_type, _, rest = line.rstrip("\n").partition("\t")
            name, _, kind = rest.partition("\t")
            if name:
                names[op_type][name].update([kind] if kind else [])
    return names


def bounded(largest, smallest):
    """Return a count of operands worth trying."""
    return min(largest, max(smallest + 6, MANY))


def allowed_in_place(op_type, schema, accepts):
    """Return pairs of an input and an output that may, and need not, be one blob."""
    pairs = []
    for i in range(min(schema.max_input, MANY)):
        for o in range(min(schema.max_output, MANY)):
            counts = [
                (inputs, outputs)
                for inputs in range(max(i + 1, schema.min_input), bounded(schema.max_input, schema.min_input) + 1)
                for outputs in range(max(o + 1, schema.min_output), bounded(schema.max_output, schema.min_output) + 1)
                if accepts(inputs, outputs)
            ]
            if counts and not schema.inplace_enforced(i, o) and verifies_in_place(op_type, schema, i, o, *counts[0]):
                pairs.append([i, o])
    return pairs


def verifies_in_place(op_type, schema, i, o, inputs, outputs):
    """Whether the schema accepts an operator that writes output ``o`` over input ``i``."""
    read = [f"i{k}" for k in range(inputs)]
    written = [f"o{k}" for k in range(outputs)]
    for y in range(outputs):
        written[y] = next((read[x] for x in range(inputs) if schema.inplace_enforced(x, y)), written[y])
    if written[o] != f"o{o}":
        return False
    written[o] = read[i]
    op = caffe2_pb2.OperatorDef(type=op_type, input=read, output=written)
    op.device_option.device_type = caffe2_pb2.CUDA  # which is absent: the schema is verified, nothing is constructed
    for arg in schema.args:
        if arg.required:
            op.arg.add(name=arg.name).i = 1
    for name in read:
        workspace.C.create_blob(name)
    try:
        workspace.C.create_net(caffe2_pb2.NetDef(name="in_place", op=[op]).SerializeToString(), True)  # noqa: FBT003 - a native function, positional only
    except Exception as error:
        return "did not pass schema checking" not in str(error)
    return True


def describe(op_type, schema):
    """Return what the schema says by itself."""

    def has(which):
        try:
            return bool(getattr(schema, which)(op_type))
        except Exception:
            return False

    def accepts(inputs, outputs):
        return (
            schema.num_inputs_allowed(inputs)
            and schema.num_outputs_allowed(outputs)
            and schema.num_inputs_outputs_allowed(inputs, outputs)
        )

    most_inputs = bounded(schema.max_input, schema.min_input)
    most_outputs = bounded(schema.max_output, schema.min_output)
    return {
        "inputs": [schema.min_input, schema.max_input],
        "outputs": [schema.min_output, schema.max_output],
        "pairs_refused": [
            [i, o]
            for i in range(schema.min_input, most_inputs + 1)
            for o in range(schema.min_output, most_outputs + 1)
            if not accepts(i, o)
        ],
        "equal_counts": schema.max_output > most_outputs
        and all(schema.CalculateOutput(i) == i for i in range(schema.min_input, most_inputs + 1)),
        "inplace_enforced": [
            [i, o] for i in range(most_inputs) for o in range(most_outputs) if schema.inplace_enforced(i, o)
        ],
        "inplace_allowed": allowed_in_place(op_type, schema, accepts),
        "cpu": has("get_cpu_impl"),
        "required": sorted(arg.name for arg in schema.args if arg.required),
    }


def engines():
    """Return the registered operator types, each with the engine that it needs: empty where it needs none."""
    found = {}
    for name in sorted(workspace.RegisteredOperators()):
        op_type, _, engine = name.partition("_ENGINE_")
        found.setdefault(op_type, engine)
    return found


def construct(op_type, entry, done, inputs=None, argument=None):
    """Construct one operator, with a kernel so that operators with windows get by, and perhaps one argument more."""
    smallest, largest = entry["inputs"]
    count = inputs if inputs is not None else max(smallest, 1 if largest else 0)
    op = caffe2_pb2.OperatorDef(type=op_type, engine=engines()[op_type])
    op.input.extend("i%d" % index for index in range(count))
    smallest, largest = entry["outputs"]
    op.output.extend("o%d" % index for index in range(min(max(smallest, 1 if largest else 0), MANY)))
    if argument is None or not argument[0].startswith("kernel"):
        op.arg.add(name="kernel").i = 2
    if argument is not None:
        name, kind = argument
        added = op.arg.add(name=name)
        if kind == "integer":
            added.i = 1
        elif kind == "integers":
            added.ints.extend([1, 1])
        else:
            added.s = b"NCHW"
    for name in op.input:
        workspace.C.create_blob(name)
    net = caffe2_pb2.NetDef(name="net_%s" % id(op), op=[op], external_input=list(op.input))
    TRACER.argtrace_set(op_type.encode())
    try:
        workspace.C.create_net(net.SerializeToString(), True)  # noqa: FBT003 - the extension takes no keywords
        done.write(op_type + "\n")
    except Exception:
        pass


def trace_construction(table):
    """Construct every operator with its smallest and with a large number of inputs."""
    for op_type, entry in table.items():
        smallest, largest = entry["inputs"]
        counts = sorted({max(smallest, 1 if largest else 0), min(largest, MANY)})
        in_child(lambda done: [construct(op_type, entry, done, inputs=count) for count in counts])


def run_case(net, feeds, done):
    """Run the operators of a recorded case one by one."""
    workspace.ResetWorkspace()
    for name, value in feeds.items():
        workspace.FeedBlob(name, value)
    for op in net.op:
        TRACER.argtrace_set(op.type.encode())
        try:
            workspace.RunOperatorOnce(op)
            done.write(op.type + "\n")
        except Exception:
            pass
        TRACER.argtrace_set(b"")


def trace_runs(corpora):
    """Run every recorded case, except those of operators with bodies."""
    for root in corpora:
        for path in sorted(glob.glob(os.path.join(root, "ops", "*.npz"))):

            def work(done):
                for net, feeds in recorded_cases(path):
                    if not any(op.type in WITH_BODIES for op in net.op):
                        run_case(net, feeds, done)

            in_child(work)


def trace_dependent_arguments(table):
    """Construct operators with each argument that they read, until no new one appears."""
    known = None
    while known != {op_type: len(names) for op_type, names in read_so_far().items()}:
        found = read_so_far()
        known = {op_type: len(names) for op_type, names in found.items()}
        for op_type, names in found.items():
            if op_type not in table:
                continue

            def work(done):
                for name in sorted(names):
                    for kind in ("integer", "integers", "text"):
                        construct(op_type, table[op_type], done, argument=(name, kind))

            in_child(work)


def main(known, corpora):
    """Trace everything and print one operator a line."""
    with open(known) as file:
        before = json.load(file)
    seen = {op_type: entry["arguments_read"] for op_type, entry in before.items()}
    table = {}
    recorded = {
        os.path.basename(path)[:-4] for root in corpora for path in glob.glob(os.path.join(root, "ops", "*.npz"))
    }
    for op_type, engine in sorted(engines().items()):
        if engine and op_type not in recorded:  # only an engine has it, and nothing is known of it
            continue
        schema = workspace.C.OpSchema.get(op_type)
        if schema is not None:
            table[op_type] = describe(op_type, schema)
    trace_construction(table)
    trace_runs(corpora)
    trace_dependent_arguments(table)
    read = read_so_far()
    done = set(open(DONE).read().split("\n")) if os.path.exists(DONE) else set()
    lines = []
    for op_type, described in sorted(table.items()):
        is_traced = op_type in done or bool(read[op_type]) or op_type in CONTROL or seen.get(op_type) is not None
        entry = {key: value for key, value in described.items() if value or key in ("inputs", "outputs")}
        names = {*read[op_type], *CONTROL.get(op_type, ()), *(seen.get(op_type) or ())}
        entry["arguments_read"] = sorted(names) if is_traced else None
        # Of some, what is read depends on other arguments: those that are read as longer integers too are left out.
        narrow = {name for name, kinds in read[op_type].items() if kinds & INTEGERS == {"int"}}
        longer = {name for name, kinds in read[op_type].items() if kinds & INTEGERS - {"int"}}
        int32 = (narrow | set(before.get(op_type, {}).get("int32", ()))) - longer
        if int32:
            entry["int32"] = sorted(int32)
        lines.append("%s: %s" % (json.dumps(op_type), json.dumps(entry)))
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
