"""Control flow: workspaces that are used again, conditions that write, branches that write different blobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.corpus import Array
from conformance.recording import generator, net, operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def normal(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


def scalar(value: float) -> Array:
    return normal(0, 1) * 0 + value


def body(ops: Sequence[OperatorDef], reads: Sequence[str]) -> NetDef:
    return NetDef(name=f"body_{'_'.join(reads)}_{len(ops)}", op=ops, external_input=reads)


def do(
    ops: Sequence[OperatorDef],
    reads: Mapping[str, str],
    writes: Mapping[str, str],
    locals_read: Sequence[str] = (),
    **args: int,
) -> OperatorDef:
    """Return a Do whose inner names are bound to outer ones; others it has from the workspace."""
    outer_reads, outer_writes = list(reads.values()), list(writes.values())
    names = [*outer_reads, *outer_writes]
    bound = {**reads, **writes}
    return operator(
        "Do",
        [*outer_reads, "stack"],
        [*outer_writes, "stack"],
        net=body(ops, [*reads, *locals_read]),
        inner_blobs=list(bound),
        outer_blobs_idx=[names.index(outer) for outer in bound.values()],
        **args,
    )


def fill(name: str, value: float) -> OperatorDef:
    return operator("ConstantFill", [], [name], shape=[1], value=float(value))


COUNT = [operator("Add", ["i", "one"], ["i"]), operator("LT", ["i", "n"], ["go"])]
NUMBERS = {"one": scalar(1), "n": scalar(3)}

CASES = [
    # A local of a workspace that is used again: set before the loop, carried from iteration to iteration.
    net(
        [
            operator("CreateScope", [], ["stack"]),
            do([operator("Copy", ["x"], ["local"])], {"x": "x"}, {}, reuse_workspace=1),
            fill("i", 0),
            operator("LT", ["i", "n"], ["go"]),
            operator(
                "While",
                ["go", "x", "i", "one", "n", "stack"],
                ["i", "go", "stack", "y"],
                loop_net=body(
                    [
                        do(
                            [operator("Add", ["local", "x"], ["local"]), operator("Copy", ["local"], ["out"])],
                            {"x": "x"},
                            {"out": "y"},
                            ["local"],
                            reuse_workspace=1,
                        ),
                        *COUNT,
                    ],
                    ["x", "i", "one", "n", "stack"],
                ),
            ),
        ],
        {"x": normal(1, 2, 3), "y": normal(2, 2, 3), **NUMBERS},
    ),
    # A condition net that writes more than the condition; no iteration at all.
    *(
        net(
            [
                fill("i", start),
                operator("LT", ["i", "n"], ["go"]),
                operator(
                    "While",
                    ["go", "i", "one", "n", "x", "y"],
                    ["i", "go", "x", "y"],
                    loop_net=body([operator("Add", ["x", "y"], ["x"])], ["x", "y"]),
                    cond_net=body([operator("Add", ["y", "one"], ["y"]), *COUNT], ["i", "one", "n", "y"]),
                ),
            ],
            {"x": normal(3, 2), "y": normal(4, 2), **NUMBERS},
        )
        for start in (0, 5)
    ),
    # Branches that write different blobs, declared or not, in place over blobs from outside.
    *(
        net(
            [
                operator(
                    "If",
                    ["choice", "x", "y"],
                    ["x"],
                    then_net=body([operator("Tanh", ["x"], ["x"]), operator("Copy", ["x"], ["t"])], ["x"]),
                    else_net=body([operator("Relu", ["y"], ["y"]), operator("Add", ["x", "y"], ["t"])], ["x", "y"]),
                ),
                operator("Copy", ["x"], ["x_after"]),
                operator("Copy", ["y"], ["y_after"]),
            ],
            {"choice": generator(0).random(1) < (2 if choice else -1), "x": normal(5, 3), "y": normal(6, 3)},
        )
        for choice in (True, False)
    ),
    # Loops in loops, and a branch in the inner one.
    net(
        [
            fill("i", 0),
            operator("LT", ["i", "n"], ["go"]),
            operator(
                "While",
                ["go", "i", "one", "n", "x", "limit"],
                ["i", "go", "x"],
                loop_net=body(
                    [
                        fill("j", 1),
                        operator("LT", ["j", "n"], ["more"]),
                        operator(
                            "While",
                            ["more", "j", "one", "n", "x", "limit"],
                            ["j", "more", "x"],
                            loop_net=body(
                                [
                                    operator("Add", ["x", "one"], ["x"]),
                                    operator("GT", ["x", "limit"], ["over"]),
                                    operator(
                                        "If",
                                        ["over", "x", "limit"],
                                        ["x"],
                                        then_net=body([operator("Sub", ["x", "limit"], ["x"])], ["x", "limit"]),
                                    ),
                                    operator("Add", ["j", "one"], ["j"]),
                                    operator("LT", ["j", "n"], ["more"]),
                                ],
                                ["x", "one", "limit", "j", "n"],
                            ),
                        ),
                        *COUNT,
                    ],
                    ["i", "one", "n", "x", "limit"],
                ),
            ),
        ],
        {"x": scalar(0.25), "limit": scalar(2.5), **NUMBERS},
    ),
]
