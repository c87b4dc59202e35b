"""Diagnostic codes of Caffe2 nets, init nets and plans."""

from __future__ import annotations

from typing import Final

from caffe2_bridge.diagnostics.code import DiagnosticCode, Severity

NET_CODES: Final = (
    DiagnosticCode(
        code="bad-fill",
        summary="A fill of the init net is invalid, so its parameter has no value.",
        cause="The arguments of the fill contradict each other or the operator: too few values for the shape, an "
        "element type that the fill does not have, a negative dim.",
        example="init[3] GivenTensorFill: error: the shape [2, 4] needs 8 values, but 'values' holds 6 floats "
        "[bad-fill]",
        cure="Correct the fill, or save the parameters again from a workspace that has them.",
    ),
    DiagnosticCode(
        code="cut-reader",
        severity=Severity.NOTE,
        summary="The batches that the net reads from a database or a queue become inputs of the net.",
        cause="Training and test nets read their examples themselves (`CreateDB` in the init net, "
        "`TensorProtosDBInput` or `ImageInput` in the net). An ONNX model cannot read a database; it computes the same "
        "from batches that are fed.",
        example="mnist_test[0] TensorProtosDBInput: note: the batches that TensorProtosDBInput reads from 'reader' "
        "become inputs of the net: 'data', 'label' [cut-reader] (feed them)",
        cure="Feed the inputs. Where a type or a shape is not inferred from use, describe it: "
        "`--input 'data=uint8[N,1,28,28]'`, or `inputs={'data': ('uint8', ('N', 1, 28, 28))}`.",
    ),
    DiagnosticCode(
        code="database-read",
        severity=Severity.NOTE,
        summary="Parameters are read from a database that the init net names.",
        cause="The init net has a `Load` operator, and the database is in the folder of the net, or in the one given "
        "with `--databases`. Only the last parts of the stated path count, since it is one of the machine that wrote "
        "the net.",
        example="init[0] Load: note: 8 blobs are read from weights.minidb, in the folder models/lenet [database-read]",
        cure="Nothing needs to be done. To read another database, give its folder: `--databases DIR`, or "
        "`load(path, databases=DIR)`.",
    ),
    DiagnosticCode(
        code="duplicate-output",
        summary="An operator lists the same output more than once.",
        cause="Caffe2 would keep only the value that the operator writes last, and which one that is, is not defined.",
        example="predict[4] Split: error: the operator lists output 'half' 2 times [duplicate-output] "
        "(give each output a name of its own)",
        cure="Give each output of the operator a name of its own.",
    ),
    DiagnosticCode(
        code="illegal-graph-edit",
        summary="A function of the graph toolkit would change what the net computes.",
        cause="A rename makes an operator read another value, or separates names that a body or a gradient operator "
        "derives from one another.",
        example="predict_net[2] If: error: a body of this operator already uses the name 'y' [illegal-graph-edit] "
        "(use another name)",
        cure="Choose another name, or rename at the producer (`from_producer=True`) so that all readers follow.",
    ),
    DiagnosticCode(
        code="internal-error",
        summary="The code of caffe2-bridge is at fault.",
        cause="An exception that no one expected ended the conversion of an operator, a pass, or a command. Other "
        "operators are checked still.",
        example="predict[3] Split: error: internal error at caffe2_frontend/ops/tensor/concat.py:40 (split): "
        "IndexError: list index out of range [internal-error] (this is a fault of caffe2-bridge: please report it "
        "with the model; --debug shows where it occurred)",
        cure="Report it, with the model and what `caffe2-bridge --debug COMMAND` prints. In Python, the environment "
        "variable `CAFFE2_BRIDGE_DEBUG=1` lets the exception surface.",
    ),
    DiagnosticCode(
        code="not-a-constant",
        summary="An operator of the init net computes a value that is only known when the net runs.",
        cause="`get_params_from_init_net` reads parameters without running Caffe2: it evaluates fills, and operators "
        "that arrange constants or compute with them, such as Caffe2's ONNX importer writes, and nothing else.",
        example="init[7] Conv: error: Conv is not among the operators that are evaluated without running Caffe2 "
        "[not-a-constant] (run the init net, and store its parameters with construct_init_net_from_params)",
        cure="Run the init net (`caffe2_backend.Workspace().run_net_once(init_net)`), fetch the parameters, and make "
        "an init net of them with `caffe2_bridge.construct_init_net_from_params`.",
    ),
    DiagnosticCode(
        code="not-an-init-net",
        summary="An operator of the init net reads a blob that no operator of the init net writes.",
        cause="Most often the predict net was given as the init net, or the two were exchanged.",
        example="init[0] FC: error: the operator reads 'data', which no operator of the init net writes "
        "[not-an-init-net] (an init net only writes parameters: exchange the files if this is a predict net)",
        cure="Give the init net with `--init FILE`, or `to_onnx(predict_net, init_net)` in this order.",
    ),
    DiagnosticCode(
        code="object-output",
        severity=Severity.WARNING,
        summary="An output of the net is left out, because it is an object and not a tensor.",
        cause="The net declares a stack of workspaces, a counter, a queue or another object as an output. Caffe2's "
        "mobile exporter declares every blob that no operator reads, and so the `step_workspaces` of recurrent nets.",
        example="predict: warning: output 'lstm/step_workspaces' is left out, because it is an object and not a tensor "
        "[object-output] (remove 'lstm/step_workspaces' from the net's external_output, or choose the others: "
        "--output prob, or outputs=['prob'])",
        cure="Nothing needs to be done. To remove the warning, choose the outputs: `--output NAME`, or "
        "`outputs=[NAME]`.",
    ),
    DiagnosticCode(
        code="omitted-output",
        severity=Severity.NOTE,
        summary="A blob that no operator reads is not an output of the model, so that an LSTM stays one.",
        cause="The net declares no outputs, so those blobs are its outputs that no operator reads, and the rows of the "
        "cell state of an LSTM are among them. ONNX's LSTM does not compute these rows.",
        example="predict[0] RecurrentNetwork: note: 'lstm/cell_t_all' is not an output of the model: no operator reads "
        "it, the net declares no outputs, and ONNX's LSTM does not compute it [omitted-output] (to output it, choose "
        "all outputs, and the net becomes a Scan: --output lstm/hidden_t_all --output lstm/cell_t_all, or "
        "outputs=['lstm/hidden_t_all', 'lstm/cell_t_all'])",
        cure="Nothing needs to be done if the rows are not needed. Otherwise type what the hint says.",
    ),
    DiagnosticCode(
        code="rerun-steps",
        severity=Severity.NOTE,
        summary="The steps of a recurrent net run again, because its gradient operator is in a net without it.",
        cause="RecurrentNetworkGradient reads `step_workspaces`, an object that the forward operator leaves in its "
        "workspace and that cannot be an input of a model. The net does not have the forward operator, but its "
        "gradient operator has copies of its operands and arguments: the model takes the inputs of the forward "
        "operator and runs the steps again. Steps that draw random numbers would draw others: they are refused.",
        example="backward[0] RecurrentNetworkGradient: note: the net does not make the step workspaces "
        "'lstm/step_workspaces': the steps run again, from the operands of the forward operator [rerun-steps] (to keep "
        "what the steps computed, export the forward and the gradient operators as one net)",
        cure="Nothing needs to be done: the gradients are the same. To save the time, put the operators of both nets "
        "into one and export that.",
    ),
    DiagnosticCode(
        code="plan-step",
        summary="A step of a plan cannot be converted to operators of one net.",
        cause="The step runs concurrently, in copies, periodically or in a workspace of its own, contradicts itself, "
        "or names a net that the plan does not contain.",
        example="plan > train: error: the step runs its substeps concurrently [plan-step] (convert the nets of "
        "the plan one by one)",
        cure="Convert the nets of the plan one by one, or write the step without that option.",
    ),
    DiagnosticCode(
        code="training-net",
        severity=Severity.NOTE,
        summary="The net trains: the blobs that it updates are inputs and outputs of the ONNX model.",
        cause="The net has gradient operators, and reads and overwrites parameters, states of optimizers or counters. "
        "Each of them is an input, with the value of the init net as the default, and an output; the metadata "
        "`caffe2.parameters.updated` holds the pairs.",
        example="mlp: note: the net trains: 19 blobs that it updates are inputs and outputs of the model ('fc_w', "
        "'fc_b', 'iter' and 16 more) [training-net] (for other outputs without updates: --no-training, or "
        "training=False)",
        cure="Nothing needs to be done. `--no-training` (`training=False`) makes the parameters constants, "
        "and `--output NAME` chooses the outputs.",
    ),
    DiagnosticCode(
        code="undefined-blob",
        summary="An operator reads a blob that has no value.",
        cause="No earlier operator writes the blob, and it is neither an external input of the net nor a parameter of "
        "the init net. Often an init net is missing, or a blob name is misspelled.",
        example="predict[1] FC: error: the operator reads blob 'fc_w', which no earlier operator writes and which is "
        "not an external input [undefined-blob] (give the init net that fills it: --init FILE, or init_net=...; or "
        "make it an input, such as --input 'fc_w=float32[N,D]', or inputs={'fc_w': ('float32', ['N', 'D'])})",
        cure="Give the init net (`--init FILE`, `init_net=...`), or make the blob an input "
        "(`--input 'fc_w=float32[10,20]'`, `inputs={'fc_w': ('float32', [10, 20])}`).",
    ),
    DiagnosticCode(
        code="undefined-output",
        summary="An output of the net or of a body has no value that is a tensor.",
        cause="No operator writes the output, or what it holds is not a tensor (a counter, a queue, a map).",
        example="predict: error: output 'prob' is not written by any operator, or is not a tensor [undefined-output] "
        "(choose outputs that do not need it: --output logits, or outputs=['logits'])",
        cure="Choose outputs that the net writes: `--output NAME`, or `outputs=[NAME]`.",
    ),
    DiagnosticCode(
        code="unknown-blob",
        summary="The caller names a version of a blob that the net does not have.",
        cause="`known_status` of the device functions is keyed by (blob, version). A blob has version 0 as an input, "
        "and one more for each operator that writes it.",
        example="net: error: the net does not have version 3 of blob 'x' [unknown-blob] "
        "(caffe2_bridge.get_ssa lists the versions)",
        cure="Use a version that `caffe2_bridge.get_ssa(net)` lists.",
    ),
)
