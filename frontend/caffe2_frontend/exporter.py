"""Public export functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from caffe2_bridge.collector import CollectorPaused
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location, OptionError
from caffe2_bridge.diagnostics.log import log_diagnostics
from caffe2_bridge.files.model_argument import NetLike
from caffe2_bridge.model import Model
from caffe2_frontend.analysis import analyze
from caffe2_frontend.interop.files.onnx_files import SINGLE_FILE_LIMIT, model_proto
from caffe2_frontend.interop.notebook import register_formatters
from caffe2_frontend.options import DEFAULTS, ExportOptions, Float16Io, Int8, Recompute
from caffe2_frontend.pipeline import complete
from caffe2_frontend.targets.target import Recurrent

register_formatters()


def to_onnx(
    predict_net: NetLike | Model,
    init_net: NetLike | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    target: str = "onnxruntime",
    opset: int | None = None,
    recurrent: Recurrent = "auto",
    full_lengths: bool = False,
    recompute: Recompute = "none",
    stateful: bool = False,
    reroll: bool = False,
    int8: Int8 = "exact",
    fp16: bool = False,
    fp16_io: Float16Io = "float16",
    training: bool | None = None,
    fold_batchnorm: bool = True,
) -> onnx.ModelProto:
    """Convert a Caffe2 net to an ONNX model whose graph inputs and outputs are named as the net's blobs.

    Args:
        predict_net: a path or URL that ``caffe2_bridge.load`` reads, a loaded model, a NetDef (this project's or
            Caffe2's own class, or its bytes), or a PlanDef.
        init_net: the net that fills the parameters, or its path; not with a loaded model, which has its own.
        inputs: what is known of the net's inputs: ``{name: (dtype, shape)}``, where ``dtype`` is a NumPy dtype or a
            type's name, and a dim an int, a name (symbolic) or None (unknown). What is left out is inferred from how
            the net uses the blob. A blob that the init net fills too is an input if it is named here.
        outputs: names of the blobs to output; default the net's external outputs.
        target: the runtime that the model is for: ``onnxruntime``, ``onnxruntime-1.N`` (1.8 or later),
            ``onnxruntime-web``, ``openvino``, ``tract``, ``opencv``, ``tensorrt`` or ``coreml``. It chooses the opset
            and the form of recurrent nets; what it does not have is an error.
        opset: the ONNX opset of the result; default the target's, 20 for onnxruntime.
        recurrent: the form of recurrent nets. ``auto`` (LSTM, GRU, RNN where provably equal and not slower, else Scan,
            else Loop), ``fused``, ``scan``, ``loop``, ``portable`` for runtimes other than onnxruntime (without If,
            Scan and ``sequence_lens``, for sequences of at least one step), ``gpu`` for onnxruntime's CUDA provider
            (without ``sequence_lens``, which is read on the host), or ``unrolled`` for its CUDA graphs: as ``gpu``, and
            a known T of at most 64 becomes as many copies of a step, without control flow.
        full_lengths: promise that all rows have as many steps as their sequence. The model does not read the lengths
            of recurrent nets and of ReversePackedSegs, which are no longer inputs.
        recompute: what gradients of recurrent nets compute again instead of keeping it from the forward steps.
            ``none`` (what the net itself lists), or ``steps``, all blobs of the steps, which takes more time and less
            memory.
        stateful: make the initial states of recurrent nets inputs, and their last rows outputs. Initial states that
            are parameters too; the model's metadata ``caffe2.states`` maps each such input to the output that feeds
            it in the next call.
        reroll: convert nets that were unrolled over time back to loops. The model then accepts every T.
        int8: the form of Int8 operators. ``exact`` (integer arithmetic, equal to Caffe2's to the bit) or ``qdq`` (float
            operators between DequantizeLinear and QuantizeLinear, which runtimes fuse into quantized kernels; results
            may differ by a step or two).
        fp16: convert float32 values to float16. This needs onnxruntime. Nodes that stay in float32 are noted, and
            numbers beyond the range of float16 become the nearest in it, with a warning.
        fp16_io: with ``fp16``, the type of the inputs and outputs that are float32.
        training: make the blobs that a training net updates inputs and outputs. These are parameters, states of
            optimizers, running statistics and counters: inputs with the init net's values as defaults, and outputs with
            their new values, after the losses; the model's metadata ``caffe2.parameters.updated`` maps each such input
            to the output that feeds it in the next step. None does so if the net computes gradients and ``outputs`` is
            None.
        fold_batchnorm: make SpatialBN and AffineChannel of an inference net part of the convolution before them. They
            become part of its weights where nothing else reads it; noted.

    Returns:
        The checked model, with symbolic dims wherever the inputs' are. Warnings and notes of the conversion go to the
        logger ``caffe2_bridge``; :func:`check` returns them.

    Raises:
        ConversionError: the net cannot be converted; holds every diagnostic, in net order.
        NetFormatError: an argument is not a net, or a file cannot be read.
        OptionError: an option has a value that is not supported, or names a blob that the net does not have;
            ``training`` is asked for and the net does not update anything.
        InputSpecError: the description of an input is not ``(dtype, shape)``.
    """
    options = ExportOptions(
        inputs=inputs or {}, outputs=outputs, target=target, opset=opset, recurrent=recurrent,
        full_lengths=full_lengths, recompute=recompute, stateful=stateful, reroll=reroll, int8=int8, fp16=fp16,
        fp16_io=fp16_io, training=training, fold_batchnorm=fold_batchnorm,
    )  # fmt: skip
    with CollectorPaused():
        model = convert(predict_net, init_net, options)
        _require_size(model)
        return model_proto(model)


def _require_size(model: ir.Model) -> None:
    """Raise ConversionError for weights that no ModelProto can hold, before they are made."""
    tensors = [v.const_value for v in model.graph.initializers.values() if v.const_value is not None]
    size = sum(tensor.nbytes for tensor in tensors if tensor.dtype != ir.DataType.STRING)
    if size > SINGLE_FILE_LIMIT:
        reason = f"the weights have {size:,} bytes, and a ModelProto holds at most {SINGLE_FILE_LIMIT:,}"
        hint = "write them to a file of their own: caffe2-bridge export, or save_onnx(convert(...), path)"
        raise ConversionError([Diagnostic("too-large", reason, Location(model.graph.name or "net"), hint=hint)])


def convert(
    predict_net: NetLike | Model, init_net: NetLike | None = None, options: ExportOptions = DEFAULTS
) -> ir.Model:
    """Convert a net like :func:`to_onnx`, without reading the weights: :func:`save_onnx` copies them one by one."""
    with CollectorPaused():
        export = analyze(predict_net, init_net, options)
        if options.outputs is not None and not export.outputs:
            raise OptionError("outputs must not be empty: leave it out for the net's own")
        export = complete(export)
    log_diagnostics(export.findings)
    assert export.model is not None  # an error would have been raised
    return export.model
