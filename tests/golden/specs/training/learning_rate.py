"""LearningRate: every policy, before and after each of its turns."""

from __future__ import annotations

import numpy as np
from conformance.recording import Spec, case

POLICIES: dict[str, tuple[dict[str, object], tuple[int, ...]]] = {
    "fixed": ({}, (0, 7)),
    "alter": ({"active_period": 3, "inactive_period": 2, "active_first": False}, (0, 1, 2, 4, 5)),
    "hill": (
        {"num_iter": 10, "start_multiplier": 0.25, "gamma": 0.5, "power": 0.75, "end_multiplier": 0.3},
        (0, 4, 10, 14, 90),
    ),
    "slope": ({"num_iter_1": 5, "multiplier_1": 0.9, "num_iter_2": 15, "multiplier_2": 0.2}, (0, 5, 9, 15, 40)),
    "step": ({"stepsize": 4, "gamma": 0.5}, (0, 3, 4, 17)),
    "exp": ({"gamma": 0.9}, (0, 5)),
    "gate": ({"num_iter": 4, "multiplier_1": 0.5, "multiplier_2": 2.0}, (3, 4)),
    "inv": ({"gamma": 0.1, "power": 0.75}, (0, 30)),
    "poly": ({"max_iter": 50, "power": 1.5}, (0, 20, 50)),
    "linearWarmup": ({"num_iter": 8, "start_multiplier": 0.2}, (0, 3, 8, 9)),
    "constantWarmup": ({"num_iter": 8, "multiplier": 0.2}, (7, 8)),
    "pieceWarmup": ({"n1": 3, "m1": 0.1, "n2": 6, "m2": 0.4, "m3": 0.8}, (2, 3, 6)),
    "composite": (
        {
            "sub_policy_num_iters": [5, 6, 4],
            "sub_policy_0_policy": "exp",
            "sub_policy_0_gamma": 0.9,
            "sub_policy_1_policy": "step",
            "sub_policy_1_stepsize": 2,
            "sub_policy_1_gamma": 0.5,
            "sub_policy_1_lr_scale": 3.0,
            "sub_policy_2_policy": "fixed",
            "sub_policy_2_lr_scale": 0.125,
        },
        (1, 5, 6, 8, 11, 12, 30),
    ),
    "cyclical": ({"max_lr": 0.9, "stepsize": 4, "decay": 0.8}, (0, 3, 4, 6, 8, 13, 21)),
    "cosine": ({"max_lr": 0.8, "min_lr": 0.1, "period": 10, "lr_shrink": 0.9}, (0, 3, 10, 24)),
    "constantThenLinearWarmup": (
        {"start_warmup_multiplier": 0.2, "constant_warmup_num_iter": 5, "linear_warmup_num_iter": 8},
        (0, 4, 5, 9, 13, 20),
    ),
    "compositeCyclical": (
        {
            "start_warmup_multiplier": 0.2,
            "constant_warmup_num_iter": 3,
            "linear_warmup_num_iter": 4,
            "cyclical_max_lr": 0.7,
            "cyclical_step_size": 5,
            "cyclical_decay": 0.9,
        },
        (0, 5, 7, 11, 25),
    ),
    "compositeCosine": (
        {
            "start_warmup_multiplier": 0.2,
            "constant_warmup_num_iter": 3,
            "linear_warmup_num_iter": 4,
            "cosine_max_lr": 0.9,
            "cosine_min_lr": 0.2,
            "cosine_period": 6,
            "cosine_t_mult": 1.5,
            "cosine_lr_shrink": 0.8,
        },
        (0, 5, 7, 11, 25),
    ),
}  # fmt: skip


def at(policy: str, iteration: int, args: dict[str, object], base: float = 0.3) -> Spec:
    return case(
        "LearningRate",
        {"iter": np.array([iteration], np.int64)},
        outputs=["lr"],
        args={"policy": policy, "base_lr": base, **args},  # type: ignore[dict-item] # the values are argument values
    )


CASES = [
    *(at(policy, i, args) for policy, (args, iterations) in POLICIES.items() for i in iterations),
    *(at("cosine", i, {"period": 5, "t_mult": 2.0}) for i in (0, 4, 6, 17)),
    at("cyclical", 6, {"max_lr": -0.9, "stepsize": 4}, base=-0.4),
    at("poly", 12, {"power": 2.0}),
    case(
        "LearningRate",
        {"iter": np.array([3, 9], np.int64)},
        outputs=["lr"],
        args={"policy": "exp", "base_lr": 1.0, "gamma": 0.5},
    ),
    case("LearningRate", {"iter": np.array([3], np.int64)}, outputs=["lr"], args={"policy": "sine", "base_lr": 1.0}),
    case("LearningRate", {"iter": np.array([3], np.int64)}, outputs=["lr"], args={"policy": "fixed"}),
    at("cyclical", 776874954057655137, {"max_lr": 0.9, "stepsize": 5, "decay": 0.9}),
    at("cyclical", 1 << 34, {"max_lr": 0.9, "stepsize": 3, "decay": 0.99}),
    # Iterations of which float32 rounds the place in a period.
    *(
        at("cosine", iteration, {"lr_shrink": shrink, "t_mult": growth})
        for shrink, growth in ((1.0, 1.0), (0.99, 1.0), (1.001, 1.0), (1.0, 1.2))
        for iteration in (2**24 + 1, 20_000_033, 123_456_789, 2**40 + 13, 236_082_100_744_065_626, -(2**31), -(2**63))
    ),
    at("cyclical", -(2**31), {"stepsize": 4}),
    # The first of several iterations counts.
    *(
        case("LearningRate", {"i": np.array([3, 5], np.int64)}, args=args)
        for args in (
            {"policy": "exp", "base_lr": 2.0, "gamma": 0.5},
            *({"policy": "cosine", "base_lr": 2.0, "t_mult": growth} for growth in (0.0, -2.0)),
            *(
                {"policy": policy, "base_lr": 0.5, "linear_warmup_num_iter": -(2**31)}
                for policy in ("constantThenLinearWarmup", "compositeCyclical", "compositeCosine")
            ),
        )
    ),
]
