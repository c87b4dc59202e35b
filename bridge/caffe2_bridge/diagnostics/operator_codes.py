"""Diagnostic codes of the conversion of single operators, in both directions."""

from __future__ import annotations

from typing import Final

from caffe2_bridge.diagnostics.code import DiagnosticCode, Severity

OPERATOR_CODES: Final = (
    DiagnosticCode(
        code="dtype",
        summary="Caffe2 does not have the operator, or tensors at all, for an element type of the ONNX model.",
        cause="Caffe2 has fewer element types than ONNX, and most of its operators compute in float only.",
        example="graph[5] Cos: error: 'x' is double, and Caffe2 computes Cos of float only [dtype] (carry it as "
        "an ONNX "
        "operator, which only this project's runtime runs: --foreign carry, or foreign='carry')",
        cure="Export the model with another element type, or carry the operator as an ONNX operator: "
        "`--foreign carry`, or `to_netdef(model, foreign='carry')`.",
    ),
    DiagnosticCode(
        code="extra-output",
        summary="An operator lists more outputs than it has, or than the target's operator has.",
        cause="The net was written for another version of the operator, or an optional output has no equivalent.",
        example="predict[2] Relu: error: the operator lists 2 outputs, but it has 1 [extra-output] "
        "(remove the outputs that it does not have)",
        cure="Remove the output from the operator, if nothing reads it.",
    ),
    DiagnosticCode(
        code="in-place",
        summary="An operator writes over an input, and Caffe2's schema does not allow it.",
        cause="An input and an output are one blob. Most operators read their inputs after they have begun to write, "
        "so that Caffe2's schemas allow it for few pairs of operands. Real Caffe2 refuses to create the operator.",
        example="predict[4] Softmax: error: Softmax reads 'scores' and writes it in place, which its schema in Caffe2 "
        "does not allow [in-place] (give the output a name of its own)",
        cure="Give the output a name of its own, and rename it in the operators that read the result.",
    ),
    DiagnosticCode(
        code="large-constant",
        summary="The conversion of an operator would store a very large constant.",
        cause="A size among the operator's arguments or operands is damaged, or larger than expected: constants that "
        "conversions compute are bounded, so that a small model does not fill the memory.",
        example="predict[0] AddPadding: error: a constant of 1,099,511,627,776 elements has 8,796,093,022,208 bytes; "
        "1,073,741,824 are allowed [large-constant] (raise the limit: --limit constant_bytes=8796093022208, or with "
        "caffe2_bridge.limits(constant_bytes=8796093022208))",
        cure="Check the sizes. If they are right, raise the limit: `--limit constant_bytes=16g`, or "
        "`with caffe2_bridge.limits(constant_bytes=16 << 30)`.",
    ),
    DiagnosticCode(
        code="invalid-argument",
        summary="An argument (Caffe2) or attribute (ONNX) has a value that the operator does not accept.",
        cause="The value is out of range, of another type, missing, or contradicts another argument.",
        example="predict[3] Concat: error: axis 4 is out of range for rank 3 [invalid-argument]",
        cure="Correct the argument in the net; the reason names it and the values that are accepted.",
    ),
    DiagnosticCode(
        code="invalid-operands",
        summary="The types or shapes of the operands do not go together.",
        cause="Real Caffe2, or ONNX's shape inference, rejects the operator with these operands; often the shape that "
        "was given for an input is wrong.",
        example="predict[0] FC: error: the weight has rank 1, not 2 [invalid-operands]",
        cure="Correct the shapes: `--input 'data=float32[N,3,224,224]'`, or "
        "`inputs={'data': ('float32', ['N', 3, 224, 224])}`; or correct the net.",
    ),
    DiagnosticCode(
        code="missing-input",
        summary="An operator lists fewer inputs than it needs.",
        cause="A required input is not listed, or has an empty name.",
        example="predict[6] FC: error: input 2 is missing: the operator lists 2 [missing-input]",
        cure="Add the input to the operator.",
    ),
    DiagnosticCode(
        code="needs-constant",
        summary="Caffe2 takes as an argument what the ONNX model computes at run time.",
        cause="An operand such as a list of axes or sizes is neither an initializer nor determined by known shapes.",
        example="graph[9] Tile: error: the number of repeats is computed at run time, and Caffe2 takes it as an "
        "argument [needs-constant] (carry it as an ONNX operator, which only this project's runtime runs: "
        "--foreign carry, or foreign='carry')",
        cure="Export the model with static shapes, or carry the operator: `--foreign carry`, or "
        "`to_netdef(model, foreign='carry')`.",
    ),
    DiagnosticCode(
        code="needs-quantization",
        summary="The scale and zero point of an Int8 tensor are unknown.",
        cause="An Int8 operator reads a blob that no Int8 operator writes, such as an input of the net.",
        example="predict[0] Int8Relu: error: the scale and zero point of 'x' are unknown [needs-quantization]",
        cure="Describe the input with its scale and zero point: `inputs={'x': ('uint8', ['N', 3], (0.05, 128))}`; or "
        "let an Int8 operator (Int8Quantize, Int8GivenTensorFill) write the blob. On the command line: "
        "`--input 'x=uint8[N,3]@0.05,128'`.",
    ),
    DiagnosticCode(
        code="needs-shape",
        summary="The element type, the rank or a dim of a value must be known, and is not.",
        cause="The conversion depends on it, and neither the caller nor the operators that read the net's inputs "
        "determine it.",
        example="predict: error: the rank of input 'data' is unknown [needs-shape] (describe it, such "
        "as --input 'data=float32[N,D]', or inputs={'data': ('float32', ['N', 'D'])}; a dim is an integer, a name, or "
        "'?' (None in Python))",
        cure="Describe the inputs: `--input 'data=float32[N,3,224,224]'`, or "
        "`inputs={'data': ('float32', ['N', 3, 224, 224])}`. A dim is an integer, a name (symbolic) or `?` (None in "
        "Python).",
    ),
    DiagnosticCode(
        code="no-tensor",
        summary="An operator reads a blob that is not a tensor that it can read.",
        cause="The blob holds a counter, a map, a list of tensors or a packed matrix, or is an Int8 tensor where a "
        "plain one is needed.",
        example="predict[8] Relu: error: input 0 ('queue') is not a tensor that this operator can read [no-tensor]",
        cure="Remove the operator from the part of the net that is converted: choose outputs before it with "
        "`--output NAME`, or `outputs=[NAME]`.",
    ),
    DiagnosticCode(
        code="plugin",
        summary="A converter or importer that the user's own code registered failed.",
        cause="The function raised an exception, or returned something else than the values of the outputs.",
        example="predict[2] ScaledShift: error: my_operators.scaled_shift failed in line 7: KeyError: 'gain' [plugin] "
        "(--debug shows the traceback)",
        cure="Correct the function, whose name and line the reason gives.",
    ),
    DiagnosticCode(
        code="target-lacks",
        summary="The runtime that the model is exported for does not have an operator or an element type.",
        cause="The export has a table of each runtime. Operators with bodies, strings and float64 are what runtimes "
        "lack most often.",
        example="control_while: error: opencv does not take Loop (of control_while[2] While): its importer does not "
        "read operators with bodies as they are exported [target-lacks] (leave out --for, or target=, "
        "to export for onnxruntime)",
        cure="Choose another runtime with `--for RUNTIME`, or `target='RUNTIME'`, or outputs before the operator.",
    ),
    DiagnosticCode(
        code="note",
        severity=Severity.NOTE,
        summary="The conversion made a choice that the user may want to know.",
        cause="Several equivalent forms exist, for example LSTM, Scan or Loop for a recurrent net.",
        example="predict[12] RecurrentNetwork: note: the net becomes a Scan, because no LSTM, GRU or RNN operator "
        "computes it: the step net has 3 states [note]",
        cure="Nothing needs to be done. The form can be chosen: `--recurrent fused|scan|loop|portable`, or "
        "`recurrent='scan'`.",
    ),
    DiagnosticCode(
        code="not-in-place",
        summary="An operator must update one of its inputs, and lists another blob as the output.",
        cause="Caffe2's schema of the operator requires that an input and an output are one blob, as operators that "
        "update tables, counters and running statistics do. Real Caffe2 refuses to create the operator.",
        example="predict[7] ScatterAssign: error: ScatterAssign updates 'table', but lists 'new_table' as the output "
        "that it writes in place of it [not-in-place] (list 'table' as the output)",
        cure="List the input as the output; a Copy before the operator keeps the old value.",
    ),
    DiagnosticCode(
        code="shared-memory",
        summary="An operator writes a blob whose memory another blob shares, which is read later.",
        cause="In Caffe2 the results of Alias, UnsafeCoalesce and RecurrentNetwork (all rows of a state, and the last "
        "ones) are views of memory that other blobs have too, so that a write to one changes the others. The values "
        "of an ONNX graph do not change.",
        example="predict[3] Tanh: error: Tanh writes 'hidden_all', with which 'hidden_last', which is read later, "
        "shares its memory [shared-memory] (give the output a name of its own)",
        cure="Give the output a name of its own, if the change of the other blob was not meant; otherwise read the "
        "other blob anew after the write, for example with Slice.",
    ),
    DiagnosticCode(
        code="operand-count",
        summary="Caffe2's schema refuses the number of inputs and outputs of an operator.",
        cause="The operator lists operands that it does not have, or leaves out an output that it always writes, or "
        "the two numbers do not go together. Real Caffe2 refuses to create the operator.",
        example="predict[2] Relu: error: the operator lists 2 inputs, but Relu reads 1 [operand-count] "
        "(give Relu the operands that Caffe2 documents for it)",
        cure="Correct the operands; the reason gives the numbers that the operator accepts.",
    ),
    DiagnosticCode(
        code="refused-body",
        summary="A body of a control-flow operator cannot be converted.",
        cause="Operators of the body cannot be converted. They are reported themselves, so that this code reaches the "
        "user only from converters that are called alone.",
        example="predict[2] While: error: a body cannot be converted [refused-body]",
        cure="Cure the diagnostics of the body.",
    ),
    DiagnosticCode(
        code="ignored-argument",
        severity=Severity.NOTE,
        summary="A Caffe2 operator has an argument that real Caffe2 does not read.",
        cause="The argument is misspelled, or belongs to another operator. Real Caffe2 ignores it, and so does the "
        "conversion. Reported once for each operator type and argument.",
        example="predict[1] Softmax: note: Caffe2's Softmax does not read argument 'axes', so it is ignored "
        "[ignored-argument]",
        cure="Nothing has to be done. Correct the name if the argument was meant to have an effect.",
    ),
    DiagnosticCode(
        code="unknown-argument",
        summary="A Caffe2 operator has an argument that its conversion does not support.",
        cause="Real Caffe2 reads the argument, or is not known to ignore it, and the conversion does not: the result "
        "could differ.",
        example="predict[1] Int8Add: error: the conversion of Int8Add does not support argument 'axis' "
        "[unknown-argument] (remove the argument if the model does not need it)",
        cure="Remove the argument if the model does not need it.",
    ),
    DiagnosticCode(
        code="unknown-attribute",
        summary="An ONNX node has an attribute whose meaning the import does not know.",
        cause="The attribute belongs to a later opset, is misspelled, or cannot be expressed in Caffe2.",
        example="graph[4] Gelu: error: Gelu has no attribute 'speed' [unknown-attribute] (carry it as an ONNX "
        "operator, which "
        "only this project's runtime runs: --foreign carry, or foreign='carry')",
        cure="Carry the operator as an ONNX operator: `--foreign carry`, or `to_netdef(model, foreign='carry')`.",
    ),
    DiagnosticCode(
        code="unknown-operator",
        summary="The operator type has no conversion.",
        cause="ONNX operators cannot compute it (queues, databases, counters, gradients), Caffe2 has no equivalent "
        "(import), or the type is misspelled. `caffe2-bridge ops` lists the operators that convert.",
        example="predict[0] CreateDB: error: operator 'CreateDB' has no conversion: it reads or writes a database, a "
        "file or a stream [unknown-operator] (choose outputs that do not need it: --output prob, or outputs=['prob'])",
        cure="Export: choose outputs before the operator with `--output NAME`, or `outputs=[NAME]`. Import: carry it "
        "as an ONNX operator with `--foreign carry`, or `to_netdef(model, foreign='carry')`.",
    ),
    DiagnosticCode(
        code="unsupported",
        summary="The operator converts, but not in this configuration.",
        cause="This combination of arguments, types or shapes cannot be expressed in the target format, or no kernel "
        "computes it as the source does.",
        example="graph[7] Resize: error: Caffe2 resizes by nearest or linear interpolation only [unsupported]",
        cure="Change what the reason names. Import: carry the operator as an ONNX operator with `--foreign carry`, or "
        "`to_netdef(model, foreign='carry')`.",
    ),
)
