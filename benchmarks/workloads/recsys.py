"""Recommendation nets: lookups in tables around small dense layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from workloads.training import Arrays, Workload, fills

LR: Final = 0.05


@dataclass(frozen=True)
class Tables:
    """The tables of a net: their rows and width, lookups of an example, pooling, and how a step updates them.

    Attributes:
        rows: of each table.
        width: of all.
        lookups: the number of an example in one table.
        pooling: Sum, Mean or WeightedSum.
        update: the operator that updates them, SGD for ScatterWeightedSum.
        varies: whether the number of lookups varies from 0 to twice as many.
        bits: of the codes of fused rows; 32 for floats.
    """

    rows: tuple[int, ...]
    width: int
    lookups: int
    pooling: str
    update: str
    varies: bool = True
    bits: int = 32


@dataclass(frozen=True)
class Model:
    """A recommendation net: its tables, the batch, dense features, and layers below and above the lookups.

    ``form``: dlrm (products of all pairs of looked-up vectors), wide (an added linear part, the first table), or plain.
    """

    form: str
    tables: Tables
    batch: int
    dense: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]


DLRM: Final = Model("dlrm", Tables((1000, 2000, 500), 16, 10, "Sum", "SGD", varies=False), 64, 13, (64, 16), (64, 1))
WIDE: Final = Model("wide", Tables((100_000, *[10_000] * 4), 16, 5, "Mean", "SparseAdagrad"), 64, 13, (), (128, 64, 1))
CTR: Final = Model("plain", Tables((50_000,) * 5, 32, 10, "WeightedSum", "RowWiseSparseAdagrad"), 64, 13, (), (64, 1))
MODELS: Final[Mapping[str, tuple[Model, bool]]] = {
    **{f"{name} {'training' if train else 'forward'}": (model, train)
       for name, model in {"dlrm": DLRM, "wide and deep": WIDE, "ctr": CTR}.items() for train in (False, True)},
    **{f"ctr fused {bits}-bit": (replace(CTR, tables=replace(CTR.tables, bits=bits)), False) for bits in (8, 4)},
}  # fmt: skip


def make(name: str) -> Workload:
    """Return the net of a name, with tables and features fed, and dense parameters of its init net."""
    model, train = MODELS[name]
    random = np.random.default_rng(0)
    feed, values = _features(model, random), _dense_parameters(model, random)
    ops = [*_lookups(model), *_dense(model)]
    result = "prediction"
    if train:
        ops += [
            operator("SigmoidCrossEntropyWithLogits", ["score", "label"], ["losses"]),
            operator("AveragedLoss", ["losses"], ["loss"]),
        ]
        made = add_gradient_operators(NetDef(op=ops), ["loss"])
        ops = [*made.net.op, *_updates(model, values, made.gradients)]
        result = "loss"
        feed["label"] = random.integers(0, 2, (model.batch, 1)).astype(np.float32)
        values.update(one=np.ones(1), lr=np.full(1, -LR))
        feed.update({f"moment_{i}": np.full(rows, 0.1, np.float32) if model.tables.update.startswith("Row")
                     else np.full((rows, _width(model, i)), 0.1, np.float32)
                     for i, rows in enumerate(model.tables.rows) if model.tables.update != "SGD"})  # fmt: skip
    else:
        ops.append(operator("Sigmoid", ["score"], ["prediction"]))
    net = NetDef(name="recommend", op=ops, external_input=[*feed, *values])
    return Workload(net, fills(values), feed, result, others=("table_0", "table_1") if train else ())


def _width(model: Model, table: int) -> int:
    return 1 if model.form == "wide" and table == 0 else model.tables.width


def _features(model: Model, random: np.random.Generator) -> Arrays:
    """Return dense features, tables, and ids by Zipf's law, as words and products are."""
    tables = model.tables
    feed: Arrays = {"dense": random.standard_normal((model.batch, model.dense)).astype(np.float32)}
    for i, rows in enumerate(tables.rows):
        table = random.standard_normal((rows, _width(model, i))).astype(np.float32)
        counts = random.integers(0, 2 * tables.lookups + 1, model.batch) if tables.varies else tables.lookups
        lengths = np.broadcast_to(counts, model.batch).astype(np.int32)
        drawn = random.zipf(1.2, int(lengths.sum())) - 1
        feed |= {f"table_{i}": table, f"lengths_{i}": lengths, f"ids_{i}": drawn % rows}
        if tables.pooling == "WeightedSum":
            feed[f"weights_{i}"] = random.random(int(lengths.sum())).astype(np.float32)
        if tables.bits < 32:
            workspace = Workspace()
            workspace.feed("table", table)
            workspace.run_operator_once(
                operator(f"FloatToFused{tables.bits}BitRowwiseQuantized", ["table"], ["fused"])
            )  # fmt: skip
            feed[f"table_{i}"] = np.asarray(workspace.fetch("fused"))
    return feed


def layers(model: Model) -> dict[str, tuple[int, int]]:
    """Return the (outputs, inputs) of each dense layer."""
    count, deep = len(model.tables.rows), len(model.tables.rows) - (model.form == "wide")
    first = model.dense + deep * model.tables.width
    if model.form == "dlrm":
        first = model.tables.width + (count + 1) ** 2
    bottom = zip(model.bottom, (model.dense, *model.bottom), strict=False)
    top = zip(model.top, (first, *model.top), strict=False)
    return {**{f"bottom_{i}": s for i, s in enumerate(bottom)}, **{f"top_{i}": s for i, s in enumerate(top)}}


def _dense_parameters(model: Model, random: np.random.Generator) -> Arrays:
    values: Arrays = {}
    for name, (outputs, inputs) in layers(model).items():
        values[f"{name}_w"] = random.standard_normal((outputs, inputs)) / np.sqrt(inputs)
        values[f"{name}_b"] = np.full(outputs, 0.1)
    return values


def _lookups(model: Model) -> list[OperatorDef]:
    tables = model.tables
    kind = f"SparseLengths{tables.pooling}" + (f"Fused{tables.bits}BitRowwise" if tables.bits < 32 else "")
    weighted = tables.pooling == "WeightedSum"
    return [
        operator(
            kind, [f"table_{i}", *([f"weights_{i}"] if weighted else []), f"ids_{i}", f"lengths_{i}"], [f"pooled_{i}"]
        )
        for i in range(len(tables.rows))
    ]  # fmt: skip


def _dense(model: Model) -> list[OperatorDef]:
    """Return the dense part, from ``dense`` and ``pooled_i`` to ``score``."""
    ops, x = [], "dense"
    for name in layers(model):
        if name == "top_0":
            mixed, x = _mixed(model, x)
            ops += mixed
        last = name == f"top_{len(model.top) - 1}"
        ops.append(operator("FC", [x, f"{name}_w", f"{name}_b"], ["deep" if last else name]))
        if not last:
            ops.append(operator("Relu", [name], [name]))
        x = name
    if model.form == "wide":
        return [*ops, operator("Add", ["deep", "pooled_0"], ["score"])]
    return [*ops, operator("Copy", ["deep"], ["score"])]


def _mixed(model: Model, x: str) -> tuple[list[OperatorDef], str]:
    count, width = len(model.tables.rows), model.tables.width
    found = [f"pooled_{i}" for i in range(model.form == "wide", count)]
    ops = [operator("Concat", [x, *found], ["joined", "sizes"], axis=1)]
    if model.form != "dlrm":
        return ops, "joined"
    return [
        *ops,
        operator("Reshape", ["joined"], ["vectors", "before"], shape=[-1, count + 1, width]),
        operator("BatchMatMul", ["vectors", "vectors"], ["products"], trans_b=1),
        operator("Flatten", ["products"], ["flat"]),
        operator("Concat", [x, "flat"], ["mixed", "other_sizes"], axis=1),
    ], "mixed"


def _updates(model: Model, values: Arrays, gradients: Mapping[str, Any]) -> list[OperatorDef]:
    ops = [operator("WeightedSum", [name, "one", str(gradients[name]), "lr"], [name]) for name in values]
    update = model.tables.update
    for i in range(len(model.tables.rows)):
        table, moment, gradient = f"table_{i}", f"moment_{i}", gradients[f"table_{i}"]
        ids, rows = gradient.indices, gradient.values
        if update == "SGD":
            ops.append(operator("ScatterWeightedSum", [table, "one", ids, rows, "lr"], [table]))
        else:
            ops.append(operator(update, [table, moment, ids, rows, "lr"], [table, moment], epsilon=1e-5))
    return ops
