"""Correct programs in the styles that people and models really write: all of them must pass."""

import subprocess
import sys
from pathlib import Path

import pytest

from maxatk.problems import load_benchmark
from maxatk.records import TestCase
from maxatk.verifier import Job

TESTS = [TestCase(input="3\n1 2 3\n", output="6\n"), TestCase(input="1\n-5\n", output="-5\n")]

SUM = "input()\nprint(sum(map(int, input().split())))"
PROGRAMS = {
    "input": "n = int(input())\nprint(sum(map(int, input().split())))",
    "open(0)": "n, *a = map(int, open(0).read().split())\nprint(sum(a))",
    "open stdin by number": (
        "import sys\nprint(sum(map(int, open(sys.stdin.fileno()).read().split()[1:])))"
    ),
    "open stdin by name": "n, *a = map(int, open('/dev/stdin').read().split())\nprint(sum(a))",
    "open /dev/fd/0": "n, *a = map(int, open('/dev/fd/0').read().split())\nprint(sum(a))",
    "another stdin": f"import sys\nsys.stdin = open('/dev/stdin')\n{SUM}",
    "os.read": "import os\nprint(sum(map(int, os.read(0, 10**6).split()[1:])))",
    "buffer": (
        "import sys\ndata = sys.stdin.buffer.read().split()\n"
        "sys.stdout.buffer.write(b'%d\\n' % sum(map(int, data[1:])))"
    ),
    "rebound input": f"import sys\ninput = sys.stdin.readline\n{SUM}",
    "lines": (
        "import sys\nlines = [line for line in sys.stdin]\nprint(sum(map(int, lines[1].split())))"
    ),
    "main guard": (
        "def main():\n    input()\n    print(sum(map(int, input().split())))\n"
        "if __name__ == '__main__':\n    main()"
    ),
    "exit()": f"{SUM}\nexit()",
    "sys.exit": f"import sys\n{SUM}\nsys.exit(0)",
    "os._exit after flush": (f"import os, sys\n{SUM}\nsys.stdout.flush()\nos._exit(0)"),
    "atexit": (
        "import atexit\nout = []\natexit.register(lambda: print(*out))\ninput()\n"
        "out.append(sum(map(int, input().split())))"
    ),
    "replaced stdout": (
        "import atexit, io, sys\nbuffer = sys.stdout = io.StringIO()\n"
        "atexit.register(lambda: sys.__stdout__.write(buffer.getvalue()))\n"
        f"{SUM}"
    ),
    "detached streams": (
        "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')\n"
        f"sys.stdin = io.TextIOWrapper(sys.stdin.detach(), encoding='utf-8')\n{SUM}"
    ),
    "no first stdout": f"import sys\nsys.__stdout__ = None\n{SUM}",
    "destructor prints": (
        "input()\nout = open(1, 'w')\nout.write(str(sum(map(int, input().split()))))"
    ),
    "threading with a deep recursion": (
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(1 << 26)\n"
        "def deep(n): return 0 if n == 0 else 1 + deep(n - 1)\n"
        "def main():\n    input()\n    assert deep(50000) == 50000\n"
        "    print(sum(map(int, input().split())))\n"
        "t = threading.Thread(target=main)\nt.start()\nt.join()"
    ),
    "thread left running": (
        "import threading\ninput()\n"
        "threading.Thread(target=lambda: print(sum(map(int, input().split())))).start()"
    ),
    "standard library": (
        "import bisect, collections, copy, dataclasses, datetime, decimal, enum, fractions\n"
        "import functools, heapq, itertools, json, math, operator, random, re, statistics\n"
        "import string, struct, textwrap, time, typing\n"
        "input()\nprint(functools.reduce(operator.add, map(int, input().split())))"
    ),
    "200 MB": f"x = bytearray(200 << 20)\n{SUM}",
    "an alarm": f"import signal\nsignal.alarm(9)\n{SUM}",
    "devices": f"import os\nos.urandom(3)\nopen(os.devnull).read()\n{SUM}",
    "a file": (
        "n, a = open(0).read().split('\\n')[:2]\nopen('work.txt', 'w').write(a)\n"
        "print(sum(map(int, open('/tmp/work.txt').read().split())))"
    ),
    "temporary files": (
        "import os, tempfile\n"
        "with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile('w+') as f:\n"
        "    open(os.path.join(d, 'x'), 'w').write('7')\n    os.rename(d + '/x', d + '/y')\n"
        f"    os.remove(d + '/y')\n{SUM}"
    ),
    "thrown away output": f"import os, sys\nprint('x', file=open(os.devnull, 'w'))\n{SUM}",
    "stack limit": (
        "import resource\nh = resource.getrlimit(resource.RLIMIT_STACK)[1]\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (h, h))\n"
        f"{SUM}"
    ),
    "an event loop": (
        "import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    input()\n"
        "    line = await asyncio.to_thread(input)\n    queue = asyncio.Queue()\n"
        "    await queue.put(sum(map(int, line.split())))\n    print(await queue.get())\n"
        "asyncio.run(main())"
    ),
    "a pair of sockets": (
        "import socket\na, b = socket.socketpair()\na.sendall(open(0, 'rb').read())\n"
        "print(sum(map(int, b.recv(99).split()[1:])))"
    ),
    "a class": (
        "class Solution:\n    def run(self):\n        input()\n"
        "        print(sum(map(int, input().split())))\nSolution().run()"
    ),
    "windows line ends": "n = input()\r\nprint(sum(map(int, input().split())))\r\n",
    "a byte order mark": f"\ufeffn = {SUM}\n",
    "an encoding line": f"# -*- coding: utf-8 -*-\nn = {SUM}",
    "its own file": f"import os\nos.chdir(os.path.dirname(__file__) or '.')\n{SUM}",
    "a future import": f"from __future__ import annotations\n{SUM}",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_correct_programs_pass(verifier, name):
    verdict = verifier.verify(PROGRAMS[name], TESTS, memory_limit=1 << 30)
    assert verdict.reward == 1.0, verdict


@pytest.mark.parametrize(
    "imports",
    [
        "import sys, numpy as np",
        "import sys; import numpy as np",
        "try: import numpy as np\nexcept ImportError: raise",
        "if True: from numpy import *; import numpy as np",
        "import importlib\nnp = importlib.import_module('numpy')",
        "np = __import__('numpy')",
        "import \\\n    numpy as np",
        "from numpy.linalg import norm; import numpy as np",
    ],
)
def test_numpy_may_be_imported_in_any_way(verifier, imports):
    pytest.importorskip("numpy")
    test = TestCase(input="", output="6")
    assert verifier.verify(f"{imports}\nprint(np.arange(4).sum())", [test]).reward == 1.0


def test_numpy_programs_pass(verifier):
    pytest.importorskip("numpy")
    program = "import numpy as np\ninput()\nprint(np.array(input().split(), dtype=int).sum())"
    assert verifier.verify(program, TESTS).reward == 1.0


def test_chance_and_hash_order_are_reproducible(verifier):
    program = (
        "import random\nprint(random.random(), [*{'a', 'b', 'c', 'd', 'e'}], hash('x'))\n1 / 0"
    )
    same = "import random\nrandom.seed\nassert (random.random(), hash('x')) == ({}, {})"
    probe = "import random, sys\nsys.stderr.write(f'{random.random()} {hash(\"x\")}')"
    first = verifier.verify(probe, TESTS).tests
    again = verifier.verify(probe + "\n", TESTS).tests
    assert len({result.stderr for result in (*first, *again)}) == 1
    assert verifier.verify(same.format(*first[0].stderr.split()), TESTS).outcome == "wrong_answer"
    assert verifier.verify(program, TESTS).outcome == "runtime_error"


@pytest.mark.parametrize(
    "drawn",
    [
        "np.random.rand(2)",
        "np.random.randint(0, 1 << 30)",
        "np.random.default_rng().random()",
        "np.random.RandomState().rand()",
    ],
)
def test_chance_of_numpy_is_reproducible_too(verifier, drawn):
    pytest.importorskip("numpy")
    program = f"import numpy as np, sys\nsys.stderr.write(str({drawn}))"
    tests = [
        test
        for changed in (program, program + "\n", "import random\n" + program)
        for test in verifier.verify(changed, TESTS).tests
    ]
    assert len({test.stderr for test in tests}) == 1
    assert float(tests[0].stderr.strip("[] ").split()[0]) > 0


VERIFY_WITH_NUMPY = """
from maxatk.records import TestCase
from maxatk.verifier import Verifier

if __name__ == "__main__":
    with Verifier(workers=1) as verifier:
        program = "import numpy as np\\nprint(np.random.default_rng(0).integers(1, 2))"
        print(verifier.verify(program, [TestCase(input="", output="1")]).outcome)
"""


def test_packages_of_an_environment_behind_a_link(tmp_path):
    pytest.importorskip("numpy")
    (tmp_path / "link").symlink_to(sys.prefix)
    (tmp_path / "script.py").write_text(VERIFY_WITH_NUMPY)
    python = tmp_path / "link" / "bin" / Path(sys.executable).name
    ran = subprocess.run([python, tmp_path / "script.py"], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("passed\n", "")


def test_input_and_output_of_a_megabyte(verifier):
    text = "7" * (1 << 20) + "\n"
    program = "import sys\nsys.stdout.write(sys.stdin.read())"
    assert verifier.verify(program, [TestCase(input=text, output=text)]).reward == 1.0


def test_text_beyond_ascii(verifier):
    program = "print(input()[::-1])"
    assert verifier.verify(program, [TestCase(input="äß€\n", output="€ßä")]).reward == 1.0


@pytest.mark.parametrize("encoding", ["gbk", "cp1251", "ascii", "utf-8", "no-such"])
@pytest.mark.parametrize("before", ["", "\ufeff"])
def test_an_encoding_that_a_comment_names_is_that_of_no_file(verifier, encoding, before):
    program = f"{before}# -*- coding: {encoding} -*-\r\n# сумма, 和\r\nprint('да')\r\n"
    assert verifier.verify(program, [TestCase(input="", output="да")]).reward == 1.0


def test_reference_solutions_of_codecontests_pass(verifier, real_data):
    rows = load_benchmark(
        "code_contests", file=real_data("codecontests/code_contests_verified.jsonl")
    )
    jobs = [
        Job(solved.solution, solved.problem.tests[:3], time_limit=12.0)
        for solved in rows.solved[::12]
    ]
    assert all(verdict.reward == 1.0 for verdict in verifier.verify_many(jobs))
