"""Programs that try to pass, to look, to escape or to harm: each line says what must happen."""

import os
from pathlib import Path

import pytest

from maxatk.records import Outcome, TestCase

EXPECTED = "42-expected-output\n"
TEST = TestCase(input="question\n", output=EXPECTED)

# Anything but a pass is right for these; they must also not hang and not hurt the next program.
FAKE_PASSES = {
    "exit early": "import sys; sys.exit(0)",
    "exit by os": "import os; os._exit(0)",
    "patch the exit": "import os; os._exit = lambda s: None",
    "patch sys.exit": "import sys; sys.exit = lambda *a: None; raise SystemExit(0)",
    "walk frames": """
import sys
f = sys._getframe()
while f:
    for name, value in list(f.f_locals.items()) + list(f.f_globals.items()):
        if '42-expected' in repr(value)[:100000] and name not in ('value', 'name'):
            print('42-' + 'expected-output')
    f = f.f_back
""",
    "search the heap": """
import gc
needle = 'tuptuo-detcepxe-24'[::-1]
for o in gc.get_objects():
    if isinstance(o, (dict, list, tuple)) and o is not globals():
        if any(isinstance(x, (str, bytes)) and needle in str(x) for x in
               (list(o.values()) if isinstance(o, dict) else o)):
            print(needle)
""",
    "read every descriptor": """
import os
for fd in range(3, 1024):
    try:
        os.write(1, os.pread(fd, 4096, 0))
    except OSError:
        pass
""",
    "write every descriptor": """
import os
for fd in range(2, 1024):
    try:
        os.write(fd, b'\\1' * 4096)
    except OSError:
        pass
""",
    "unwind into the caller": """
import sys
def trace(frame, event, arg):
    return trace
sys.settrace(trace)
frame = sys._getframe()
while frame.f_back:
    frame = frame.f_back
    frame.f_trace = trace
raise SystemExit(0)
""",
    "patch the judge": """
import sys
for name, module in list(sys.modules.items()):
    if 'maxatk' in name:
        for key in list(vars(module)):
            try:
                setattr(module, key, lambda *a, **k: 0)
            except Exception:
                pass
""",
    "hostile stdout": """
import sys
class S:
    closed = False
    def flush(self): raise SystemExit(0)
    def write(self, s): pass
sys.stdout = sys.stderr = S()
""",
    "hostile excepthook": "import sys\nsys.excepthook = lambda *a: sys.exit(0)\n1 / 0",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)",
    "replace builtins": "import builtins\nbuiltins.exec = builtins.print = lambda *a: None",
    "close all": "import os\nos.closerange(0, 100)",
    "truncate stdin": "import os\nos.ftruncate(0, 0); os.pwrite(0, b'42', 0)",
}


@pytest.mark.parametrize("name", FAKE_PASSES)
def test_no_pass_can_be_faked(verifier, name):
    result = verifier.verify(FAKE_PASSES[name], [TEST, TEST], time_limit=1.0)
    assert all(test.outcome is not Outcome.PASSED for test in result.tests)
    assert Outcome.INFRA_ERROR not in [test.outcome for test in result.tests]


# Each prints "held" where the attempt is refused with an OSError, and nothing else passes.
REFUSED = {
    "fork": "os.fork()",
    "vfork and exec": "__import__('subprocess').run(['/bin/true'])",
    "exec": "os.execv('/bin/sh', ['sh'])",
    "exec a descriptor": "os.execve(os.open(os.__file__, 0), ['x'], {})",
    "system": "[None for _ in range(1) if os.system('true') == 0] or fail()",
    "socket": "__import__('socket').socket()",
    "unix socket": "__import__('socket').socket(__import__('socket').AF_UNIX)",
    "socket pair": "__import__('socket').socketpair()",
    "kill the parent": "os.kill(os.getppid(), 9)",
    "kill everybody": "os.kill(-1, 9)",
    "kill the group": "os.killpg(0, 9)",
    "signal itself": "os.kill(os.getpid(), 9)",
    "stop itself": "__import__('signal').raise_signal(19)",
    "leave the session": "os.setsid()",
    "leave the group": "os.setpgid(0, 0)",
    "read passwd": "open('/etc/passwd')",
    "read shadow": "open('/etc/shadow')",
    "read the host's root": "os.listdir('/root') and os.listdir('/root/..') and open('/etc/hosts')",
    "read command lines": "open('/proc/1/cmdline')",
    "read own memory map": "open('/proc/self/maps')",
    "read parent memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "climb out": "open('/../../../etc/hostname')",
    "write a file": "open('/tmp/x', 'w')",
    "write beside itself": "open('x', 'w')",
    "write a library": "open(os.__file__, 'a')",
    "make a folder": "os.mkdir('/tmp/x')",
    "make a link": "os.symlink('/etc', '/tmp/etc')",
    "remove a file": "os.unlink(os.__file__)",
    "rename a file": "os.rename(os.__file__, os.__file__ + 'x')",
    "change a mode": "os.chmod(os.__file__, 0o777)",
    "change the folder": "os.chdir('/')",
    "change the root": "os.chroot('/')",
    "become root": "os.setuid(0)",
    "memory file": "os.memfd_create('x')",
    "mount": "call(165, b'x', b'/', b'tmpfs', 0, 0)",
    "unshare": "call(272, 0x10000000)",
    "ptrace": "call(101, 16, os.getppid(), 0, 0)",
    "read another's memory": "call(310, os.getppid(), 0, 0, 0, 0, 0)",
    "bpf": "call(321, 0, 0, 0)",
    "io_uring": "call(425, 1, 0)",
    "userfaultfd": "call(323, 0)",
    "keyctl": "call(250, 0, -3, 1)",
    "perf": "call(298, 0, 0, -1, -1, 0)",
    "new filter": "call(317, 1, 0, 0)",
    "raw clone": "call(56, 17, 0, 0, 0, 0)",
    "clone3": "call(435, 0, 0)",
    "share memory": "call(29, 0, 4096, 0o1777)",
    "message queue": "call(240, b'/x', 66, 0o600, 0)",
    "limits of another": "__import__('resource').prlimit(os.getppid(), 7)",
    "its own CPU limit": "__import__('resource').setrlimit(0, (1, 1))",
    "more memory": "__import__('resource').setrlimit(9, (-1, -1)) or fail()",
    "signals by file": "__import__('fcntl').fcntl(0, 8, os.getppid())",
    "flags of shared files": "__import__('fcntl').fcntl(0, 4, 0o2000)",
    "lock of shared files": "__import__('fcntl').flock(0, 2)",
    "inject terminal input": "__import__('fcntl').ioctl(0, 0x5412, b'x')",
    "priority": "os.nice(-5)",
    "affinity": "os.sched_setaffinity(0, [0])",
    "hostname": "__import__('socket').sethostname('x')",
}
ATTEMPT = """
import os
def fail(): raise PermissionError
def call(*args):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    fixed = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    if libc.syscall(*fixed) < 0 and ctypes.get_errno() in (1, 38):
        raise PermissionError
try:
    {}
except (OSError, ValueError):
    print('held')
"""


@pytest.mark.parametrize("name", REFUSED)
def test_the_sandbox_holds(verifier, name):
    if "call(" in REFUSED[name] and os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86_64")
    program = ATTEMPT.format(REFUSED[name])
    (result,) = verifier.verify(program, [TestCase(input="", output="held")]).tests
    assert result.outcome is Outcome.PASSED, result


RESOURCES = {
    "endless loop": ("while True: pass", Outcome.TIME_LIMIT),
    "endless loop in C": ("sum(range(10**12))", Outcome.TIME_LIMIT),
    "ignore every exception": (
        "while True:\n try:\n  while True: pass\n except BaseException: pass",
        Outcome.TIME_LIMIT,
    ),
    "ignore signals": (
        "import signal\n[signal.signal(s, signal.SIG_IGN) for s in (24, 15, 14)]\nwhile 1: pass",
        Outcome.TIME_LIMIT,
    ),
    "loop at exit": (
        "import atexit\n@atexit.register\ndef f():\n while 1: pass",
        Outcome.TIME_LIMIT,
    ),
    "busy threads": (
        "import threading\ndef f():\n while 1: pass\n"
        "[threading.Thread(target=f).start() for _ in range(4)]",
        Outcome.TIME_LIMIT,
    ),
    "memory at once": ("x = bytearray(1 << 34)", Outcome.MEMORY_LIMIT),
    "memory in steps": ("x = []\nwhile 1: x.append(bytearray(1 << 24))", Outcome.MEMORY_LIMIT),
    "big integer": ("x = 1 << (1 << 36)", Outcome.MEMORY_LIMIT),
    "flood stdout": ("while 1: print('x' * 65536)", Outcome.OUTPUT_LIMIT),
    "flood stderr": (
        "import sys\nwhile 1: sys.stderr.write('x' * 65536)",
        Outcome.OUTPUT_LIMIT,
    ),
    "sparse stdout": ("import os\nos.ftruncate(1, 1 << 40)", Outcome.RUNTIME_ERROR),
    "endless recursion": ("def f(): f()\nf()", Outcome.RUNTIME_ERROR),
    "deep C recursion": (
        "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n"
        "    def __getattr__(self, name): return getattr(self, 'y' if name == 'x' else 'x')\nA().y",
        Outcome.RUNTIME_ERROR,
    ),
    "use up descriptors": (
        "import os\nx = []\nwhile 1: x.append(os.dup(0))",
        Outcome.RUNTIME_ERROR,
    ),
    "use up threads": (
        "import threading, time\nthreading.stack_size(32768)\n"
        "while 1: threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
        Outcome.RUNTIME_ERROR,
    ),
    "crash": ("import ctypes; ctypes.string_at(0)", Outcome.RUNTIME_ERROR),
    "abort": ("import os; os.abort()", Outcome.RUNTIME_ERROR),
    "close stdin": ("import sys; sys.stdin.close(); input()", Outcome.RUNTIME_ERROR),
    "huge source": ("x = 1\n" * 300_000, Outcome.COMPILE_ERROR),
    "nested source": ("(" * 5000 + ")" * 5000, Outcome.COMPILE_ERROR),
    "compile bomb": ("x = " + "-" * 200_000 + "1", Outcome.COMPILE_ERROR),
    "null byte": ("print(1)\0", Outcome.COMPILE_ERROR),
    "lone surrogate": ("print('\ud800')", Outcome.COMPILE_ERROR),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_no_resource_runs_out(verifier, name):
    program, outcome = RESOURCES[name]
    verdict = verifier.verify(program, [TEST], time_limit=0.5, memory_limit=1 << 27)
    assert verdict.outcome == outcome, verdict
    assert len(verdict.tests[0].stderr) <= 2048


def test_a_constant_that_the_compiler_would_fold_is_no_bomb(verifier):
    verdict = verifier.verify("x = 'a' * (1 << 30) * (1 << 10)", [TEST], time_limit=0.5)
    assert verdict.outcome in (Outcome.MEMORY_LIMIT, Outcome.COMPILE_ERROR)


def test_a_sleeper_meets_the_wall_limit(verifier):
    verdict = verifier.verify("import time; time.sleep(1000)", [TEST], time_limit=0.01)
    assert verdict.outcome is Outcome.TIME_LIMIT
    assert verdict.tests[0].cpu_seconds < 0.5


def test_nothing_crosses_from_test_to_test(verifier):
    program = """
import os, sys
seen = os.pread(1, 100, 0) + os.pread(2, 100, 0)
flags = os.lseek(1, 0, 1) + os.lseek(2, 0, 1)
print(len(seen), flags, hasattr(sys, 'mark'), input())
sys.mark = 1
sys.stdout.flush()
os.lseek(1, 1 << 20, 0)
os.lseek(1, 0, 2)
sys.stderr.write('trace')
"""
    tests = [TestCase(input=f"{i}\n", output=f"0 0 False {i}\n") for i in range(3)]
    assert verifier.verify(program, tests).reward == 1.0


def test_memory_after_a_program_is_not_left_to_the_next(verifier):
    first = "secret = 'SECRET' + 'OF_THE_FIRST'\nprint(secret)\nimport sys\nsys.stdout.flush()"
    second = """
import gc
needle = 'TSRIF_EHT_FOTERCES'[::-1]
print(any(needle in str(o)[:100000] for o in gc.get_objects() if o is not globals()))
"""
    verifier.verify(first, [TestCase(input="", output="")])
    assert verifier.verify(second, [TestCase(input="", output="False")]).reward == 1.0


def test_no_file_is_left_behind(verifier):
    before = set(Path("/tmp").iterdir())
    for program in list(FAKE_PASSES.values())[:4]:
        verifier.verify(program, [TEST])
    left = {path for path in set(Path("/tmp").iterdir()) - before if "maxatk" in path.name}
    assert not left
