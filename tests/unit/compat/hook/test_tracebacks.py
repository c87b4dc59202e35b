"""Exceptions that end programs: whose frames are printed, and what is said to programs for Python 2."""

from __future__ import annotations

import pytest

from caffe2_bridge.diagnostics import RunError
from caffe2_compat import workspace
from caffe2_compat.hook import compat
from caffe2_compat.hook.finder import compile_source
from caffe2_compat.hook.tracebacks import print_error

ADVICE = "convert it first, for example by 2to3"


def printed(source: str, capsys: pytest.CaptureFixture[str], **names: object) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the test says which
        exec(compile_source(source, "program.py"), {**names, "__name__": "program", compat.NAME: compat})  # noqa: S102
    print_error(caught.value.with_traceback(caught.tb.tb_next))
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "source",
    [
        "print 'a'", "exec 'a = 1'", "try: pass\nexcept ValueError, e: pass", "raise ValueError, 'a'",
        "a <> b", "a = `b`", "a = 0777", "a = 5L", "if 1:\n        a = 1\n\tb = 2", "xrange(3)", "unicode('a')",
        "import urllib2", "import cPickle as pickle", "{}.iteritems()", "if {}.has_key(1): pass",
    ],
)  # fmt: skip
def test_programs_for_python_2(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ADVICE in printed(source, capsys)


@pytest.mark.parametrize(
    "source",
    ["a = (1", "print(1", "a = b =", "unknown()", "import unknown_module", "(1).iteritems()", "{}.unknown()", "1 / 0"],
)
def test_other_errors(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ADVICE not in printed(source, capsys)


def test_frames_of_the_program_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Leave out where this project raised its error, in the one that ended the program and those before it."""
    source = "try:\n    fetch('absent')\nexcept RuntimeError:\n    fetch('other')\n"
    lines = printed(source, capsys, fetch=workspace.FetchBlob).splitlines()
    assert [line.strip() for line in lines if line.startswith(("  ", "Tr", "caffe2"))] == [
        "Traceback (most recent call last):",
        'File "program.py", line 2, in <module>',
        "caffe2_backend.runtime.values.NoBlobError: the workspace has no blob 'absent'",
        "Traceback (most recent call last):",
        'File "program.py", line 4, in <module>',
        "caffe2_backend.runtime.values.NoBlobError: the workspace has no blob 'other'",
    ]


def test_frames_of_faults_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """An error that is not this project's own may be its fault."""
    assert "workspace/names.py" in printed("text(3)", capsys, text=workspace.StringifyProto)


def test_errors_that_follow_from_others(capsys: pytest.CaptureFixture[str]) -> None:
    source = "try:\n    xrange(3)\nexcept NameError as error:\n    raise Error('wrong') from error\n"
    assert ADVICE in printed(source, capsys, Error=RunError)


def test_many_frames(capsys: pytest.CaptureFixture[str]) -> None:
    assert "RecursionError" in printed("def f():\n    f()\nf()", capsys)


def test_an_error_that_follows_from_itself(capsys: pytest.CaptureFixture[str]) -> None:
    source = "try:\n    xrange(3)\nexcept NameError as error:\n    raise error from error\n"
    assert printed(source, capsys).count(ADVICE) == 1
