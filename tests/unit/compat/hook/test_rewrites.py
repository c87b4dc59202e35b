from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from caffe2_bridge.proto.caffe2_pb2 import Argument
from caffe2_compat.hook import compat
from caffe2_compat.hook.finder import compile_source
from caffe2_compat.hook.rewrites import REWRITES, rewrite

CASES = [
    ("np.bool", bool),
    ("np.complex", complex),
    ("np.float", float),
    ("np.int", int),
    ("np.object", object),
    ("np.str", str),
    ("numpy.long", int),
    ("np.float_", np.float64),
    ("np.complex_", np.complex128),
    ("np.unicode_", np.str_),
    ("np.string_", np.bytes_),
    ("np.Inf", np.inf),
    ("np.NaN is np.nan", True),
    ("np.product([2, 3])", 6),
    ("np.cumproduct([2, 3]).tolist()", [2, 6]),
    ("np.round_(2.5)", 2.0),
    ("np.lib.pad([1], 1, 'constant').tolist()", [0, 1, 0]),
    ("np.trapz([1.0, 2.0])", 1.5),
    ("np.msort([[2, 1], [1, 3]]).tolist()", [[1, 1], [2, 3]]),
    ("np.fromstring(b'abc', dtype=np.uint8).tolist()", [97, 98, 99]),
    ("np.fromstring('abc', np.uint8, 2).flags.writeable", True),
    ("np.fromstring('1 2', sep=' ').tolist()", [1.0, 2.0]),
    ("np.alltrue([True])", True),
    ("np.sometrue([False])", False),
    ("bool(np.in1d([1], [1])[0])", True),
    ("int(np.sum(i for i in range(4)))", 6),
    ("int(np.sum([1, 2]))", 3),
    ("np.array([1 << 32 | 7], dtype=np.int32).tolist()", [7]),
    ("np.array([1 << 32 | 7], np.int32, ndmin=2).tolist()", [[7]]),
    ("np.array([1.5]).tolist()", [1.5]),
    ("np.array([1, 2], copy=False).tolist()", [1, 2]),
    ("(lambda a: np.array(a, copy=False) is a)(np.ones(1))", True),
    ("np.array(Old()).tolist()", [1.0]),
    ("np.array(Old(), np.int32, copy=False).tolist()", [1]),
    ("np.array(Old(), copy=True).flags.owndata", True),
    ("int(np.dtype(np.int32).type((1 << 32) + 7))", 7),
    ("int(np.dtype(np.int32).type(7))", 7),
    ("(int(np.array([2.5])), float(np.array([[2.5]])), int('3'), float(np.float32(2)))", (2, 2.5, 3, 2.0)),
    ("(np.ones(1, np.int32) * np.int64(3)).dtype.name", "int32"),
    ("(np.float64(3) / np.ones(1, np.float32)).dtype.name", "float32"),
    ("(np.ones(1, np.float32) + np.array(3)).dtype.name", "float32"),
    ("(np.ones(1, np.int32) * np.int64(1 << 40)).dtype.name", "int64"),
    ("(np.ones(1, np.int32) - np.float64(0.5)).dtype.name", "float64"),
    ("(np.ones(1, np.int32) ** np.ones(1)).dtype.name", "float64"),
    ("(np.float32(2) * 3).dtype.name", "float64"),
    ("(3.0 - np.float32(2)).dtype.name", "float64"),
    ("(np.ones(1, np.float32) * 3.0).dtype.name", "float32"),
    ("(np.int32(2) // np.int64(2)).dtype.name", "int64"),
    ("('%s' % 'a', [1] * 2, 'a' + str(1), 7 % int('4'))", ("a", [1, 1], "a1", 3)),
    ("np.row_stack([[1]]).shape", (1, 1)),
    ("np.asscalar(np.ones(1))", 1.0),
    ("inspect.getargspec(f).args", ["a", "b"]),
    ("inspect.getargspec(f)[2]", "c"),
    ("collections.Iterable.__name__", "Iterable"),
    ("time.clock() >= 0", True),
]


def f(a: int, b: int = 0, **c: int) -> None: ...


class Old:
    """An object as they were before NumPy 2, whose ``__array__`` has no parameter ``copy``."""

    def __array__(self, dtype: Any = None) -> np.ndarray[Any, Any]:
        return np.ones(1, dtype)


def evaluated(expression: str) -> Any:
    names: dict[str, Any] = {"np": np, "numpy": np, "inspect": inspect, "f": f, "Old": Old, compat.NAME: compat}
    exec(compile_source(f"import collections.abc, time\nresult = {expression}\n", "t.py"), names)  # noqa: S102 - the rewritten source
    return names["result"]


@pytest.mark.parametrize(("expression", "value"), CASES, ids=[expression for expression, _ in CASES])
def test_what_libraries_removed_works(expression: str, value: Any) -> None:
    assert evaluated(expression) == value


@pytest.mark.parametrize(
    "source",
    ["np.bool_", "np.int32", "np.float32", "np.object_", "np.str_", "numpy.integer", "np_float", "d.labels"],
)
def test_other_names_stay(source: str) -> None:
    assert rewrite(source) == source


def test_lines_are_kept() -> None:
    source = "\n".join(expression for expression, _ in CASES)
    assert rewrite(source).count("\n") == source.count("\n")
    assert all(item.reason and "\n" not in item.replacement for item in REWRITES)


@pytest.mark.parametrize(
    ("old", "new"), [("Equals", "Equal"), ("NotEquals", "NotEqual"), ("AlmostEquals", "AlmostEqual"),
                     ("ItemsEqual", "CountEqual"), ("RaisesRegexp", "RaisesRegex"), ("RegexpMatches", "Regex")],
)  # fmt: skip
def test_names_of_unittest(old: str, new: str) -> None:
    assert rewrite(f"self.assert{old}(a, b)") == f"self.assert{new}(a, b)"


def test_booleans_are_integers_in_arguments() -> None:
    source = (
        "argument.ints.extend(v.item() if type(v) is np.int_ else v for v in value)\nvalue = True\nargument.i = value"
    )
    argument = Argument()
    names = {"argument": argument, "value": [True, np.int64(3)], "np": np, compat.NAME: compat}
    exec(compile_source(source, "t.py"), names)  # noqa: S102 - the rewritten source
    assert (list(argument.ints), argument.i) == ([1, 3], 1)


def test_labels_of_fields() -> None:
    fields = Argument.DESCRIPTOR.fields_by_name
    assert compat.field_label(fields["ints"]) == fields["ints"].LABEL_REPEATED
    assert compat.field_label(fields["name"]) == fields["name"].LABEL_OPTIONAL
    assert rewrite("if d.label == d.LABEL_REPEATED:") == f"if {compat.NAME}.field_label(d) == d.LABEL_REPEATED:"


@pytest.mark.parametrize(
    "statement",
    [
        "a[0] = np.array([5.0])",
        "a[0], b = np.array([[5.0]]), 1",
        "for a[0] in [np.array([5.0])]: pass",
        "a[0] += [5.0]",
    ],
)
def test_arrays_of_one_element_can_be_assigned(statement: str) -> None:
    names = {"np": np, "a": np.zeros(2), compat.NAME: compat}
    exec(compile_source(statement, "t.py"), names)  # noqa: S102 - the rewritten source
    assert names["a"].tolist() == [5, 0]


def test_assignments_keep_their_other_rules() -> None:
    names: dict[str, Any] = {"a": np.zeros(3), "d": {}, "n": [[1, 2]], compat.NAME: compat}
    exec(compile_source("a[1:] = [2, 3]; d['k'] = [1]; n[0][1:] = []; a[0] -= 1; del n[0][0]", "t.py"), names)  # noqa: S102 - the rewritten source
    assert (names["a"].tolist(), names["d"], names["n"]) == ([-1, 2, 3], {"k": [1]}, [[]])
    with pytest.raises(ValueError, match="sequence"):
        exec(compile_source("a[0] = [1, 2]", "t.py"), names)  # noqa: S102 - the rewritten source


def test_libraries_of_native_operators_are_named_and_not_loaded() -> None:
    source = "with extension_loader.DlopenGuard():\n            ctypes.CDLL(path)\n"
    rewritten = rewrite(source)
    assert rewritten == f"with extension_loader.DlopenGuard():\n            {compat.NAME}.ignore_library(path)\n"
    assert rewrite("ctypes.CDLL(path)") == "ctypes.CDLL(path)", "what a program loads itself is loaded"
    with pytest.warns(RuntimeWarning, match=r"my_ops\.so is not loaded"):
        compat.ignore_library("my_ops.so")
    compat.ignore_library("libcaffe2_detectron_ops_gpu.so")  # whose operators are there


def test_lines_that_added_an_operator_end_where_the_program_begins() -> None:
    """Leave out the frames of the command that runs the program, whose module has another name here."""
    line = "result.append((frame.f_lineno, frame.f_code.co_name))\n        frame = frame.f_back\n"
    assert f"frame = {compat.NAME}.outer_frame(frame)" in rewrite(line)
    frame = inspect.currentframe()
    assert frame is not None
    assert compat.outer_frame(frame) is frame.f_back

    def inner() -> object:
        here = inspect.currentframe()
        assert here is not None
        return compat.outer_frame(here)

    names: dict[str, Any] = {"__name__": "caffe2_compat.hook.run", "inner": inner}
    exec("def run(): return inner()\nfound = run()", names)  # noqa: S102 - a caller of this module's name
    assert names["found"] is None
