"""Run one program, and print its figures as one line of JSON.

Arguments: the program; the copy of Caffe2's Python files to install the hook for, empty for real Caffe2; a folder for
its files.
"""

import json
import os
import sys

from caffe2_tests.programs import harness


def main() -> None:
    """Run the program that the arguments name."""
    name, copy, folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    harness.install(copy)
    from caffe2_tests.programs import images, regression, replicas, sparse, translation

    programs = {
        "toy_regression": regression.toy_regression,
        "mnist": images.mnist,
        "resnet": images.resnet,
        "convnets": images.convnets,
        "data_parallel": replicas.data_parallel,
        "sparse": sparse.optimizers,
        "seq2seq": translation.seq2seq,
    }
    answers.write(json.dumps(programs[name](folder)) + "\n")
    answers.flush()


main()
