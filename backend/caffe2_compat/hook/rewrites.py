"""Rewrites of sources that Python, NumPy and protobuf of today refuse.

Each keeps the number of lines, so that tracebacks point into the user's files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from caffe2_compat.hook.compat import NAME


@dataclass(frozen=True)
class Rewrite:
    """A textual replacement of a regular expression, and why it is needed."""

    pattern: re.Pattern[str]
    replacement: str
    reason: str


def _rewrite(pattern: str, replacement: str, reason: str) -> Rewrite:
    return Rewrite(re.compile(pattern), replacement, reason)


REWRITES: Final = (
    _rewrite(
        r"\b(?:np|numpy)\.(bool|complex|float|int|object|str)\b(?!\s*=[^=])",
        rf"{NAME}.builtins.\1",
        "NumPy 1.24 removed its names of Python's types, and NumPy 2 gave numpy.bool another meaning",
    ),
    _rewrite(r"\b(?:np|numpy)\.long\b", f"{NAME}.builtins.int", "NumPy 1.24 removed numpy.long, Python's int"),
    _rewrite(r"\b(np|numpy)\.float_\b", r"\1.float64", "NumPy 2 removed numpy.float_"),
    _rewrite(r"\b(np|numpy)\.complex_\b", r"\1.complex128", "NumPy 2 removed numpy.complex_"),
    _rewrite(r"\b(np|numpy)\.(?:unicode_|unicode)\b", r"\1.str_", "NumPy 2 removed numpy.unicode_"),
    _rewrite(r"\b(np|numpy)\.string_\b", r"\1.bytes_", "NumPy 2 removed numpy.string_"),
    _rewrite(r"\b(np|numpy)\.(?:Inf|Infinity|infty|PINF)\b", r"\1.inf", "NumPy 2 removed numpy.Inf"),
    _rewrite(r"\b(np|numpy)\.(?:NaN|NAN)\b", r"\1.nan", "NumPy 2 removed numpy.NaN"),
    _rewrite(r"\b(np|numpy)\.product\b", r"\1.prod", "NumPy 2 removed numpy.product"),
    _rewrite(r"\b(np|numpy)\.cumproduct\b", r"\1.cumprod", "NumPy 2 removed numpy.cumproduct"),
    _rewrite(r"\b(np|numpy)\.round_\b", r"\1.round", "NumPy 2 removed numpy.round_"),
    _rewrite(r"\b(np|numpy)\.lib\.pad\b", r"\1.pad", "NumPy 2 removed numpy.lib.pad"),
    _rewrite(r"\b(np|numpy)\.trapz\b", r"\1.trapezoid", "NumPy 2.4 removed numpy.trapz"),
    _rewrite(r"\b(?:np|numpy)\.msort\b", f"{NAME}.msort", "NumPy 2 removed numpy.msort"),
    _rewrite(r"\b(?:np|numpy)\.fromstring\b", f"{NAME}.fromstring", "NumPy 2.3 refuses bytes in numpy.fromstring"),
    _rewrite(r"\b(np|numpy)\.alltrue\b", r"\1.all", "NumPy 2 removed numpy.alltrue"),
    _rewrite(r"\b(np|numpy)\.sometrue\b", r"\1.any", "NumPy 2 removed numpy.sometrue"),
    _rewrite(r"\b(np|numpy)\.in1d\b", r"\1.isin", "NumPy 2.4 removed numpy.in1d"),
    _rewrite(r"\b(np|numpy)\.row_stack\b", r"\1.vstack", "NumPy 2.4 removed numpy.row_stack"),
    _rewrite(r"\b(?:np|numpy)\.asscalar\b", f"{NAME}.asscalar", "NumPy 1.23 removed numpy.asscalar"),
    _rewrite(r"\binspect\.getargspec\b", f"{NAME}.getargspec", "Python 3.11 removed inspect.getargspec"),
    _rewrite(
        r"\bcollections\.(Callable|Hashable|Iterable|Iterator|Mapping|MutableMapping|Sequence|Set|Sized)\b",
        r"collections.abc.\1",
        "Python 3.10 removed the abstract classes from collections",
    ),
    _rewrite(r"\btime\.clock\(", "time.perf_counter(", "Python 3.8 removed time.clock"),
    _rewrite(r"\bself\.assert(Equal|NotEqual|AlmostEqual)s\b", r"self.assert\1", "Python 3.12 removed assertEquals"),
    _rewrite(r"\bself\.assertItemsEqual\b", "self.assertCountEqual", "Python 3 renamed assertItemsEqual"),
    _rewrite(r"\bself\.assertRaisesRegexp\b", "self.assertRaisesRegex", "Python 3.12 removed assertRaisesRegexp"),
    _rewrite(r"\bself\.assertRegexpMatches\b", "self.assertRegex", "Python 3.12 removed assertRegexpMatches"),
    _rewrite(r"\bargument\.i = value\b", "argument.i = int(value)", "protobuf refuses booleans for integers"),
    _rewrite(
        r"\bv\.item\(\) if type\(v\) is np\.int_ else v for v in value\b",
        "int(v) for v in value",
        "protobuf refuses booleans for integers",
    ),
    _rewrite(
        r"\btorch\._C\._(?:tensor_impl_raw_handle|wrap_tensor_impl)\b",
        "",
        "PyTorch 2 removed handles of tensors: the extension passes the tensors themselves",
    ),
    _rewrite(
        r"(?<=with extension_loader\.DlopenGuard\(\):\n)( +)ctypes\.CDLL\(path\)",
        rf"\1{NAME}.ignore_library(path)",
        "a library of native operators is made for Caffe2's own runtime",
    ),
    _rewrite(
        r"(?<=f_code\.co_name\)\)\n)( +)frame = frame\.f_back\b",
        rf"\1frame = {NAME}.outer_frame(frame)",
        "the frames of this project's command line around a program are not the program's",
    ),
    _rewrite(r"\bd\.label ==", f"{NAME}.field_label(d) ==", "protobuf 7 removed FieldDescriptor.label"),
)


def rewrite(source: str) -> str:
    """Apply all rewrites to a source file."""
    for item in REWRITES:
        source = item.pattern.sub(item.replacement, source)
    return source
