"""Attacks on the verifier, in groups; each row holds a program and what must happen to it.

`ALL` is what the tests iterate: as root, as an ordinary user and without privileges.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from maxatk.records import Outcome, TestCase
from maxatk.verifier import Job, Verifier

EXPECTED = "42-expected-output\n"
QUESTION = TestCase(input="question\n", output=EXPECTED)
HELD = TestCase(input="", output="held")
NO_PASS = frozenset(Outcome) - {Outcome.PASSED, Outcome.INFRA_ERROR, Outcome.NOT_RUN}
PASS = frozenset({Outcome.PASSED})


@dataclasses.dataclass(frozen=True)
class Attack:
    """A hostile program, the tests it is given, and the outcomes that are right for all of them."""

    program: str
    must: frozenset[Outcome] = NO_PASS
    tests: Sequence[TestCase] = (QUESTION, QUESTION)
    compare: str = "tokens"
    entry_point: str | None = None
    checker: str | None = None
    language: str | None = None

    def job(self) -> Job:
        """Return the job that carries the attack out, with small limits."""
        return Job(
            self.program,
            tuple(self.tests),
            self.compare,
            time_limit=0.5,
            memory_limit=1 << 27,
            entry_point=self.entry_point,
            checker=self.checker,
            language=self.language,
        )


def fails(verifier: Verifier, attacks: dict[str, Attack]) -> dict[str, list[str]]:
    """Return the outcomes of the attacks that did not end as they must, by name."""
    verdicts = verifier.verify_many([attack.job() for attack in attacks.values()])
    return {
        name: [f"{test.outcome}: {test.stderr[-300:]}" for test in verdict.tests]
        for (name, attack), verdict in zip(attacks.items(), verdicts, strict=True)
        if not all(test.outcome in attack.must for test in verdict.tests)
    }


# Programs that know no answer and claim one.
FAKE_PASSES = {
    "exit early": Attack("import sys; sys.exit(0)"),
    "exit by os": Attack("import os; os._exit(0)"),
    "patch the exit": Attack("import os; os._exit = lambda s: None"),
    "patch sys.exit": Attack("import sys; sys.exit = lambda *a: None; raise SystemExit(0)"),
    "atexit": Attack("""\
import atexit, os
atexit.register(os._exit, 0)
"""),
    "echo the question": Attack("print(input())"),
    "end from a thread": Attack("""\
import os, threading
t = threading.Thread(target=os._exit, args=(0,))
t.start()
t.join()
"""),
    "end in a destructor": Attack("""\
import os
class E:
    def __del__(self): os._exit(0)
E()
"""),
    "end in a signal handler": Attack("""\
import os, signal, time
signal.signal(signal.SIGALRM, lambda *a: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.2)
"""),
    "raise what the verifier may catch": Attack("raise AssertionError"),
    "leave by an interrupt": Attack("raise KeyboardInterrupt"),
    "leave by a generator": Attack("raise GeneratorExit"),
    "a lying exit code": Attack("""\
import sys
class Zero(int):
    def __eq__(self, o): return True
    def __and__(self, o): return 0
sys.exit(Zero(3))
"""),
    "exit of the interpreter in C": Attack("import ctypes; ctypes.PyDLL(None).exit(0)"),
}

ADD = TestCase(call="add(1, 2)", output="3")
CHECK = TestCase(check="def check(candidate):\n    assert candidate(1, 2) == 3\n")
# The same for functions: each is called by `call` and by `check`.
FUNCTIONS = {
    "equal to everything": """
class E:
    def __eq__(self, o): return True
def add(a, b): return E()
""",
    "an integer equal to everything": """
class E(int):
    def __eq__(self, o): return True
    __hash__ = int.__hash__
def add(a, b): return E(7)
""",
    "the question in the input": """
text = open('/dev/stdin').read()
def add(a, b): return 3 if text else 0
""",
    "an index that changes": """
class E:
    values = iter([7, 3, 3, 3])
    def __index__(self): return next(E.values)
def add(a, b): return E()
""",
    "a lying class": """
class E:
    __class__ = int
    def __eq__(self, o): return True
def add(a, b): return E()
""",
    "a text that is all": """
class S(str):
    def __eq__(self, o): return True
    __hash__ = str.__hash__
def add(a, b): return S('x')
""",
    "a mapping of lies": """
class D(dict):
    def __eq__(self, o): return True
    def __iter__(self): return iter([3])
def add(a, b): return D()
""",
    "a pickle that computes": """
class E:
    def __reduce__(self): return eval, ('3',)
def add(a, b): return E()
""",
    "copies that compute": """
class E:
    def __deepcopy__(self, memo): return 3
    __copy__ = lambda self: 3
def add(a, b): return E()
""",
    "the assertion error itself": "def add(a, b): raise AssertionError",
    "no assertion errors any more": """
import builtins
class Silent(Exception): pass
builtins.AssertionError = Silent
def add(a, b): return 7
""",
    "patched equality of integers": """
import builtins
builtins.int = builtins.bool = lambda *a: 3
def add(a, b): return 7
""",
    "a patched encoder": """
import sys
for name, module in list(sys.modules.items()):
    if name.endswith('values'):
        module.encode = lambda value, depth=0: b'garbage'
        module.decode = lambda data: 3
def add(a, b): return 7
""",
    "end the process in the call": "import os\ndef add(a, b): os._exit(0)",
    "end the process on import": "import os; os._exit(0)",
    "exit in the call": "import sys\ndef add(a, b): sys.exit(0)",
    "print the answer": "def add(a, b): print(3)",
    "a generator of answers": "def add(a, b): yield 3",
    "an awaitable answer": "async def add(a, b): return 3",
    "a value that contains itself": "def add(a, b):\n    x = []\n    x.append(x)\n    return x",
    "an endless value": """
class L(list):
    def __iter__(self):
        while True: yield 3
def add(a, b): return L()
""",
    "write into every descriptor": """
import os
def add(a, b):
    for fd in range(1, 64):
        try:
            os.write(fd, b'\\x01' * 64)
        except OSError:
            pass
    os._exit(0)
""",
    "find the caller": """
import sys
def add(a, b):
    frame = sys._getframe()
    while frame:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if 'assert ' + 'candidate' in repr(value)[:10**6]:
                return 3
        frame = frame.f_back
    return 7
""",
}

# Programs that look for the expected output where it might be.
LEAKS = {
    "walk frames": Attack("""\
import sys
f = sys._getframe()
while f:
    for name, value in list(f.f_locals.items()) + list(f.f_globals.items()):
        if '42-expected' in repr(value)[:100000] and name not in ('value', 'name'):
            print('42-' + 'expected-output')
    f = f.f_back
"""),
    "search the heap": Attack("""\
import gc
needle = 'tuptuo-detcepxe-24'[::-1]
for o in gc.get_objects():
    if isinstance(o, (dict, list, tuple)) and o is not globals():
        if any(isinstance(x, (str, bytes)) and needle in str(x) for x in
               (list(o.values()) if isinstance(o, dict) else o)):
            print(needle)
"""),
    "read every descriptor": Attack("""\
import os
for fd in range(3, 1024):
    try:
        os.write(1, os.pread(fd, 4096, 0))
    except OSError:
        pass
"""),
    "read descriptors by name": Attack("""\
import os
for name in [f'/proc/self/fd/{n}' for n in range(32)] + [f'/dev/fd/{n}' for n in range(32)]:
    try:
        print(open(name).read())
    except OSError:
        pass
"""),
    "read the parent's memory": Attack("""\
import os
for pid in (os.getppid(), 1, os.getpid() - 1):
    for name in ('mem', 'environ', 'cmdline', 'fd/5', 'root/etc/passwd'):
        try:
            print(open(f'/proc/{pid}/{name}', 'rb').read(1000))
        except OSError:
            pass
"""),
    "arguments and environment": Attack("import os, sys\nprint(sys.argv, dict(os.environ))"),
    "files of the verifier": Attack("""\
import glob, os
for folder in ('/tmp', '/', '.', '/dev/shm', '/var/tmp'):
    for root, _, names in os.walk(folder):
        for name in names:
            if 'output' in name or name.endswith('.jsonl'):
                print(open(os.path.join(root, name)).read())
        if root.count('/') > 2:
            break
"""),
    "leftovers on the C heap": Attack("""\
import ctypes
buffer = ctypes.create_string_buffer(1 << 24)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
for size in (64, 256, 1024, 4096, 1 << 16, 1 << 20):
    for _ in range(50):
        block = libc.malloc(size)
        text = ctypes.string_at(block, size)
        place = text.find(b'-expected-out')
        if place >= 0:
            print(text[place - 2:place + 16].decode())
"""),
    "source of the verifier": Attack("""\
import sys, inspect
for name, module in list(sys.modules.items()):
    if 'maxatk' in name:
        try:
            print([line for line in inspect.getsource(module).split() if 'expected' in line])
        except OSError:
            pass
"""),
}

# Programs that work on the verifier itself.
FORGING = {
    "write every descriptor": Attack("""\
import os
for fd in range(2, 1024):
    try:
        os.write(fd, b'\\1' * 4096)
    except OSError:
        pass
"""),
    "unwind into the caller": Attack("""\
import sys
def trace(frame, event, arg):
    return trace
sys.settrace(trace)
frame = sys._getframe()
while frame.f_back:
    frame = frame.f_back
    frame.f_trace = trace
raise SystemExit(0)
"""),
    "patch the verifier": Attack("""\
import sys
for name, module in list(sys.modules.items()):
    if 'maxatk' in name:
        for key in list(vars(module)):
            try:
                setattr(module, key, lambda *a, **k: 0)
            except Exception:
                pass
"""),
    "hostile stdout": Attack("""\
import sys
class S:
    closed = False
    def flush(self): raise SystemExit(0)
    def write(self, s): pass
sys.stdout = sys.stderr = S()
"""),
    "hostile excepthook": Attack("""\
import sys
sys.excepthook = lambda *a: sys.exit(0)
1 / 0
"""),
    "replace builtins": Attack("""\
import builtins
builtins.exec = builtins.print = lambda *a: None
"""),
    "close all": Attack("""\
import os
os.closerange(0, 100)
"""),
    "truncate stdin": Attack("""\
import os
os.ftruncate(0, 0); os.pwrite(0, b'42', 0)
"""),
    "results in the scratch folder": Attack("""\
for name in ('results', 'verdict.json', 'scores.jsonl', 'correct_output.txt'):
    open(name, 'w').write('passed')
"""),
    "end the supervisors": Attack("""\
import os, signal
for pid in range(1, 40):
    for number in (9, 15, 19):
        try:
            os.kill(pid, number)
        except OSError:
            pass
"""),
    "move the ends of the output": Attack("""\
import os
os.lseek(1, 1 << 40, 0)
os.dup2(2, 1)
"""),
    "swap the standard files": Attack("""\
import os
keep = os.dup(1)
os.dup2(0, 1)
os.dup2(keep, 0)
print('x')
"""),
    "patch the interpreter": Attack("""\
import ctypes
try:
    ctypes.memset(id(None) + 16, 0, 8)
except Exception:
    pass
"""),
}

ESCAPES = {
    "fork": "os.fork()",
    "vfork and exec": "__import__('subprocess').run(['/bin/true'])",
    "exec": "os.execv('/bin/sh', ['sh'])",
    "exec a descriptor": "os.execve(os.open(os.__file__, 0), ['x'], {})",
    "system": "[None for _ in range(1) if os.system('true') == 0] or fail()",
    "socket": "__import__('socket').socket()",
    "unix socket": "__import__('socket').socket(__import__('socket').AF_UNIX)",
    "network socket pair": "__import__('socket').socketpair(__import__('socket').AF_INET)",
    "send to an address": "__import__('socket').socketpair(1, 2)[0].sendto(b'x', '/dev/log')",
    "bind a socket": "__import__('socket').socketpair()[0].bind('\\0x')",
    "connect a socket": "__import__('socket').socketpair()[0].connect('\\0x')",
    "listen on a socket": "__import__('socket').socketpair()[0].listen()",
    "out-of-band data": "__import__('socket').socketpair()[0].send(b'x', 1)",
    "pass a descriptor": "__import__('socket').send_fds(__import__('socket').socketpair()[0], "
    "[b'x'], [0])",
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
    "write a library": "open(os.__file__, 'a')",
    "write at the root": "open('/x', 'w')",
    "write to the host's folders": "open('/var/tmp/x', 'w')",
    "write to shared memory": "open('/dev/shm/x', 'w')",
    "write to the input by its name": "open('/stdin/stdin', 'a')",
    "change the mode of the input": "os.chmod('/stdin/stdin', 0o666)",
    "remove the input": "os.unlink('/stdin/stdin')",
    "put a file in the place of the input": "open('x', 'w').close() or "
    "os.rename('x', '/dev/stdin')",
    "write to the home folder": "open('/root/x', 'w')",
    "write beside a library": "open(os.path.dirname(os.__file__) + '/x.py', 'w')",
    "write a device of its own": "os.mknod('/tmp/x', 0o20600, 0x103)",
    "make a pipe with a name": "os.mkfifo('/tmp/x')",
    "make a folder at the root": "os.mkdir('/x')",
    "move a library": "os.rename(os.__file__, '/tmp/os.py')",
    "make a hard link": "os.link(os.__file__, '/tmp/os.py')",
    "take the scratch folder away": "os.rmdir('/tmp')",
    "rename the scratch folder": "os.rename('/tmp', '/other')",
    "make a link": "os.symlink('/etc', '/tmp/etc')",
    "remove a file": "os.unlink(os.__file__)",
    "rename a file": "os.rename(os.__file__, os.__file__ + 'x')",
    "change a mode": "os.chmod(os.__file__, 0o777)",
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
    if libc.syscall(*fixed) < 0 and ctypes.get_errno() in (1, 11, 38):
        raise PermissionError
try:
    {}
except (OSError, ValueError):
    print('held')
"""


RESOURCES: dict[str, tuple[Any, ...]] = {
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
        Outcome.MEMORY_LIMIT,
        Outcome.TIME_LIMIT,
    ),
    "fill the scratch folder": (
        "with open('x', 'wb') as f:\n    while 1: f.write(bytes(1 << 20))",
        Outcome.RUNTIME_ERROR,
    ),
    "fill it with many files": (
        "for i in range(10**6): open(str(i), 'w').close()",
        Outcome.RUNTIME_ERROR,
    ),
    "sparse file": ("import os\nos.truncate('x', 1 << 40)", Outcome.RUNTIME_ERROR),
    "crash": ("import ctypes; ctypes.string_at(0)", Outcome.RUNTIME_ERROR),
    "abort": ("import os; os.abort()", Outcome.RUNTIME_ERROR),
    "close stdin": ("import sys; sys.stdin.close(); input()", Outcome.RUNTIME_ERROR),
    "huge source": ("x = 1\n" * 300_000, Outcome.COMPILE_ERROR),
    "nested source": ("(" * 5000 + ")" * 5000, Outcome.COMPILE_ERROR),
    "compile bomb": ("x = " + "-" * 200_000 + "1", Outcome.COMPILE_ERROR),
    "null byte": ("print(1)\0", Outcome.COMPILE_ERROR),
    "lone surrogate": ("print('\ud800')", Outcome.COMPILE_ERROR),
}


def printing(text: str, expected: str, compare: str) -> Attack:
    """An attack on a comparison rule: `text` must not count as `expected`."""
    program = f"import sys; sys.stdout.buffer.write({text.encode()!r})"
    return Attack(program, NO_PASS, (TestCase(input="", output=expected),), compare)


CHECKER = """
import sys
given, correct, printed = (open(path).read() for path in sys.argv[1:])
numbers = list(map(int, printed.split()))
print(int(sum(numbers) == int(correct) and len(numbers) == 2))
"""
SUM = (TestCase(input="7\n", output="7\n"),)
# Outputs that a careless rule accepts, or that make it slow.
COMPARISON = {
    "not a number": printing("nan", "5", "tokens"),
    "infinity": printing("inf", "1e400", "tokens"),
    "beyond a double": printing("1e999", "2e999", "tokens"),
    "the next integer": printing(str(10**17 + 1), str(10**17), "tokens"),
    "digits of another script": printing("\N{ARABIC-INDIC DIGIT FIVE}", "5", "tokens"),
    "digits with underscores": printing("1_0", "10", "tokens"),
    "a zero byte": printing("5\0", "5", "tokens"),
    "more tokens": printing("5 5", "5", "tokens"),
    "no tokens": printing("", "5", "tokens"),
    "spaces of another script": printing("5\u20035", "5 5", "tokens"),
    "a million digits": printing("7" * 10**6, "7" * (10**6 - 1) + "8", "tokens"),
    "a huge exponent": printing("1e999999999", "1e999999998", "lcb"),
    "a million digits, exactly": printing("7" * 10**6, "7" * (10**6 - 1) + "8", "lcb"),
    "more lines": printing("5\n\n5", "5\n5", "lcb"),
    "a quiet nan": printing("sNaN", "5", "lcb"),
    "an expression": printing("[1] * 3", "[1, 1, 1]", "literal"),
    "a call": printing("list((1,))", "[1]", "literal"),
    "a bomb of brackets": printing("[" * 10**5 + "]" * 10**5, "[]", "literal"),
    "a bomb of minus signs": printing("-" * 60000 + "1", "2", "literal"),
    "a comprehension": printing("[x for x in (1,)]", "[1]", "literal"),
    "crash the checker": Attack("print('x y')", NO_PASS, SUM, "checker", None, CHECKER),
    "one for the checker": Attack("print(1)", NO_PASS, SUM, "checker", None, CHECKER),
    "nothing for the checker": Attack("pass", NO_PASS, SUM, "checker", None, CHECKER),
    "code for the checker": Attack(
        "print('__import__(\"os\")._exit(0) or 1')", NO_PASS, SUM, "checker", None, CHECKER
    ),
    "files for the checker": Attack(
        "for n in ('input.txt', 'correct_output.txt', 'solution_output.txt'):\n"
        "    open(n, 'w').write('3 4')\nprint(1, 1)",
        NO_PASS,
        SUM,
        "checker",
        None,
        CHECKER,
    ),
}

# Each program leaves something behind and looks for it; every run must see nothing.
CROSS_TEST = {
    "marks on modules": """
import os, sys, random
print(hasattr(sys, 'mark'), hasattr(os, 'mark'))
sys.mark = os.mark = 1
""",
    "what was printed": """
import os, sys
print(bool(os.pread(1, 100, 0) + os.pread(2, 100, 0)), os.lseek(1, 0, 1) + os.lseek(2, 0, 1) > 0)
sys.stdout.flush()
sys.stderr.write('trace')
""",
    "offsets": """
import os, sys
print(os.lseek(1, 0, 1) != 0, os.lseek(0, 0, 1) != 0)
sys.stdout.flush()
os.lseek(2, 1 << 16, 0)
os.lseek(0, 0, 2)
""",
    "the input": """
import os
print(bool(open('/dev/stdin').read()), os.fstat(0).st_size != 0)
os.write(0, b'x' * 100)
""",
    "files": """
import os
print(bool(os.listdir('.')), bool(os.listdir('/tmp')))
open('left', 'w').write('x')
os.mkdir('folder')
open('folder/inner', 'w').write('x')
""",
    "closed folders": """
import os
print(bool(os.listdir('.')), os.path.exists('locked'))
os.mkdir('locked')
open('locked/file', 'w').close()
os.mkdir('locked/closed', 0)
""",
    "folders deeper than a path": """
import os
print(bool(os.listdir('.')), False)
here = os.open('.', os.O_RDONLY)
for _ in range(200):
    os.mkdir('d' * 200, dir_fd=here)
    inner = os.open('d' * 200, os.O_RDONLY, dir_fd=here)
    os.close(here)
    here = inner
""",
    "names that are no text": r"""
import os
print(bool(os.listdir(b'.')), False)
open(b'\xff\xfe', 'w').close()
open('-rf', 'w').close()
""",
    "a mask and limits": """
import os, resource
print(os.umask(0o777) == 0o777, resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 100)
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
""",
    "a flag of the standard files": """
import os
print(*(os.get_blocking(fd) is False for fd in (0, 1)))
for fd in (0, 1, 2): os.set_blocking(fd, False)
""",
    "signal handlers": """
import signal
print(signal.getsignal(signal.SIGTERM) == signal.SIG_IGN, bool(signal.getitimer(0)[0]))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.setitimer(0, 100)
""",
    "the next random numbers": """
import random
print(random.random() != 0.8444218515250481, False)
random.seed(7)
""",
    "threads that stay": """
import threading, time
print(threading.active_count() > 1, False)
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
""",
}

TWICE = tuple(TestCase(input="", output="False False") for _ in range(3))
ALL: dict[str, Attack] = {
    **{f"fake pass: {name}": attack for name, attack in FAKE_PASSES.items()},
    **{f"call: {name}": Attack(p, NO_PASS, (ADD,)) for name, p in FUNCTIONS.items()},
    **{
        f"check: {name}": Attack(p, NO_PASS, (CHECK,), entry_point="add")
        for name, p in FUNCTIONS.items()
    },
    **{f"leak: {name}": attack for name, attack in LEAKS.items()},
    **{f"forging: {name}": attack for name, attack in FORGING.items()},
    **{
        f"escape: {name}": Attack(ATTEMPT.format(attempt), PASS, (HELD,))
        for name, attempt in ESCAPES.items()
        if "call(" not in attempt or os.uname().machine == "x86_64"  # the numbers are its
    },
    **{
        f"resource: {name}": Attack(program, frozenset(outcomes), (QUESTION,))
        for name, (program, *outcomes) in RESOURCES.items()
    },
    **{f"cross-test: {name}": Attack(p, PASS, TWICE) for name, p in CROSS_TEST.items()},
    **{f"comparison: {name}": attack for name, attack in COMPARISON.items()},
}
