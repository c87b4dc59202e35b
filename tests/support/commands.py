"""The command line, called in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from caffe2_cli.commands import main


def call(*words: object) -> Result:
    """Run ``caffe2-bridge`` with these arguments. Exceptions that it does not handle are raised."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
