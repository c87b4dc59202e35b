"""What is exported: the modules with their inputs, by group."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from torch_exports import architectures, models

WIDTH: Final = 4
HIDDEN: Final = 6
SIZES: Final = ((5, 3), (7, 2), (1, 1))
LAYERS: Final = (1, 2, 3)
KINDS: Final[dict[str, Callable[..., nn.Module]]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn-tanh": nn.RNN,
    "rnn-relu": lambda *args, **options: nn.RNN(*args, nonlinearity="relu", **options),
}
Axes = dict[int, str]


@dataclass(frozen=True)
class Case:
    """A module and its inputs at T steps and N sequences.

    ``axes`` names, input by input, the dims that are left open. The first of ``sizes`` (T, N) is exported, all are run.
    """

    name: str
    module: Callable[[], nn.Module]
    inputs: Callable[[int, int], tuple[Tensor, ...]]
    axes: tuple[Axes, ...]
    sizes: tuple[tuple[int, int], ...] = SIZES
    opset: int | None = None
    rtol: float = 1e-3
    atol: float = 1e-5

    def with_fixed_steps(self) -> Case:
        """Return the same with the number of steps fixed, as torch.export has it for recurrent modules."""
        steps = self.sizes[0][0]
        axes = tuple({axis: name for axis, name in each.items() if name == "N"} for each in self.axes)
        return replace(self, axes=axes, sizes=((steps, 3), (steps, 2), (steps, 1)) if any(axes) else self.sizes[:1])


def x_input(t: int, n: int, *, batch_first: bool = False, dtype: torch.dtype = torch.float32) -> Tensor:
    shape = (n, t, WIDTH) if batch_first else (t, n, WIDTH)
    return torch.randn(shape, dtype=dtype)


def x_axes(*, batch_first: bool = False) -> Axes:
    return {0: "N", 1: "T"} if batch_first else {0: "T", 1: "N"}


def lengths_input(t: int, n: int, *, mixed: bool = False) -> Tensor:
    """Return lengths from ``t`` down, as packing wants them; not in order with ``mixed``."""
    lengths = [max(t - 2 * i, 1) for i in range(n)]
    return torch.tensor(lengths[1:] + lengths[:1] if mixed else lengths)


def states_input(
    kind: str, rows: int, n: int, width: int = HIDDEN, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    return tuple(torch.randn(rows, n, width, dtype=dtype) for _ in range(2 if kind == "lstm" else 1))


def matrix(kind: str) -> Iterator[Case]:
    """Yield cases of all layers, directions, layouts and packings."""
    for layers, both, batch_first, packed in itertools.product(LAYERS, *[(False, True)] * 3):
        marks = [f"{layers}", *itertools.compress(("both", "batch_first", "packed"), (both, batch_first, packed))]
        yield recurrent(
            "-".join(marks), kind, packed=packed, num_layers=layers, bidirectional=both, batch_first=batch_first
        )


def recurrent(
    name: str,
    kind: str,
    *,
    packed: bool = False,
    mixed: bool = False,
    given: bool = False,
    dtype: torch.dtype = torch.float32,
    case: dict[str, Any] | None = None,
    **options: Any,
) -> Case:
    """Return a recurrent module of torch; ``given``: its initial states are inputs."""
    batch_first = options.get("batch_first", False)
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)

    def module() -> nn.Module:
        rnn = KINDS[kind](WIDTH, HIDDEN, dtype=dtype, **options)
        if packed:
            return models.Packed(rnn, batch_first=batch_first, enforce_sorted=not mixed)
        return models.Recurrent(rnn)

    def inputs(t: int, n: int) -> tuple[Tensor, ...]:
        made = [x_input(t, n, batch_first=batch_first, dtype=dtype)]
        if packed:
            made.append(lengths_input(t, n, mixed=mixed))
        return (*made, *(states_input(kind, rows, n, dtype=dtype) if given else ()))

    axes = [x_axes(batch_first=batch_first), *([{0: "N"}] if packed else [])]
    axes += [{1: "N"}] * ((2 if kind == "lstm" else 1) if given else 0)
    return Case(**{"name": name, "module": module, "inputs": inputs, "axes": tuple(axes), **(case or {})})


def options(kind: str) -> Iterator[Case]:
    """Yield what else the modules can be asked for."""
    yield recurrent("bias-off", kind, bias=False, num_layers=2)
    yield recurrent("bias-off-packed", kind, bias=False, packed=True, bidirectional=True)
    yield recurrent("dropout", kind, num_layers=3, dropout=0.5)
    yield recurrent("given", kind, given=True)
    yield recurrent("given-both", kind, given=True, num_layers=2, bidirectional=True)
    yield recurrent("given-batch_first", kind, given=True, num_layers=2, batch_first=True)
    yield recurrent("given-packed", kind, given=True, packed=True, num_layers=2, bidirectional=True)
    yield recurrent("mixed", kind, packed=True, mixed=True)
    yield recurrent("mixed-given", kind, packed=True, mixed=True, given=True, bidirectional=True, batch_first=True)
    yield recurrent("fixed", kind, num_layers=2, bidirectional=True, case={"axes": FIXED, "sizes": SIZES[:1]})
    yield recurrent(
        "one-step",
        kind,
        given=True,
        case={"axes": ({1: "N"}, {1: "N"}, {1: "N"})[: 3 if kind == "lstm" else 2], "sizes": ((1, 3), (1, 1))},
    )
    yield recurrent("double", kind, num_layers=2, bidirectional=True, dtype=torch.float64)
    yield recurrent(
        "half", kind, num_layers=2, bidirectional=True, dtype=torch.float16, case={"rtol": 1e-2, "atol": 2e-3}
    )
    if kind == "lstm":
        yield recurrent("proj_size", kind, proj_size=3)
    yield Case(
        "unbatched",
        lambda: models.Recurrent(KINDS[kind](WIDTH, HIDDEN)),
        lambda t, _: (torch.randn(t, WIDTH),),
        ({0: "T"},),
    )


# Cases whose steps torch.export leaves open.
OPEN_STEPS: Final = frozenset({"attention", "scan", "cond", "decoder"})
FIXED: Final[tuple[Axes, ...]] = ({},)


def opsets(kind: str, versions: tuple[int, ...]) -> Iterator[Case]:
    """Yield the same module in other opsets."""
    for version in versions:
        yield recurrent(f"opset-{version}", kind, num_layers=2, bidirectional=True, given=True, case={"opset": version})
        yield recurrent(f"opset-{version}-packed", kind, packed=True, batch_first=True, case={"opset": version})


CELLS: Final[dict[str, Callable[..., nn.Module]]] = {
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
    "rnn-tanh": nn.RNNCell,
    "rnn-relu": lambda *args, **options: nn.RNNCell(*args, nonlinearity="relu", **options),
}


def cells(kind: str) -> Iterator[Case]:
    """Yield cells in loops of Python, which exporters unroll."""
    cell, states = CELLS[kind], 2 if kind == "lstm" else 1
    sizes = ((5, 3), (5, 2), (5, 1))

    def given(t: int, n: int) -> tuple[Tensor, ...]:
        return (x_input(t, n), *(torch.randn(n, HIDDEN) for _ in range(states)))

    axes: tuple[Axes, ...] = ({1: "N"}, *({0: "N"},) * states)
    yield Case("loop", lambda: models.Unrolled(cell(WIDTH, HIDDEN)), given, axes, sizes)
    yield Case("loop-bias-off", lambda: models.Unrolled(cell(WIDTH, HIDDEN, bias=False)), given, axes, sizes)
    yield Case(
        "loop-zeros", lambda: models.Unrolled(cell(WIDTH, HIDDEN)), lambda t, n: (x_input(t, n),), ({1: "N"},), sizes
    )
    yield Case("loop-opset-11", lambda: models.Unrolled(cell(WIDTH, HIDDEN)), given, axes, sizes, opset=11)
    yield Case("fixed", lambda: models.Unrolled(cell(WIDTH, HIDDEN)), given, ({},) * (1 + states), sizes[:1])


def scripted(kind: str) -> Iterator[Case]:
    """Yield cells in loops of TorchScript, which stay loops."""
    cell: Callable[..., nn.Module] = {"lstm": nn.LSTMCell, "gru": models.WrittenGRU, "rnn-tanh": models.WrittenRNN}[
        kind
    ]
    states = 2 if kind == "lstm" else 1
    loop = models.LoopOfTwo if kind == "lstm" else models.LoopOfOne

    def given(t: int, n: int) -> tuple[Tensor, ...]:
        return (x_input(t, n), *(torch.randn(n, HIDDEN) for _ in range(states)))

    def batch_first(t: int, n: int) -> tuple[Tensor, ...]:
        return x_input(t, n, batch_first=True), torch.randn(n, HIDDEN)

    axes: tuple[Axes, ...] = ({0: "T", 1: "N"}, *({0: "N"},) * states)
    for opset in (None, 11, 14, 17, 18):
        name = f"loop-opset-{opset}" if opset else "loop"
        yield Case(name, lambda: models.scripted(loop(cell(WIDTH, HIDDEN))), given, axes, opset=opset)
    yield Case("loop-fixed", lambda: models.scripted(loop(cell(WIDTH, HIDDEN))), given, ({},) * (1 + states), SIZES[:1])
    if states == 1:
        for module in (models.LoopOverRows, models.LoopWithoutList):
            yield Case(module.__name__, lambda module=module: models.scripted(module(cell(WIDTH, HIDDEN))), given, axes)
        flipped: tuple[Axes, ...] = ({0: "N", 1: "T"}, {0: "N"})
        yield Case("LoopInTime", lambda: models.scripted(models.LoopInTime(cell(WIDTH, HIDDEN))), batch_first, flipped)


def whole_models() -> Iterator[Case]:
    """Yield models around recurrent layers."""

    def tokens(*shape: int) -> Tensor:
        return torch.randint(0, 11, shape)

    for first in (False, True):
        yield Case(
            f"language-model{'-batch_first' if first else ''}",
            lambda first=first: models.LanguageModel(batch_first=first),
            lambda t, n, first=first: (tokens(n, t) if first else tokens(t, n), *states_input("lstm", 2, n)),
            (x_axes(batch_first=first), {1: "N"}, {1: "N"}),
        )
    for packed in (False, True):
        yield Case(
            f"classifier{'-packed' if packed else ''}",
            lambda packed=packed: models.Classifier(packed=packed),
            lambda t, n: (tokens(n, t), lengths_input(t, n)),
            (x_axes(batch_first=True), {0: "N"}),
        )
    for module in (models.Attention, models.LastStep):
        yield Case(
            module.__name__.lower(), module,
            lambda t, n: (x_input(t, n, batch_first=True), lengths_input(t, n)), (x_axes(batch_first=True), {0: "N"}),
        )  # fmt: skip
    yield Case("speech", models.Speech, lambda t, n: (x_input(t, n),), (x_axes(),))
    yield Case(
        "translator", models.Translator,
        lambda t, n: (x_input(t, n), tokens(t + 1, n)), (x_axes(), {0: "S", 1: "N"}),
    )  # fmt: skip
    yield Case("scan", models.Scanned, lambda t, n: (x_input(t, n), torch.randn(n, HIDDEN)), (x_axes(), {0: "N"}))
    yield Case("cond", models.Chosen, lambda t, n: (x_input(t, n),), (x_axes(),))


def whole_architectures() -> Iterator[Case]:
    """Yield models of today's architectures, of random weights."""

    def images(_: int, n: int) -> tuple[Tensor, ...]:
        return (torch.randn(n, 3, 16, 16),)

    def decoded(t: int, n: int) -> tuple[Tensor, ...]:
        return torch.randint(0, 11, (n, 3)), torch.randn(n, 2, t, 4), torch.randn(n, 2, t, 4)

    batch: tuple[Axes, ...] = ({0: "N"},)
    for module in (
        architectures.ResidualNet, architectures.MobileNet, architectures.VisionTransformer, architectures.Detector,
    ):  # fmt: skip
        yield Case(module.__name__.lower(), module, images, batch, ((1, 2), (1, 3), (1, 1)))
    yield Case(
        "decoder", architectures.Decoder, decoded, ({0: "N"}, {0: "N", 2: "T"}, {0: "N", 2: "T"}),
        ((5, 2), (2, 3), (7, 1)),
    )  # fmt: skip
    yield Case("speechencoder", architectures.SpeechEncoder, lambda t, n: (torch.randn(n, 8, 2 * t),), batch, _FIXED)
    yield Case("statespace", architectures.StateSpace, lambda t, n: (torch.randn(n, t, 16),), batch, _FIXED)
    yield Case(
        "diffusion", architectures.Diffusion, lambda _, n: (torch.randn(n, 3, 8, 8), torch.rand(n) * 100), batch * 2,
        _FIXED,
    )  # fmt: skip
    yield Case("bags", architectures.Bags, lambda _, n: (torch.randint(0, 11, (n, 4)),), batch, _FIXED)
    yield Case(
        "doubles", architectures.Doubles, lambda t, n: (torch.randn(n, t, 8, dtype=torch.float64),), batch, _FIXED,
        rtol=1e-6, atol=1e-9,
    )  # fmt: skip
    yield Case("spectrum", architectures.Spectrum, lambda _, n: (torch.randn(n, 64),), batch, _FIXED)


_FIXED: Final = ((6, 2), (6, 3), (6, 1))
