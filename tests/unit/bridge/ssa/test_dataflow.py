from __future__ import annotations

import pytest
from support.nets import parse

from caffe2_bridge.diagnostics import ConversionError, Location
from caffe2_bridge.ssa import check_dataflow, ssa_rewrite


def found(text: str, *known: str) -> list[tuple[str, str]]:
    return [(finding.code, str(finding.location)) for finding in check_dataflow(parse(text), known)]


def test_a_good_net_has_no_findings() -> None:
    assert found('external_input: "x" op { type: "Relu" input: "x" output: "x" }') == []


def test_every_finding_is_reported_in_net_order() -> None:
    text = """
        external_input: "x"
        op { type: "Sum" input: "x" input: "p" input: "p" output: "y" }
        op { type: "Split" input: "x" output: "z" output: "z" }
        op { type: "Relu" input: "p" output: "q" }
        op { type: "Relu" name: "late" input: "r" output: "r" }
    """
    findings = check_dataflow(parse(text), location=Location("predict"))
    undefined = "which no earlier operator writes and which is not an external input [undefined-blob]"
    assert [str(finding) for finding in findings] == [
        f"predict[0] Sum: error: the operator reads blob 'p', {undefined}",
        (
            "predict[1] Split: error: the operator lists output 'z' 2 times [duplicate-output] "
            "(give each output a name of its own)"
        ),
        f"predict[3] Relu (late): error: the operator reads blob 'r', {undefined}",
    ]


def test_known_blobs_and_nets_without_inputs() -> None:
    assert found('external_input: "x" op { type: "FC" input: "x" input: "w" output: "y" }', "w") == []
    assert found('op { type: "FC" input: "x" input: "w" output: "y" }') == []


def test_branches_see_what_is_around_them() -> None:
    text = """
        external_input: "c"
        op { type: "If" input: "c"
             arg { name: "then_net" n { op { type: "Relu" input: "c" output: "t" } } }
             arg { name: "else_net" n { op { type: "Relu" input: "t" output: "u" } } } }
        op { type: "Sum" input: "t" input: "u" output: "y" }
    """
    assert found(text) == [("undefined-blob", "net[0] If > else_net[0] Relu")]


def test_a_loop_body_sees_what_its_condition_writes() -> None:
    text = """
        external_input: "c"
        op { type: "While" input: "c"
             arg { name: "loop_net" n { op { type: "Relu" input: "%s" output: "b" } } }
             arg { name: "cond_net" n { op { type: "LT" input: "c" output: "a" } } } }
    """
    assert found(text % "a") == []
    assert found(text % "b") == [("undefined-blob", "net[0] While > loop_net[0] Relu")]


DO = """
    external_input: "x"
    op { type: "CreateScope" output: "s" }
    op { type: "Do" input: "x" input: "s" output: "y" output: "s" %s
         arg { name: "net" n { op { type: "Sum" input: "in" input: "%s" output: "out" } } }
         arg { name: "inner_blobs" strings: "in" strings: "out" }
         arg { name: "outer_blobs_idx" ints: 0 ints: %d } }
"""


def test_a_do_sees_only_what_it_binds() -> None:
    assert found(DO % ("", "in", 1)) == []
    assert found(DO % ("", "x", 1)) == [("undefined-blob", "net[1] Do > net[0] Sum")]
    assert found(DO % ("", "out", 1)) == [("undefined-blob", "net[1] Do > net[0] Sum")]
    assert found(DO % ("is_gradient_op: true", "x", 1)) == []
    assert found(DO % ('arg { name: "reuse_workspace" i: 1 }', "x", 1)) == []


@pytest.mark.parametrize("position", [0, 7])
def test_bindings_of_a_do_that_real_caffe2_refuses(position: int) -> None:
    assert found(DO % ("", "in", position)) == [("invalid-argument", "net[1] Do")]


RECURRENT = """
    external_input: "x" external_input: "h0" external_input: "w"
    op { type: "RecurrentNetwork" input: "x" input: "h0" output: "h_all" output: "ws"
         arg { name: "recurrent_states" strings: "states" }
         arg { name: "link_internal" strings: "h_prev" strings: "h" strings: "x_t" }
         arg { name: "link_external" strings: "states" strings: "states" strings: "x" }
         arg { name: "alias_src" strings: "states" } arg { name: "alias_dst" strings: "h_all" }
         arg { name: "step_net" %s } }
    op { type: "Relu" input: "states" output: "z" }
"""


@pytest.mark.parametrize("form", ["net", "text"])
def test_a_step_net_sees_its_links_and_what_is_around_it(form: str) -> None:
    def arg(name: str) -> str:
        step = f'op {{ type: "Sum" input: "h_prev" input: "x_t" input: "{name}" output: "h" }}'
        return f"n {{ {step} }}" if form == "net" else f"s: '{step}'"

    assert found(RECURRENT % arg("w")) == []
    assert found(RECURRENT % arg("timestep")) == []
    assert found(RECURRENT % arg("v")) == [("undefined-blob", "net[0] RecurrentNetwork > step_net[0] Sum")]


def test_a_body_that_cannot_be_read_is_a_finding() -> None:
    assert found('op { type: "If" input: "c" }') == [("invalid-argument", "net[0] If")]
    broken = 'op { type: "RecurrentNetwork" input: "x" arg { name: "step_net" s: "op {" } }'
    assert found(broken) == [("invalid-argument", "net[0] RecurrentNetwork")]


def test_ssa_rewrite_raises_the_findings_of_both_nets() -> None:
    init = parse('external_input: "a" op { type: "Relu" input: "b" output: "w" output: "w" }')
    predict = parse('external_input: "x" op { type: "Sum" input: "w" input: "v" output: "y" }')
    with pytest.raises(ConversionError) as raised:
        ssa_rewrite(predict, init)
    assert [(finding.code, str(finding.location)) for finding in raised.value.findings] == [
        ("undefined-blob", "init[0] Relu"),
        ("duplicate-output", "init[0] Relu"),
        ("undefined-blob", "predict[0] Sum"),
    ]
