"""``caffe2-bridge demo``."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

import click

from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import YES
from caffe2_cli.output.command_line import typed_path
from caffe2_cli.output.echo import echo

# What is written, and the package data that it is.
_FILES: Final = {
    "lstm/predict_net.pb": "lstm/predict_net.pb",
    "lstm/init_net.pb": "lstm/init_net.pb",
    "cnn/predict_net.pb": "cnn/predict_net.pb",
    "cnn/init_net.pb": "cnn/init_net.pb",
    "letters.npz": "letters.npz",
    "digits.npz": "digits.npz",
    "use_models.py": "use_models.txt",
}
_COMMANDS: Final = (
    "caffe2-bridge show lstm",
    "caffe2-bridge check lstm",
    "caffe2-bridge export lstm -o lstm.onnx",
    "caffe2-bridge validate lstm --other lstm.onnx",
    "caffe2-bridge run lstm.onnx --inputs letters.npz -o next.npz",
    "caffe2-bridge run cnn --inputs digits.npz -o read.npz",
    "python use_models.py",
)


@command(example="caffe2-bridge demo", codes={YES: "The models are written."}, schema=1)
@click.argument("folder", type=options.LOCAL, default="caffe2-bridge-demo")
def demo(folder: Path) -> Outcome:
    """Write two small trained models, an LSTM and a CNN, into FOLDER, and print what to try with them.

    FOLDER is caffe2-bridge-demo by default; files of the same names are replaced. The LSTM continues English text
    letter by letter, the CNN reads digits. Both have an input each, and use_models.py runs them from Python.
    """
    source = files("caffe2_cli") / "demo_files"
    for name, stored in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.joinpath(stored).read_bytes())
    echo(f"{folder / 'lstm'}: an LSTM that continues English text, letter by letter")
    echo(f"{folder / 'cnn'}: a CNN that reads digits")
    echo("What to type next:")
    lines = (f"cd {typed_path(folder)}", *_COMMANDS)
    for line in lines:
        echo(f"  {line}")
    return Outcome({"files": [str(folder / name) for name in _FILES], "commands": lines})
