"""models/seq2seq: train.py and translate.py, unmodified, as a user calls them."""

import contextlib
import io
import os
import random
import sys
from typing import Any, Dict, List

from caffe2_tests.programs.harness import Figures, caffe2, feed_parameters

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "red": "rot", "green": "gruen", "car": "wagen", "tree": "baum"}
SENTENCES = 64
COMMON = [
    "--unk-threshold", "0", "--use-attention", "--encoder-cell-num-units", "16",
    "--decoder-cell-num-units", "16", "--encoder-embedding-size", "8", "--decoder-embedding-size", "8",
    "--encoder-num-layers", "1", "--decoder-num-layers", "1",
]  # fmt: skip


def _write_corpora(folder: str) -> Dict[str, str]:
    chance = random.Random(4)
    pairs: List[Any] = []
    for _ in range(SENTENCES):
        words = [chance.choice(sorted(WORDS)) for _ in range(chance.randint(2, 5))]
        pairs.append((" ".join(words), " ".join(WORDS[word] for word in reversed(words))))
    paths = {}
    for i, language in enumerate(("source", "target")):
        paths[language] = os.path.join(folder, language + ".txt")
        with open(paths[language], "w") as file:
            file.write("".join(pair[i] + "\n" for pair in pairs))
    return paths


def seq2seq(folder: str) -> Figures:
    """Train a small model with attention and a bidirectional encoder, then translate by beam search."""
    workspace, train, translate = (
        caffe2(name) for name in ("workspace", "models.seq2seq.train", "models.seq2seq.translate")
    )
    paths = _write_corpora(folder)
    checkpoint = os.path.join(folder, "model")
    losses: List[float] = []
    step, initialize = train.Seq2SeqModelCaffe2.step, train.Seq2SeqModelCaffe2._init_model

    def watched(self: Any, batch: Any, forward_only: bool) -> Any:
        loss = step(self, batch, forward_only)
        losses.append(float(loss))
        return loss

    def initialized(self: Any) -> None:
        initialize(self)
        feed_parameters(self.model.GetAllParams())

    train.Seq2SeqModelCaffe2.step, train.Seq2SeqModelCaffe2._init_model = watched, initialized
    corpora = ["--source-corpus", paths["source"], "--target-corpus", paths["target"]]
    evaluated = ["--source-corpus-eval", paths["source"], "--target-corpus-eval", paths["target"]]
    options = ["--epochs", "12", "--batch-size", "8", "--learning-rate", "0.5", "--checkpoint", checkpoint]
    sys.argv = ["train.py", *corpora, *evaluated, *COMMON, *options]
    train.main()

    workspace.ResetWorkspace()
    sys.argv = ["translate.py", *corpora, *COMMON, "--beam-size", "3", "--checkpoint", checkpoint + "-11"]
    given = "one red car\ngreen tree three\ntwo two two\ncar\n"
    text = io.StringIO()
    stdin, sys.stdin = sys.stdin, io.StringIO(given)
    try:
        with contextlib.redirect_stdout(text):
            translate.main()
    finally:
        sys.stdin = stdin
    return {"losses": losses, "translations": text.getvalue().splitlines()}
