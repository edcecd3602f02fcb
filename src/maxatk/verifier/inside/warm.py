"""Rehearse in the zygote what every test will do, so that its children need not.

Caches that the interpreter fills on first use would cost each child a page fault and a copied
page, which is most of what a short test costs.
"""

from __future__ import annotations

import os
import sys

from maxatk.verifier.inside import execution, program, protocol, python_program, supervise

_ROUNDS = 12  # the interpreter specialises code that ran eight times
_INPUT = b"3 1 2\nabc 1.5\n"
_SAMPLE = b"""
import sys
def solve(values, total=0):
    for i in range(len(values)):
        total += values[i] * 2 - 1
    return total, [v for v in values if v % 2 == 0], {v: str(v) for v in values}
n = list(map(int, input().split()))
word, number = sys.stdin.readline().strip().split()
try:
    total, even, table = solve(sorted(n, reverse=True))
    while total > 10 and len(even) < 3:
        total //= 2
        even.append(total)
except (ValueError, IndexError) as error:
    print(error)
for key, value in enumerate(table.items()):
    print(key, value[0], f"{value}", "yes" if max(n) > min(n) else "no")
print(*even, sep=" ", end="\\n")
print(word[::-1].upper(), "%.2f" % float(number), sum(n), abs(-3), set(n), " ".join(map(str, n)))
sys.stdout.write("\\n".join(str(x) for x in n) + "\\n")
"""


def rehearse(context: supervise.Context) -> None:
    """Run a sample program through the whole path of a test, both sides of the fork."""
    saved = [os.dup(descriptor) for descriptor in (0, 1, 2)]
    job = os.memfd_create("job")
    results = os.memfd_create("results")
    table = protocol.TEST.pack(len(_INPUT), protocol.KIND_STDIN, 0)
    os.write(job, table + _INPUT)
    seconds = (10.0, 10.0, 10.0, 10.0)  # CPU, wall, idle and compile limit
    memory_and_output = (1 << 30, 1 << 20, 1 << 30)  # output of a test, then of all of them
    request = supervise.Request(
        protocol.REQUEST.pack(1, 0, 0, *seconds, *memory_and_output, protocol.ENTER_PYTHON)
    )
    trial = supervise.Context(
        job, results, context.test_filter, None, base_memory=0, orphans=context.orphans
    )
    trial.scratch = context.scratch
    sample = python_program.Program(compile(_SAMPLE, "<program>", "exec"))
    program.open_standard_files(context.input_file)
    for _ in range(_ROUNDS):
        program.run_tests(sample, table, request, trial)
        os.lseek(0, 0, os.SEEK_SET)
        execution.execute(sample.code, {"__name__": "__main__", "__builtins__": __builtins__})
        sys.stdout.flush()
        sys.stdin.seek(0)
        sys.stdout.seek(0)
    for descriptor, copy in enumerate(saved):
        os.dup2(copy, descriptor)
    for descriptor in (*saved, job, results):
        os.close(descriptor)
