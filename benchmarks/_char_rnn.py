"""Train examples/char_rnn.py, unmodified, a number of iterations at a time: a contender of programs.py.

Real Caffe2's python runs this file too, so it is written for Python 3.6. Arguments: the copy of Caffe2's Python files
to install the hook for, empty for real Caffe2; the file to train on; the iterations of a turn.
"""

import argparse
import importlib
import os
import sys
import threading

import _worker


def main() -> None:
    """Serve turns; the program's loop waits between them."""
    copy, data, iterations = sys.argv[1:]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    answers = _worker.own_stdout()
    if copy:
        importlib.import_module("caffe2_backend").install_caffe2(copy)
    workspace = importlib.import_module("caffe2.python.workspace")
    char_rnn = importlib.import_module("caffe2.python.examples.char_rnn")
    args = argparse.Namespace(train_data=data, seq_length=25, batch_size=1, iters_to_report=10**9, hidden_size=100)
    program = char_rnn.CharRNN(args)
    program.CreateModel()
    run_net = workspace.RunNet
    go, done = threading.Semaphore(0), threading.Semaphore(0)
    left = [0]

    def run(name: str) -> None:
        if name == program.model.net.Name():
            if left[0] == 0:
                done.release()
                go.acquire()
                left[0] = int(iterations)
            left[0] -= 1
        run_net(name)

    def turn() -> None:
        go.release()
        done.acquire()

    workspace.RunNet = run
    threading.Thread(target=program.TrainModel, daemon=True).start()
    done.acquire()
    _worker.serve(answers, turn)


main()
