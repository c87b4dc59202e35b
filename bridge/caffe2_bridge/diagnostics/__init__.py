"""What is wrong with a user's model, and where.

The exceptions::

    BridgeError
    ├── NetFormatError    a file or protobuf is not what it should be; also a RuntimeError
    ├── ConversionError   a net cannot be converted; holds every diagnostic; also a RuntimeError
    ├── OptionError       an option has a value that does not exist
    ├── RunError          a net cannot be run; also a RuntimeError
    └── BuildError        a net cannot be built as asked

They say that the model, the file or the call is at fault. A fault of this project's own code becomes a diagnostic of
code ``internal-error`` (:mod:`.internal`), or surfaces as an ordinary exception in debug mode.
"""

from caffe2_bridge.diagnostics.code import DiagnosticCode, Severity
from caffe2_bridge.diagnostics.codes import CODES
from caffe2_bridge.diagnostics.diagnostic import Diagnostic, Location
from caffe2_bridge.diagnostics.errors import (
    BridgeError,
    BuildError,
    ConversionError,
    NetFormatError,
    OptionError,
    RunError,
)

__all__ = [
    "CODES",
    "BridgeError",
    "BuildError",
    "ConversionError",
    "Diagnostic",
    "DiagnosticCode",
    "Location",
    "NetFormatError",
    "OptionError",
    "RunError",
    "Severity",
]
