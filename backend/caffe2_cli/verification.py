"""``--verify``: compare what a command wrote with the model that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from caffe2_bridge import Model
from caffe2_bridge.storage import AnyPath
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import say
from caffe2_cli.output.validation_tables import print_circumstances, print_report
from caffe2_validation.api import run_validation
from caffe2_validation.options import ValidationOptions
from caffe2_validation.report import NOT_COMPARED_WITH_CAFFE2

if TYPE_CHECKING:
    from caffe2_validation.report import ValidationReport


def verify(model: Model | AnyPath, written: AnyPath, **options: Any) -> ValidationReport:
    """Compare two models, the second a file that was written, and print the verdict: all of the report if they differ.

    ``options``: those of the comparison. Raises BridgeError if it cannot be done, OSError.
    """
    with progress("verifying"):
        report = run_validation(model, None, written, ValidationOptions(**options))
    if report.exit_code:
        print_report(report)
        print_circumstances(report)
    else:
        cases = f"{len(report.cases)} case{'' if len(report.cases) == 1 else 's'}"
        scope = "" if report.compared_with_caffe2 else f"; {NOT_COMPARED_WITH_CAFFE2}"
        say(f"verified: what was written agrees with the model ({cases}{scope})")
    return report
