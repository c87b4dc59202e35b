"""Optimizers: arguments, shapes and repeated indices beyond those of the recorded tests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from conformance.corpus import Array
from conformance.recording import ArgumentValue, Spec, case, generator, net, operator

LR = np.array([0.1], np.float32)
INDICES = np.array([2, 0, 2, 3, 2, 0], np.int64)
NO_INDICES = np.zeros(0, np.int64)
SHAPE = (5, 2, 3)


def real(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype=np.float32)


def positive(seed: int, *shape: int) -> Array:
    return np.abs(real(seed, *shape)) + np.float32(0.1)


def iteration(value: int) -> Array:
    return np.array([value], np.int64)


def in_place(
    op_type: str, inputs: Mapping[str, Array], outputs: int, args: Mapping[str, ArgumentValue] | None = None
) -> Spec:
    """Return a case whose outputs are the first inputs."""
    return case(op_type, inputs, outputs=list(inputs)[:outputs], args=args)


def sparse(
    op_type: str,
    indices: Array,
    tables: tuple[Array, ...],
    rest: Mapping[str, Array],
    *,
    extra: bool = False,
    **args: ArgumentValue,
) -> Spec:
    """Return tables, indices, gradient and the rest."""
    state = {f"table{i}": table for i, table in enumerate(tables)}
    grad = real(7, *indices.shape, *tables[0].shape[1:])
    outputs = [*state, "grad_out"] if extra else list(state)
    return case(op_type, {**state, "indices": indices, "grad": grad, **rest}, outputs=outputs, args=args)


def sparse_cases(indices: Array, shape: tuple[int, ...]) -> list[Spec]:
    table, moment, other = real(1, *shape), positive(2, *shape), positive(3, *shape)
    rows = positive(4, shape[0])
    lr = {"lr": LR}
    step = {"lr": LR, "iter": iteration(3)}
    grad = real(7, *indices.shape, *shape[1:])
    return [
        sparse("SparseAdagrad", indices, (table, moment), lr, weight_decay=0.2),
        sparse("RowWiseSparseAdagrad", indices, (table, rows), lr, weight_decay=0.2),
        sparse("SparseAdam", indices, (table, moment, other), step, extra=True, beta1=0.8, beta2=0.9),
        sparse("SparseAdam", indices, (table, moment, other), step, beta1=0.8, beta2=0.9, enableRAdam=True),
        sparse(
            "SparseAdam",
            indices,
            (table, moment, other),
            {"lr": LR, "iter": iteration(40)},
            extra=True,
            enableRAdam=True,
        ),
        sparse("RowWiseSparseAdam", indices, (table, moment, rows), step, extra=True, beta1=0.8, beta2=0.9),
        sparse("SparseAdadelta", indices, (table, moment, other), lr, decay=0.7),
        sparse("SparseFtrl", indices, (table, positive(5, *shape, 2)), {}, alpha=0.2, beta=0.3, lambda1=0.6),
        sparse("SparseFtrl", indices, (table, positive(5, *shape, 2)), {"alpha": np.array([0.3], np.float32)}),
        sparse("SparseWngrad", indices, (table, np.array([0.7], np.float32)), lr),
        *(
            case(
                "SparseMomentumSGDUpdate",
                {"grad": grad, "moment": moment, "lr": LR, "param": table, "indices": indices},
                outputs=["grad", "moment", "param"],
                args={"momentum": 0.8, "nesterov": nesterov},
            )
            for nesterov in (False, True)
        ),
        case(
            "SparseStorm",
            {
                "param": table,
                "moment": moment,
                "squares": np.array([2.0], np.float32),
                "grad": grad,
                "indices": indices,
                "lr": LR,
            },
            outputs=["param", "moment", "squares"],
            args={"momentum": 3.0, "beta": 0.4},
        ),
        *(
            in_place("SparseLpRegularizer", {"param": table, "indices": indices}, 1, {"p": p, "reg_lambda": 0.15})
            for p in (1.0, 2.0)
        ),
        in_place("SparseLpRegularizer", {"param": table, "indices": indices}, 1),
        *(
            in_place(kind, {"param": table.astype(dtype), "indices": indices}, 1, {"norm": 1.2, "use_max_norm": longer})
            for kind, dtype in (("SparseNormalize", np.float32), ("Float16SparseNormalize", np.float16))
            for longer in (False, True)
        ),
    ]


def counter(indices: Array, halflife: int) -> Spec:
    inputs = {
        "prev": np.array([3, 9, 0, 5, 5], np.int64),
        "count": np.array([1.5, 2, 0, 4, 1]),
        "indices": indices,
        "iter": iteration(7),
    }
    return in_place("RowWiseCounter", inputs, 2, {"counter_halflife": halflife})


X, M1, M2, G = real(11, 2, 3), positive(12, 2, 3), positive(13, 2, 3), real(14, 2, 3)


def one(number: float) -> Array:
    return np.array([number], np.float32)


CASES = [
    *sparse_cases(INDICES, SHAPE),
    *sparse_cases(INDICES.astype(np.int32), (5,)),
    *sparse_cases(INDICES.reshape(2, 3), (5, 4)),
    *sparse_cases(NO_INDICES, (5, 4)),
    *(counter(indices, halflife) for indices in (INDICES, INDICES.astype(np.int32), NO_INDICES) for halflife in (2, 0)),
    case(
        "Adagrad",
        {"w": X, "m": M1, "g": G, "lr": LR},
        outputs=["w", "m", "rate", "update"],
        args={"decay": 0.9, "weight_decay": 0.3},
    ),
    case("Adagrad", {"w": X, "m": M1.ravel(), "g": G.T.copy(), "lr": LR}, outputs=["w", "m", "rate", "update"]),
    case(
        "Adam",
        {"w": X, "m1": M1.ravel(), "m2": M2, "g": G.T.copy(), "lr": LR, "i": iteration(5)},
        outputs=["nw", "n1", "n2", "ng"],
    ),
    case(
        "DecayAdagrad",
        {"w": X, "m1": M1, "m2": M2, "g": G, "lr": LR, "i": iteration(2)},
        outputs=["w", "m1", "m2"],
        args={"bias_correction_first": False, "weight_decay": 0.2},
    ),
    case("Adadelta", {"w": X, "m1": M1, "m2": M2, "g": G, "lr": LR}, outputs=["w", "m1", "m2"]),
    case("Adadelta", {"w": X, "m1": M1, "m2": M2, "g": G, "lr": LR}, outputs=["w", "m1", "m2"], args={"decay": 1.0}),
    case("Ftrl", {"w": X, "nz": positive(15, 12), "g": G}, outputs=["w", "nz"], args={"lambda1": 0.9, "alpha": 0.3}),
    case(
        "Ftrl", {"w": X, "nz": positive(15, 2, 3, 2), "g": G, "alpha": np.array([0.4], np.float32)}, outputs=["w", "nz"]
    ),
    case(
        "Ftrl",
        {"w": X, "nz": positive(15, 2, 3, 2), "g": G, "alpha": np.array([0.4], np.float32)},
        outputs=["w", "nz"],
        args={"alpha": 0.3},
    ),
    case(
        "GFtrl",
        {"w": X, "nz": positive(15, 2, 3, 2), "g": G, "alpha": np.array([0.4], np.float32)},
        outputs=["w", "nz"],
        args={"lambda1": 0.9},
    ),
    *(
        case(
            "Lars",
            {"X": x, "dX": G, "wd": LR, "trust": np.array([2.0], np.float32), "max": np.array([most], np.float32)},
        )
        for x in (X, X * 0)
        for most in (0.7, 9.0)
    ),
    case("Lars", {"X": X, "dX": G, "wd": LR, "trust": LR, "max": LR}, args={"offset": -1.0}),
    # A rate of 0 / 0, and bounds that are a NaN.
    *(
        case(
            "Lars",
            {"X": X, "dX": 0 * G, "wd": one(-0.5), "trust": one(trust), "max": one(most)},
            args={"lr_min": least},
        )
        for trust, most, least in ((0, 0.5, 0.02), (1, np.nan, 0.02), (0, np.nan, 0.02), (0, 0.5, np.nan))
    ),
    case("LearningRateAdaption", {"lr": LR, "g": G, "e": X}, args={"normalized_lr_adaption": False}),
    case("LearningRateAdaption", {"lr": LR, "g": G * 0, "e": X}, args={"lr_alpha": 0.4}),
    case("MomentumSGD", {"g": G, "m": M1, "lr": LR}, outputs=["g", "m"]),
    case(
        "MomentumSGDUpdate",
        {"g": G, "m": M1, "lr": LR, "w": X},
        outputs=["g", "m", "w"],
        args={"momentum": 0.7, "nesterov": 1},
    ),
    case("RmsProp", {"g": G, "ms": M1, "mom": M2, "lr": LR}, outputs=["g", "ms", "mom"]),
    case("Storm", {"w": X, "m": M1, "s": np.array([2.0], np.float32), "g": G, "lr": LR}, outputs=["w", "m", "s"]),
    case("Wngrad", {"w": X, "b": np.array([2.0], np.float32), "g": G, "lr": LR}, outputs=["w", "b", "rate", "update"]),
    *(
        case(
            "WeightScale",
            {"w": X, "i": iteration(i)},
            outputs=["w"],
            args={"stepsize": 4, "upper_bound_iter": 8, "scale": 0.5},
        )
        for i in (2, 3, 7, 8)
    ),
    case("Iter", {"i": iteration(4)}, outputs=["i"]),
    net(
        [
            operator("Iter", [], ["i"]),
            operator("Iter", ["i"], ["i"]),
            operator("LearningRate", ["i"], ["lr"], policy="exp", base_lr=1.0, gamma=0.5),
        ],
        {},
    ),
    net([operator("CreateMutex", [], ["mutex"]), operator("AtomicIter", ["mutex", "i"], ["i"])], {"i": iteration(4)}),
    # Large gradients, of which little of the momentum is left.
    *(
        case(
            kind,
            {"w": X, "m": M1, "s": np.zeros(1, np.float32), "g": G * np.float32(1e5), **indices, "lr": LR * 10},
            outputs=["w", "m", "s"],
        )
        for kind, indices in (("Storm", {}), ("SparseStorm", {"i": np.arange(len(X))}))
    ),
    # An Iter in its old form counts in the blob that it writes, whatever wrote it before.
    net([operator("Iter", [], ["i"]), operator("Iter", [], ["i"])], {}),
    net(
        [operator("ConstantFill", [], ["i"], shape=[1], value=7, dtype=10), operator("Iter", [], ["i"])],
        {},
    ),
    # Accumulate adds to what its output held before, of which it reads as many elements as its operand has.
    *(
        net([operator("Copy", [before], ["y"]), *[operator("Accumulate", ["x"], ["y"], **gamma)] * times], inputs)
        for before, inputs in (
            ("z", {"x": X, "z": M1}),
            ("z", {"x": X, "z": M1.reshape(-1)}),
            ("z", {"x": X, "z": np.append(M1, M1)}),
            ("z", {"x": X[:0], "z": M1}),
        )
        for gamma in ({}, {"gamma": 0.5})
        for times in (1, 2)
    ),
    net([operator("Accumulate", ["x"], ["y"], gamma=-2.0)], {"x": X, "y": M1}),
    *(
        net([operator("Copy", ["x"], ["y"]), operator("Accumulate", ["x"], ["y"], **args)], {"x": x})
        for x, args in ((X.astype(np.float64), {}), (X, {"gamma": 2}))
    ),
    # A row is normalized for each of its indices: a tiny one grows each time, and an infinite one becomes NaN.
    *(
        in_place(
            kind,
            {
                "param": np.array([[tiny, 0], [np.inf, 1], [3, -4], [0, 0], [1e4, np.nan]], dtype),
                "indices": np.array([0, 1, 2, 0, 3, 3, 2, 0, 1, 4, 4], index),
            },
            1,
            {"norm": norm, "use_max_norm": longer},
        )
        for kind, dtype, tiny in (
            ("SparseNormalize", np.float32, 3e-40),
            ("Float16SparseNormalize", np.float16, 6e-8),
        )
        for index, norm, longer in ((np.int32, 1.0, False), (np.int64, 3.0, True), (np.int64, 3e4, False))
    ),
    # The square of a row of one number is infinite, or 0.
    *(
        in_place(
            "SparseNormalize",
            {
                "param": np.array([1, -2, 1e-25, 1e25, 0], np.float32).reshape(5, *more),
                "indices": np.array([0, 1, 2, 3, 4, 0, 1, 0], np.int64),
            },
            1,
            {"norm": norm, "use_max_norm": longer},
        )
        for more in ((), (1,))
        for norm, longer in ((1e30, False), (1e-30, False), (1e25, True))
    ),
]


INF, NAN = np.inf, np.nan
TABLE = np.array([[0, 0], [3, 4], [INF, 1], [NAN, 1], [1e-30, 0], [0.1, 0.1], [-INF, 0], [0.6, 0.8]], np.float32)
STATE = {"param": 2.0, "moment": 0.1, "delta": 0.2}
OPTIMIZERS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("SparseAdagrad", "param moment indices grad lr", {}),
    ("SparseAdadelta", "param moment delta indices grad lr", {}),
    ("SparseStorm", "param moment delta grad indices lr", {}),
    ("SparseWngrad", "param moment indices grad lr", {}),
    ("SparseNormalize", "param indices", {}),
    ("SparseLpRegularizer", "param indices", {}),
    ("EnsureClipped", "param indices grad", {"max": 1.0}),
)
GRADIENTS = np.array([0.56972635, -0.056064438], np.float32)


def scalars(order: str, indices: list[int]) -> dict[str, Array]:
    """Return operands of an optimizer of which all tables are scalars."""
    given = {name: np.array(value, np.float32) for name, value in STATE.items()}
    given |= {"grad": GRADIENTS[: len(indices)], "lr": np.array([0.01], np.float32)}
    return {name: given[name] if name in given else np.array(indices, np.int64) for name in order.split()}


CASES += [
    *(
        case(op_type, {"w": TABLE.astype(dtype), "i": np.arange(8)}, outputs=["w"], args=args)
        for op_type, dtype in (("SparseNormalize", np.float32), ("Float16SparseNormalize", np.float16))
        for args in ({}, {"use_max_norm": 0}, {"norm": 0.0, "use_max_norm": 0}, {"norm": NAN})
    ),
    *(
        case(kind, arrays, outputs=[name for name in arrays if name in STATE], args=args)
        for kind, order, args in OPTIMIZERS
        for indices in ([0], [0, 0])
        for arrays in [scalars(order, indices)]
    ),
]

X, GRAD, FIRST, SECOND = real(21, 2, 3), real(22, 2, 3), positive(23, 2, 3), positive(24, 2, 3)
RATES = np.array([0.1, 7.0], np.float32)  # of which Caffe2 reads the first element
STEPS = np.array([3, 5], np.int64)

CASES += [
    in_place("Adagrad", {"w": X, "m": FIRST, "g": GRAD, "lr": RATES}, 2),
    in_place("Adadelta", {"w": X, "m": FIRST, "d": SECOND, "g": GRAD, "lr": RATES}, 3),
    case("Lars", {"X": X, "dX": GRAD, "wd": RATES, "trust": RATES, "max": RATES}),
    in_place("Wngrad", {"w": X, "b": RATES, "g": GRAD, "lr": RATES}, 2),
    in_place("Adam", {"w": X, "m": FIRST, "v": SECOND, "g": GRAD, "lr": LR, "i": STEPS}, 3),
    in_place("WeightScale", {"w": X, "i": STEPS}, 1, {"stepsize": 4, "scale": 0.5}),
    *(
        case(op_type, inputs, outputs=["w", "nz"], args={"alpha": alpha})
        for op_type, inputs in (
            ("Ftrl", {"w": X, "nz": positive(25, 12), "g": GRAD}),
            ("SparseFtrl", {"w": X, "nz": positive(25, 12), "i": np.array([1, 0, 1]), "g": real(26, 3, 3)}),
            ("SparseFtrl", {"w": X, "nz": positive(25, 2, 6), "i": np.array([1, 0, 1]), "g": real(26, 3, 3)}),
        )
        for alpha in (0.0, 0.5)
    ),
    in_place(
        "SparseAdam",
        {"w": X, "m": FIRST, "v": SECOND, "i": np.array([1, 0, 1]), "g": real(26, 3, 3), "lr": LR, "t": STEPS},
        3,
        {"enableRAdam": 1, "beta2": 1.0},
    ),
]
