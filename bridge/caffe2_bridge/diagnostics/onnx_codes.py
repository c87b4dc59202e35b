"""Diagnostic codes of ONNX models."""

from __future__ import annotations

from typing import Final

from caffe2_bridge.diagnostics.code import DiagnosticCode, Severity

ONNX_CODES: Final = (
    DiagnosticCode(
        code="cyclic-graph",
        summary="A node of the ONNX model depends on its own outputs.",
        cause="The graph has a cycle, so that no order of its nodes computes it.",
        example="graph[2] Add: error: the node depends on its own outputs [cyclic-graph]",
        cure="Export the model again; express a loop as a Loop or Scan operator.",
    ),
    DiagnosticCode(
        code="duplicate-value",
        summary="Two values or functions of the ONNX model have the same name.",
        cause="ONNX requires that each name is defined once in a graph (SSA form).",
        example="graph[3] Relu: error: output 'y' is already defined [duplicate-value]",
        cure="Rename one of the values.",
    ),
    DiagnosticCode(
        code="expansion",
        summary="The functions of the ONNX model, or the steps of the plan, expand to too many operators.",
        cause="Functions call each other several times at every level, so that the model grows exponentially when they "
        "are inlined; or steps of a plan run the same nets very often.",
        example="g: error: the model's functions expand to 2,097,150 nodes, from 42; 20,000 are allowed [expansion] "
        "(raise the limit: --limit function_nodes=2097150, or with caffe2_bridge.limits(function_nodes=2097150))",
        cure="Export the model without functions, or with a Loop in place of repeated calls. Or raise the limit: "
        "`--limit function_nodes=NUMBER`, `--limit plan_operators=NUMBER`.",
    ),
    DiagnosticCode(
        code="external-data",
        summary="The values of a tensor are in a file that is missing, too short, or outside of the model's folder.",
        cause="The model was copied without its data files, or the file names a location that must not be read.",
        example="graph: error: external data of initializer 'w': file 'weights.bin' cannot be read: No such file or "
        "directory [external-data]",
        cure="Copy the data files into the model's folder. Give a model in memory its folder: "
        "`to_netdef(model, base_dir=FOLDER)`.",
    ),
    DiagnosticCode(
        code="float16-range",
        summary="Weights have numbers beyond the range of float16.",
        cause="The model is exported in half precision, and weights have finite numbers above 65504 or, other than 0, "
        "below 6e-8. Those become the nearest number in the range, with their sign.",
        example="net: warning: 2 numbers of 'w' beyond the range of float16 (5.96e-08 to 65504) become the nearest "
        "number in it [float16-range]",
        cure="Compare the results, whose largest difference `caffe2-bridge export --fp16` prints. If it is too large, "
        "scale the weights in the net, or export without `--fp16`.",
        severity=Severity.WARNING,
    ),
    DiagnosticCode(
        code="malformed-model",
        summary="The protobuf of the ONNX model contradicts the ONNX format.",
        cause="An attribute has no type, an element type is unknown, a dim is negative, or a name is missing or not "
        "UTF-8.",
        example="graph: error: initializer 'w' has a negative dim: [3, -1] [malformed-model]",
        cure="Export the model again. `onnx.checker.check_model` reports the same fault.",
    ),
    DiagnosticCode(
        code="nesting",
        summary="Bodies or functions of the ONNX model are nested too deeply, or call themselves.",
        cause="ONNX forbids recursive functions; the import limits the depth of nested bodies.",
        example="graph[0] If: error: bodies must not be nested deeper than 32 [nesting]",
        cure="Replace the recursion by a Loop.",
    ),
    DiagnosticCode(
        code="no-values",
        summary="An initializer of the ONNX model has no values.",
        cause="The model was written without weights, for example by a tool that strips them.",
        example="graph: error: initializer 'w' has no values [no-values] (save the model with its weights)",
        cure="Save the model with its weights.",
    ),
    DiagnosticCode(
        code="opset",
        summary="The opset cannot express the model.",
        cause="An operator of the model does not exist in the opset, or has an attribute, an element type or operand "
        "computed at run time that came later, and no combination of earlier operators replaces it.",
        example="net: error: the model cannot be converted from opset 20 to 9: Unique ('y'): the operator came with "
        "opset 11 [opset] (choose a later opset: --opset 20, or opset=20)",
        cure="Export: choose an opset nearer to the default with `--opset N`, or `opset=N`. Import: export the model "
        "with a later opset, or carry its operators with `--foreign carry`, or `to_netdef(model, foreign='carry')`.",
    ),
    DiagnosticCode(
        code="sparse-tensor",
        summary="The ONNX model has a sparse tensor.",
        cause="Neither Caffe2 nor the import's passes have sparse tensors.",
        example="graph: error: initializer 'w' must not be sparse [sparse-tensor] (store it as a dense tensor)",
        cure="Store the tensor as a dense tensor.",
    ),
    DiagnosticCode(
        code="too-large",
        summary="The weights are larger than an ONNX model in memory can be.",
        cause="Protobuf limits a message to 2 GB, weights included. Fills of a few bytes may ask for more.",
        example="net: error: the weights have 4,000,000,000 bytes, and a ModelProto holds at most 2,000,000,000 "
        "[too-large] (write them to a file of their own: caffe2-bridge export, or save_onnx(convert(...), path))",
        cure="Write them to a file of their own: `caffe2-bridge export` does, and in Python "
        "`save_onnx(convert(net), path)`. Check the shapes of the init net's fills.",
    ),
    DiagnosticCode(
        code="undefined-value",
        summary="A node or output of the ONNX model reads a value that is not defined.",
        cause="No node, input or initializer that is visible there has the name.",
        example="graph[1] Relu: error: input 'x' is not defined [undefined-value]",
        cure="Export the model again, or correct the name.",
    ),
    DiagnosticCode(
        code="unsorted-graph",
        summary="A node of an onnx_ir model comes before the node whose output it reads.",
        cause="The model was edited in memory, and its nodes are not in topological order.",
        example="graph[0] Relu: error: input 'x' is made later [unsorted-graph] (call sort() of the graph)",
        cure="Sort the graph: `model.graph.sort()`.",
    ),
)
