"""Recurrent nets of any size with random weights, as Caffe2's rnn_cell makes them, and the weights for PyTorch.

The nets are those of tests/golden/models: of sizes, their predict nets hold none but those that attention reshapes to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_bridge.proto.caffe2_pb2 import NetDef

Array = np.ndarray[Any, Any]

# Sizes of the weights in the recorded models of one cell, as a factor and a letter of the size wanted.
_PLAIN: Final = {4: (1, "D"), 6: (1, "H"), 18: (3, "H"), 24: (4, "H")}
_ONE_STATE: Final = {"input": "TND", "seq_lengths": "N", "init_0": "1NH"}
_TWO_STATES: Final = {**_ONE_STATE, "init_1": "1NH"}
_FOUR_GATES: Final = ("TN D 4H", "T * N H 4H")
_UNREAD: Final = re.compile(r"cell\w*_all$|context_(all|last)$")


class Size(NamedTuple):
    """Steps, batch, features of the input, features of the state."""

    T: int
    N: int
    D: int
    H: int

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self._asdict().items())


class Product(NamedTuple):
    """A matrix product of a net: how often it runs, and the shapes of its operands."""

    times: int
    operands: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Cell:
    """A recorded net.

    ``weights`` says what the sizes of its weights stand for, ``inputs`` gives each input's dims as letters; a name that
    ends in ``lengths`` is int32 and gets T. ``products`` are its matrix products, as rows, inner dim and columns, after
    the number of matrices if both operands are batches, and after ``T *`` in every step. ``module`` is the class in
    torch.nn that computes the same, "" if none.
    """

    folder: str
    inputs: Mapping[str, str]
    products: Sequence[str]
    weights: Mapping[int, tuple[int, str]] = field(default_factory=lambda: _PLAIN)
    module: str = ""

    def products_of(self, size: Size) -> list[Product]:
        """Return the matrix products at one size."""
        return [_product(text, size._asdict()) for text in self.products]


def _product(text: str, letters: Mapping[str, int]) -> Product:
    """Read a product, such as ``T * N H 4H``."""
    times, _, extents = text.rpartition(" * ")
    *batch, rows, inner, columns = (
        math.prod(int(part) if part.isdigit() else letters[part] for part in re.findall(r"\d+|\D", extent))
        for extent in extents.split()
    )
    return Product(letters[times] if times else 1, ((*batch, rows, inner), (*batch, inner, columns)))


CELLS: Final = {
    "LSTM": Cell("lstm", _TWO_STATES, _FOUR_GATES, module="LSTM"),
    "LSTM_no_lengths": Cell(
        "lstm_no_lengths", {k: v for k, v in _TWO_STATES.items() if v != "N"}, _FOUR_GATES, module="LSTM"
    ),
    "GRU": Cell("gru_linear_before_reset", _ONE_STATE, ["TN D 3H", "T * N H 3H"], module="GRU"),
    "GRU_reset_first": Cell("gru", _ONE_STATE, ["TN D 3H", "T * N H 2H", "T * N H H"]),
    "BasicRNN": Cell("basic_rnn_tanh", _ONE_STATE, ["TN D H", "T * N H H"], module="RNN"),
    "LayerNormLSTM": Cell("layer_norm_lstm", _TWO_STATES, _FOUR_GATES),
    "MILSTM": Cell("milstm", _TWO_STATES, _FOUR_GATES),
    # The encoder has as many steps as the decoder, and as many features as the decoder's state.
    "Attention": Cell(
        "attention_regular",
        {
            "encoder_outputs": "TNH",
            "encoder_lengths": "N",
            "decoder_inputs": "TND",
            "decoder_lengths": "N",
            "h0": "1NH",
            "c0": "1NH",
            "ctx0": "1NH",
        },
        ["TN D 4H", "TN H H", "T * N 2H 4H", "T * N H H", "T * 1 1 H TN", "T * N 1 T H"],
        {3: (1, "D"), 4: (1, "H"), 5: (1, "H"), 9: (2, "H"), 20: (4, "H")},
    ),
}


@dataclass(frozen=True)
class Sample:
    """A net with weights and inputs of one size. Its outputs: all hidden states, and the last of each state."""

    net: NetDef
    weights: dict[str, Array]
    inputs: dict[str, Array]

    def init_net(self) -> NetDef:
        """Return the net that fills the weights."""
        init = NetDef(name="init")
        for name, array in self.weights.items():
            op = init.op.add(type="GivenTensorFill", output=[name])
            op.arg.add(name="shape", ints=array.shape)
            op.arg.add(name="values", floats=array.ravel())
        return init


def sample(cell: Cell, size: Size, seed: int = 0) -> Sample:
    """Return a cell's net with weights as PyTorch draws them, uniform in +- 1 / sqrt(H), and normal inputs."""
    generator = np.random.default_rng(seed)
    model = c2.load(MODELS / cell.folder)
    letters = {**size._asdict(), "1": 1}
    bound = 1 / math.sqrt(size.H)
    sizes = {recorded: factor * letters[letter] for recorded, (factor, letter) in cell.weights.items()}
    weights = {}
    for name, recorded in model.params.items():
        shape = [sizes.get(dim, dim) for dim in recorded.shape]
        weights[name] = generator.uniform(-bound, bound, shape).astype(np.float32)
    inputs: dict[str, Array] = {}
    for name, dims in cell.inputs.items():
        shape = [letters[letter] for letter in dims]
        if name.endswith("lengths"):
            inputs[name] = np.full(shape, size.T, np.int32)
        else:
            inputs[name] = generator.standard_normal(shape, dtype=np.float32)
    net = NetDef()
    net.CopyFrom(model.predict_net)
    _resize(net, sizes)
    wanted = [name for name in net.external_output if not _UNREAD.search(name)]
    del net.external_output[:]
    net.external_output.extend(wanted)
    return Sample(net, weights, inputs)


def _resize(net: NetDef, sizes: Mapping[int, int]) -> None:
    """Give every Reshape of the net, and of nets in it, the sizes wanted for those recorded."""
    for op in net.op:
        for arg in op.arg:
            if op.type == "Reshape" and arg.name == "shape":
                arg.ints[:] = [sizes.get(dim, dim) for dim in arg.ints]
            _resize(arg.n, sizes)


def torch_weights(cell: Cell, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Return the weights under PyTorch's names, with its order of gates."""
    hidden = {
        "LSTM": ("gates_t",),
        "GRU": ("reset_gate_t", "update_gate_t", "output_gate_t"),
        "RNN": ("gates_t",),
    }[cell.module]
    given = {}
    for ours, theirs in (("w", "weight"), ("b", "bias")):
        given[f"{theirs}_ih_l0"] = weights[f"rnn/i2h_{ours}"]
        given[f"{theirs}_hh_l0"] = np.concatenate([weights[f"rnn/{name}_{ours}"] for name in hidden])
    if cell.module != "LSTM":
        return given
    # Caffe2 has the gates as input, forget, output, cell; PyTorch as input, forget, cell, output.
    return {name: np.concatenate([np.split(array, 4)[i] for i in (0, 1, 3, 2)]) for name, array in given.items()}
