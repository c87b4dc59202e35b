"""Real Caffe2 in processes of its own: one that runs a list of nets and ends, and one that serves and survives."""

from conformance.oracle.runs import (
    OracleError,
    OracleResult,
    OracleRun,
    find_oracle,
    oracle_packages,
    required_oracle,
    run_oracle,
    strings_of,
)
from conformance.oracle.server import OracleDiedError, OracleServer

__all__ = [
    "OracleDiedError",
    "OracleError",
    "OracleResult",
    "OracleRun",
    "OracleServer",
    "find_oracle",
    "oracle_packages",
    "required_oracle",
    "run_oracle",
    "strings_of",
]
