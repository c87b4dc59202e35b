"""Build a library that, preloaded into real Caffe2, logs the arguments that its operators read.

usage: build_tracer.py LIBTORCH_CPU.so DIRECTORY      needs gcc, nm and c++filt on x86-64 Linux

Every exported method of ``caffe2::ArgumentHelper`` that takes a name is replaced by a trampoline: it logs the type of
the operator under observation, the name and the C++ type of the value, then jumps to the original with all registers
as they were.
"""

from __future__ import annotations  # Python 3.8 runs this

import re
import subprocess
import sys
from pathlib import Path

_PRELUDE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static FILE *log_file;
static char current_type[256];
static void *originals[%(count)d];
static const char *symbols[%(count)d] = {%(symbols)s};
static const char *kinds[%(count)d] = {%(kinds)s};
void argtrace_open(const char *path) { log_file = fopen(path, "a"); }
void argtrace_set(const char *type) { strncpy(current_type, type, 255); if (log_file) fflush(log_file); }
void *argtrace_log(int index, void **name) {
  /* A std::string starts with the pointer to its characters. */
  if (log_file && current_type[0])
    fprintf(log_file, "%%s\t%%s\t%%s\n", current_type, (const char *)*name, kinds[index]);
  if (!originals[index]) originals[index] = dlsym(RTLD_NEXT, symbols[index]);
  return originals[index];
}
"""

# Saves the registers that hold arguments (integers and the first floating-point one), logs, and jumps on.
_TRAMPOLINE = r"""
__asm__(".globl %(symbol)s\n.type %(symbol)s,@function\n%(symbol)s:\n"
  "pushq %%rdi\npushq %%rsi\npushq %%rdx\npushq %%rcx\npushq %%r8\npushq %%r9\n"
  "subq $136,%%rsp\nmovdqu %%xmm0,(%%rsp)\n"
  "movq %%%(register)s,%%rsi\nmovl $%(index)d,%%edi\ncall argtrace_log@PLT\n"
  "movdqu (%%rsp),%%xmm0\naddq $136,%%rsp\n"
  "popq %%r9\npopq %%r8\npopq %%rcx\npopq %%rdx\npopq %%rsi\npopq %%rdi\njmp *%%rax\n");
"""


def _output(*command: str, text: str = "") -> list[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.splitlines()


def main(library: str, directory: str) -> None:
    """Write ``trace.c`` into ``directory``, build ``trace.so`` beside it and print its path."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    exported = _output("nm", "-D", "--defined-only", library)
    symbols = [line.split()[-1] for line in exported if "_ZNK6caffe214ArgumentHelper" in line]
    names = _output("c++filt", text="\n".join(symbols))
    # What is in brackets behind the method: int, bool, long and such. Methods that only look have none.
    kinds = [re.findall(r"Get(?:Single|Repeated)Argument<(\w[\w ]*)>", name) for name in names]
    tables = {"symbols": symbols, "kinds": [found[0] if found else "" for found in kinds]}
    texts = {name: ", ".join('"%s"' % text for text in values) for name, values in tables.items()}
    parts = [_PRELUDE % {"count": len(symbols), **texts}]
    for index, (symbol, name) in enumerate(zip(symbols, names)):
        # A result that is returned in memory takes the first register, and the name moves on by one.
        register = "rdx" if name.startswith(("std::", "caffe2::NetDef")) else "rsi"
        parts.append(_TRAMPOLINE % {"symbol": symbol, "register": register, "index": index})
    source, target = folder / "trace.c", folder / "trace.so"
    source.write_text("".join(parts))
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(target), str(source), "-ldl"], check=True)
    print(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
