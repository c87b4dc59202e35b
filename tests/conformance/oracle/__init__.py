"""Real Caffe2 in processes of its own, which serve and survive what nets do."""

from conformance.oracle.runs import (
    OracleError,
    OracleResult,
    OracleRun,
    find_oracle,
    oracle_packages,
    required_oracle,
    strings_of,
)
from conformance.oracle.server import OracleDiedError, OracleServer, run_oracle

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
