"""Diagnostic codes of inputs and parameters."""

from __future__ import annotations

from typing import Final

from caffe2_bridge.diagnostics.code import DiagnosticCode, Severity

INPUT_CODES: Final = (
    DiagnosticCode(
        code="assumed-rank",
        severity=Severity.NOTE,
        summary="The rank of an input is assumed, because the operators that read it accept several.",
        cause="Neither the caller nor the net determines the rank, and the operator that reads the input most often "
        "has operands of the assumed rank: MatMul matrices, Concat operands with as many dims as its axis needs.",
        example="predict: note: input 'x' is assumed to have rank 2, as MatMul most often has [assumed-rank] (to "
        "confirm or to change it, describe the input, such as --input 'x=float32[N,6]', or "
        "inputs={'x': ('float32', ['N', 6])})",
        cure="Nothing needs to be done if the rank is right. Otherwise describe the input: "
        "`--input 'x=float32[N,T,6]'`, or `inputs={'x': ('float32', ['N', 'T', 6])}`.",
    ),
    DiagnosticCode(
        code="assumed-type",
        severity=Severity.NOTE,
        summary="The element type of an input is assumed, because the operators that read it accept several.",
        cause="Neither the caller nor the net determines whether indices are int32 or int64, and the operator that "
        "reads them, such as Gather, takes both. The model declares one of them.",
        example="predict: note: input 'ids' is assumed to be int32, because Gather takes int32 and int64, and the net "
        "does not say which [assumed-type] (to confirm or to change it, describe the input, such as "
        "--input 'ids=int32[N]', or inputs={'ids': ('int32', ['N'])})",
        cure="Nothing needs to be done if the type is right. Otherwise describe the input: `--input 'ids=int64[N]'`, "
        "or `inputs={'ids': ('int64', ['N'])}`.",
    ),
    DiagnosticCode(
        code="exporter-fill",
        severity=Severity.NOTE,
        summary="The init net fills an input of the predict net with zeros, as Caffe2's exporters do.",
        cause="Caffe2's mobile exporter, its predictor exporter and its Caffe translator write a fill of zeros for "
        "each input into the init net, so that the blob exists: float32 whatever the type of the input, and of shape "
        "[1, 1] or [1] for any shape. The blob is an input; its type and shape follow from the operators that read it.",
        example="predict: note: the init net fills input 'data' with zeros, as Caffe2's exporters do: the values are "
        "ignored [exporter-fill] (inferred from the operators: --input 'data=float32[N,3,H,W]', or "
        "inputs={'data': ('float32', ['N', 3, 'H', 'W'])})",
        cure="Nothing needs to be done. If what was inferred is not enough, describe the input: "
        "`--input 'data=float32[N,3,224,224]'`, or `inputs={'data': ('float32', ['N', 3, 224, 224])}`.",
    ),
    DiagnosticCode(
        code="init-net-found",
        severity=Severity.NOTE,
        summary="The parameters are read from a file that is not named like the init net of the net.",
        cause="No file in the folder of the predict net has the name of its init net (`predict_net` and `init_net`, "
        "`X_predict` and `X_init`, `XPredict` and `XInit` ...), and exactly one fills all parameters that the net "
        "lacks: a net, a database of tensors, or a pickled checkpoint.",
        example="predict: note: weights are read from exec_net.pb, which lies in the folder of predict_net.pb "
        "[init-net-found] (to read others: --init FILE, or load(path, init))",
        cure="Nothing needs to be done. To read other parameters, name the file: `--init FILE`, or `load(path, init)`.",
    ),
    DiagnosticCode(
        code="left-out-blobs",
        severity=Severity.NOTE,
        summary="Blobs of a checkpoint are not read.",
        cause="A pickled checkpoint holds, beside the parameters, what training continues with: the momentum of each "
        "(`*_momentum`) and the learning rate (`lr`). They are left out unless the net reads them, and so is what is "
        "not a tensor of numbers that Caffe2 has.",
        example="init: note: 2 blobs of the checkpoint are left out ('conv1_w_momentum', 'lr'): momentum and learning "
        "rates, which training alone reads [left-out-blobs] (to read them: load_init_net(path, optimizer_state=True))",
        cure="Nothing needs to be done. To read them too: `load_init_net(path, optimizer_state=True)`.",
    ),
    DiagnosticCode(
        code="left-out-parameters",
        summary="Parameters have no value, because the exporter left them out of the init net.",
        cause="Caffe2's mobile exporter writes a fill of shape [1, 1] for each blob that is not in the list of "
        "parameters that it is given. `model.params` lacks the running mean and variance of SpatialBN, which "
        "`model.GetComputedParams()` lists. Caffe2 cannot run such a net either.",
        example="predict: error: the exporter left out statistics of SpatialBN: the init net has zeros for "
        "'bn_rm', 'bn_riv' instead [left-out-parameters] (save the model again with them: "
        "mobile_exporter.Export(workspace, model.net, model.GetAllParams()); or describe them, to feed them in each "
        "run: --input 'bn_rm=float32[8]' --input 'bn_riv=float32[8]', or inputs={'bn_rm': ('float32', [8]), "
        "'bn_riv': ('float32', [8])})",
        cure="Save the model again from the workspace that has the values, with "
        "`mobile_exporter.Export(workspace, model.net, model.GetAllParams())`. Parameters that are inputs on purpose "
        "are no error if they are described: `--input 'bn_rm=float32[8]'`, or `inputs={'bn_rm': ('float32', [8])}`.",
    ),
    DiagnosticCode(
        code="missing-parameters",
        severity=Severity.WARNING,
        summary="Inputs of the net are read as weights, biases or statistics, and have no value.",
        cause="No init net was given or found next to the predict net, or it does not fill these blobs. The ONNX model "
        "takes them as inputs.",
        example="predict: warning: 2 of 3 inputs are parameters without a value ('fc_w', 'fc_b'): no init net was "
        "found in models (looked for init_net, init, predict_net_init_net, predict_net_init) [missing-parameters] "
        "(give the init net: --init FILE, or init_net=...; without it the ONNX model has the parameters as inputs, and "
        "export needs --no-weights)",
        cure="Give the init net with `--init FILE`, or `to_onnx(predict_net, init_net)`. Parameters that are inputs on "
        "purpose cause no warning if they are described: `--input 'fc_w=float32[10,20]'`.",
    ),
    DiagnosticCode(
        code="no-inputs",
        severity=Severity.WARNING,
        summary="The model has no inputs, because the init net writes everything that the net reads.",
        cause="The init net computes a blob that the net reads as data, such as an image; without an input the model "
        "always returns the same.",
        example="predict: warning: the model has no inputs: the init net writes 'data' and everything else that the "
        "net reads [no-inputs] (to set it in each run, describe it: --input 'data=float32', or "
        "inputs={'data': ('float32', None)})",
        cure="Describe the blob, which makes it an input: `--input 'data=float32'`, or "
        "`inputs={'data': ('float32', None)}`.",
    ),
    DiagnosticCode(
        code="placeholder",
        severity=Severity.WARNING,
        summary="The init net fills an input of the predict net with a sample.",
        cause="The exporter stored the values that were in the workspace, so that the net runs at once. The conversion "
        "treats the blob as an input and ignores the values of the fill; its type and shape follow from the operators "
        "that read it. Zeros, which Caffe2's exporters write, are `exporter-fill`.",
        example="predict: warning: the init net also fills input 'data', with a sample: the values are ignored "
        "[placeholder] (remove the fill from the init net, or describe the input, such as "
        "--input 'data=float32[N,3,H,W]', or inputs={'data': ('float32', ['N', 3, 'H', 'W'])})",
        cure="Nothing needs to be done if the blob is an input. If it is a parameter, remove it from the predict "
        "net's external inputs. Describing the input removes the warning: `--input 'data=float32[N,3,224,224]'`, or "
        "`inputs={'data': ('float32', ['N', 3, 224, 224])}`.",
    ),
    DiagnosticCode(
        code="random-parameters",
        severity=Severity.WARNING,
        summary="Parameters of the net are random numbers: it was never trained.",
        cause="The init net is the one with which a training begins: operators such as XavierFill draw the weights. "
        "The ONNX model has one such draw as constants.",
        example="predict: warning: the init net draws 2 parameters at random ('fc_w' by XavierFill, 'conv_w' by "
        "MSRAFill): the net was never trained [random-parameters] (give the init net of the trained "
        "model: --init FILE, or init_net=...)",
        cure="Give the init net that was saved after the training: `--init FILE`, or `init_net=...`. Nothing needs to "
        "be done for a model that is to be random.",
    ),
    DiagnosticCode(
        code="training-mode",
        severity=Severity.WARNING,
        summary="Operators of a net that does not train are in training mode.",
        cause="`is_test` is 0 or missing, as in the net that was trained: Dropout sets random elements to zero, and "
        "SpatialBN uses the mean and the variance of the batch instead of the statistics.",
        example="predict: warning: 2 Dropout operators are in training mode, and the net does not train: random "
        "elements are set to zero [training-mode] (set is_test=1, as for 'drop6', 'drop7')",
        cure="Build the net for inference (`ModelHelper(..., init_params=False, arg_scope={'is_test': 1})`), or set "
        "`is_test=1` in its operators.",
    ),
    DiagnosticCode(
        code="unused-input",
        severity=Severity.NOTE,
        summary="An input of the net is left out of the ONNX model.",
        cause="No operator reads the input, and its rank is unknown, so it cannot be declared in ONNX.",
        example="predict: note: input 'aux' is left out, because no operator reads it and its rank is unknown "
        "[unused-input] (to keep it, describe it, such as --input 'aux=float32[N,D]', or "
        "inputs={'aux': ('float32', ['N', 'D'])})",
        cure="Nothing needs to be done. To keep the input, describe it: `--input 'aux=float32[N]'`, or "
        "`inputs={'aux': ('float32', ['N'])}`.",
    ),
)
