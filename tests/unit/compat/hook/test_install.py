"""The hook in processes of their own, on a small copy made here: imports, programs, tracebacks."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.paths import ROOT

CORE = """\
import inspect
import numpy as np
from caffe2.proto import caffe2_pb2
import caffe2.python._import_c_extension as C

FLOAT = np.float
SPEC = inspect.getargspec(lambda a: a).args


def fail():
    raise ValueError("as it is in the file")
"""
EXTENSION = """\
from caffe2.python.caffe2_pybind11_state_gpu import *
"""
FILES = {
    "caffe2/__init__.py": "raise ImportError('not read')\n",
    "caffe2/python/__init__.py": "raise ImportError('not read')\n",
    "caffe2/python/core.py": CORE,
    "caffe2/python/_import_c_extension.py": EXTENSION,
    "caffe2/python/examples/net.py": "import sys\nprint(__name__, sys.argv[1:])\n",
    "caffe2/python/helpers/__init__.py": "from caffe2.python.core import FLOAT\n",
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    root = tmp_path / "copy"
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def run(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run this Python with a program, or the command ``caffe2-bridge python``."""
    start = ["-c", code] if code else ["-c", "from caffe2_cli.commands import main; main()", "python"]
    path = ":".join(str(ROOT / name) for name in ("bridge", "frontend", "backend"))
    command = [sys.executable, *start, *arguments]
    return subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)  # noqa: S603 - ours


IMPORT = """
import sys
from caffe2_backend import install_caffe2
print(install_caffe2(sys.argv[1]) == install_caffe2(sys.argv[1]))
from caffe2.python import core
from caffe2.python.helpers import FLOAT
from caffe2_compat import workspace
import caffe2.python.examples.net
print(core.FLOAT, FLOAT, core.SPEC, core.__file__)
core.C.feed_blob("x", __import__("numpy").ones(2))
print(workspace.FetchBlob("x"), core.caffe2_pb2.NetDef().DESCRIPTOR.file.package)
"""


def test_import_from_a_folder_which_is_not_written(copy: Path) -> None:
    before = sorted(copy.rglob("*"))
    result = run(str(copy), code=IMPORT)
    assert result.stderr == ""
    core = copy / "caffe2" / "python" / "core.py"
    assert result.stdout.splitlines() == [
        "True",
        f"caffe2.python.examples.net ['{copy}']",
        f"<class 'float'> <class 'float'> ['a'] {core}",
        "[1. 1.] caffe2_bridge.proto",
    ]
    assert sorted(copy.rglob("*")) == before


def test_import_from_a_wheel(copy: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "torch.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in FILES:
            archive.write(copy / name, name)
    result = run(str(wheel), code=IMPORT)
    assert (result.stderr, result.stdout.splitlines()[-1]) == ("", "[1. 1.] caffe2_bridge.proto")
    result = run("--caffe2", str(wheel), "-m", "caffe2.python.examples.net", "a", "--b")
    assert (result.stderr, result.stdout) == ("", "__main__ ['a', '--b']\n")


def test_a_program_with_its_arguments(copy: Path, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import sys, other\nimport numpy as np\nfrom caffe2.python import core\n"
        "print(__name__, sys.argv[1:], np.int, other.x, core.FLOAT)\n"
    )
    (tmp_path / "other.py").write_text("x = 1\n")
    result = run("--caffe2", str(copy), str(program), "--steps", "3", "-m")
    assert result.stderr == ""
    assert result.stdout == "__main__ ['--steps', '3', '-m'] <class 'int'> 1 <class 'float'>\n"


def test_modules_of_a_program_are_rewritten(copy: Path, tmp_path: Path) -> None:
    """Import beside the program, from packages, and where the program looks; installed ones are not rewritten."""
    files = {
        "train.py": "import sys\nsys.path.append('elsewhere')\nimport beside, inner.deep, far\nimport installed\n",
        "beside.py": "import numpy as np\nprint(np.zeros(2, np.float).dtype, np.lib.pad([1], 1, 'constant'))\n",
        "inner/__init__.py": "",
        "inner/deep.py": "from . import other\n",
        "inner/other.py": "import numpy\nprint(numpy.product([2, 3]), __name__, __file__.endswith('other.py'))\n",
        "elsewhere/far.py": "import numpy as np\nprint(np.int)\n",
        "site-packages/installed.py": "import numpy as np\nprint(hasattr(np, 'float'))\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content.replace("elsewhere", str(tmp_path / "elsewhere")))
    program = tmp_path / "train.py"
    program.write_text(f"import sys\nsys.path.append({str(tmp_path / 'site-packages')!r})\n{program.read_text()}")
    result = run("--caffe2", str(copy), str(program))
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "float64 [0 1 0]", "6 inner.other True", "<class 'int'>", "False",
    ]  # fmt: skip
    assert not list(tmp_path.glob("**/__pycache__/beside*"))


def test_the_traceback_of_a_program_is_its_own(copy: Path, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("from caffe2.python import core\ncore.fail()\n")
    result = run("--caffe2", str(copy), str(program))
    assert result.returncode == 1
    lines = [line.strip() for line in result.stderr.splitlines() if "^" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        f'File "{program}", line 2, in <module>',
        "core.fail()",
        f'File "{copy}/caffe2/python/core.py", line 11, in fail',
        'raise ValueError("as it is in the file")',
        "ValueError: as it is in the file",
    ]


def test_modules_that_are_not_caffe2s(copy: Path) -> None:
    result = run("--caffe2", str(copy), "-m", "json.tool", "--help")
    assert (result.returncode, "usage" in result.stdout) == (0, True)
    assert "No module named caffe2.python.none" in run("--caffe2", str(copy), "-m", "caffe2.python.none").stderr


def test_errors_before_the_program_runs(copy: Path, tmp_path: Path) -> None:
    result = run("--caffe2", str(tmp_path), "train.py")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {tmp_path} does not contain Caffe2's Python files")
    assert "train.py" in run("--caffe2", str(copy), str(tmp_path / "train.py")).stderr


def test_another_copy(copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "caffe2" / "python"
    other.mkdir(parents=True)
    (other / "core.py").touch()
    code = f"from caffe2_backend import install_caffe2 as i\ni({str(copy)!r})\ni()\ni({str(tmp_path)!r})"
    assert f"Caffe2's Python files are installed from {copy} already" in run(code=code).stderr


def test_caffe2_that_was_imported_before(copy: Path) -> None:
    code = f"import sys, caffe2_backend\nsys.modules['caffe2'] = sys\ncaffe2_backend.install_caffe2({str(copy)!r})"
    assert "call install_caffe2 before the first import" in run(code=code).stderr


LEFT_OUT = """
import sys
from caffe2_backend import install_caffe2
install_caffe2(sys.argv[1])
from caffe2.python import core
try:
    core.C.NNModule()
except RuntimeError as error:
    print(error)
try:
    core.C.Graph.make
except RuntimeError as error:
    print(error)
class Derived(core.C.NNModule):
    pass
"""


def test_names_that_are_left_out_say_so(copy: Path) -> None:
    result = run(str(copy), code=LEFT_OUT)
    assert result.stderr == ""
    module, graph = result.stdout.splitlines()
    assert module.startswith("caffe2_pybind11_state.NNModule does not exist here: nomnigraph")
    assert graph.startswith("caffe2_pybind11_state.Graph does not exist here: nomnigraph")


LOG = """
import sys


class Log:
    def __init__(self):
        self.itself, self.file = self, open(sys.argv[1], "w")


log = Log()
log.file.write("x")
"""


def test_files_that_a_program_leaves_open_are_written(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(LOG)
    result = run("--caffe2", str(copy), str(tmp_path / "program.py"), str(tmp_path / "log"))
    assert result.stderr == ""
    assert (tmp_path / "log").read_text() == "x"
