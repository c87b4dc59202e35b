"""What other tools find to remove from the exports of the golden models and nets: onnxslim, onnxsim where installed.

usage: scripts/bench slim [--kinds model,net,op] [--list]

Exports the first recorded case of each group, knowing element types and ranks, and counts the nodes, those of bodies
included, before and after each tool. Prints the share that it removes, and the types of nodes that it removes most;
with ``--list`` also the cases. The tools are no dependencies of the project: ``pip install onnxslim`` adds one.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from typing import Final

import onnx
from conformance.check import convert_case
from conformance.corpus import find_cases, read_case
from support.paths import GOLDEN

from caffe2_bridge import ConversionError
from caffe2_frontend.interop.bodies import proto_nodes

Tool = Callable[[onnx.ModelProto], onnx.ModelProto]


def _onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    slimmed: onnx.ModelProto = importlib.import_module("onnxslim").slim(model)
    return slimmed


def _onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    simplified: onnx.ModelProto = importlib.import_module("onnxsim").simplify(model)[0]
    return simplified


TOOLS: Final[dict[str, Tool]] = {"onnxslim": _onnxslim, "onnxsim": _onnxsim}


def main() -> None:
    """Export, slim, count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kinds", default="model,net", help="of model, net, op (default: model,net)")
    parser.add_argument("--list", action="store_true", help="print the cases of which something is removed")
    options = parser.parse_args()
    tools = {name: tool for name, tool in TOOLS.items() if importlib.util.find_spec(name)}
    if not tools:
        sys.exit(f"none of {', '.join(TOOLS)} is installed")
    before: Counter[str] = Counter()
    after = {name: Counter[str]() for name in tools}
    exports = {ref.group: ref for ref in reversed(find_cases(GOLDEN)) if ref.kind in options.kinds.split(",")}
    for group, ref in sorted(exports.items()):
        try:
            model = convert_case(read_case(ref), "auto", with_sizes=False)
        except ConversionError:
            continue
        types = _types(model)
        before += types
        for name, tool in tools.items():
            try:
                left = _types(tool(model))
            except Exception as error:  # noqa: BLE001 - a fault of the tool
                print(f"{name} fails on {group}: {str(error).splitlines()[:1]}", flush=True)
                left = types
            after[name] += left
            if options.list and left.total() < types.total():
                removed = ", ".join(f"{kind} {count}" for kind, count in (types - left).most_common())
                print(f"{name} {group}: {types.total()} -> {left.total()}: {removed}", flush=True)
    for name, left in after.items():
        share = 1 - left.total() / before.total()
        removed = ", ".join(f"{kind} {count}" for kind, count in (before - left).most_common(8))
        print(f"{name}: {before.total()} -> {left.total()} nodes in {len(exports)} models, {share:.1%}: {removed}")


def _types(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in proto_nodes(model.graph))


if __name__ == "__main__":
    main()
