#!/bin/bash -eu
# Build one fuzzer for each kind of input, with the seeds of scripts/fuzz guided as its corpus.
pip3 install '.[cpu]' hypothesis
export PYTHONPATH=$PWD/tests
for kind in net onnx; do
  printf 'import sys\nfrom fuzz.guided.harness import main\nmain("%s", sys.argv[:1], sys.argv[1:])\n' "$kind" >"$SRC/${kind}_fuzzer.py"
  compile_python_fuzzer "$SRC/${kind}_fuzzer.py" --paths "$PWD/tests"
  python3 -P -m fuzz guided --kind "$kind" --write-only --corpus "$WORK/$kind"
  (cd "$WORK/$kind" && zip -q "$OUT/${kind}_fuzzer_seed_corpus.zip" ./*)
done
