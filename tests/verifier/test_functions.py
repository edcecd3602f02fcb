import textwrap
from pathlib import Path

import pytest

import maxatk
from maxatk.errors import InvalidValueError
from maxatk.records import Outcome, TestCase
from maxatk.verifier import Job, is_plain_call

ADD = "def add(a, b):\n    return a + b\n"


def outcome(verifier, program, test, entry_point=None):
    return verifier.verify(program, [test], time_limit=0.5, entry_point=entry_point).outcome


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ("add(1, 2)", "3"),
        ("add('a', b='b')", "'ab'"),
        ("add([1], [(2, None)])", "[1, (2, None)]"),
        ("add(0.1, 0.2)", "0.30000000000000004"),
        ("{add(1, 1): {add(1, 2)}}", "{2: {3}}"),
        ("add(b'x', b'\\xff')", "b'x\\xff'"),
        ("add(10**50, 1)", str(10**50 + 1)),
        ("add(True, 1j)", "(1+1j)"),
    ],
)
def test_values_cross_exactly(verifier, call, output):
    assert outcome(verifier, ADD, TestCase(call=call, output=output)) is Outcome.PASSED


SOLUTION = "class Solution:\n    def pair(self, a, b=2):\n        return (a, [b])\n"


READERS = (
    "import sys\ndef f():\n    return sys.stdin.read()\n",
    "import os\ndef f():\n    return os.read(0, 99).decode()\n",
    "def f():\n    return open(0).read()\n",
    "import os\ndef f():\n    return os.pread(0, 99, 0).decode()\n",
    "def f():\n    try:\n        return input()\n    except EOFError:\n        return ''\n",
    "import sys\ntext = sys.stdin.read()\ndef f():\n    return text\n",
)


@pytest.mark.parametrize("program", READERS)
@pytest.mark.parametrize(
    "test", [TestCase(call="f()", output="''"), TestCase(check="assert candidate() == ''")]
)
def test_a_program_that_is_called_has_no_input(verifier, program, test):
    assert outcome(verifier, program, test, "f") is Outcome.PASSED


@pytest.mark.parametrize(
    ("output", "compare", "expected"),
    [
        ("[1, [2]]", "lcb", "passed"),  # a tuple counts as a list, as in the official grader
        ("[1, (2,)]", "lcb", "wrong_answer"),  # but only on the outside, as there
        ("(1, [2])", "tokens", "passed"),
        ("[1, [2]]", "tokens", "wrong_answer"),
    ],
)
def test_methods_of_a_solution_are_called(verifier, output, compare, expected):
    test = TestCase(call="Solution().pair(1)", output=output)
    assert verifier.verify(SOLUTION, [test], compare).outcome == expected


@pytest.mark.parametrize(
    ("call", "is_plain"),
    [
        ("f(1)", True),
        ("f(-1.5, *[1], k={'a': (1j,)})", True),
        ("Solution().run([1])", True),
        ("f(set(), n=frozenset([1])).items", True),
        ("abs(f(1) - 3) < 1e-6", False),
        ("f(1) == 3", False),
        ("sorted(f(1))", False),
        ("f(1)[0]", False),
        ("f(g(1))", False),
        ("f(", True),  # which is refused as no expression
    ],
)
def test_a_plain_call_does_nothing_but_call(call, is_plain):
    assert is_plain_call(call) is is_plain


def test_subclasses_of_builtins_count_as_their_base(verifier):
    program = (
        "import collections\nP = collections.namedtuple('P', 'x y')\n"
        "def f():\n    d = collections.defaultdict(list)\n    d[1].append(P(2, 3))\n    return d\n"
    )
    assert outcome(verifier, program, TestCase(call="f()", output="{1: [(2, 3)]}")) == "passed"


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("np.any(np.array([x]) > 0)", "True"),
        ("list(np.array([x, -x]) > 0)", "[True, False]"),
        ("np.float32(x / 2)", "0.5"),
        ("{'n': np.int64(x)}", "{'n': 1}"),
        ("np.array(x)", "1"),
    ],
)
def test_numbers_of_numpy_count_as_those_of_python(verifier, value, output):
    pytest.importorskip("numpy")
    program = f"import numpy as np\ndef f(x):\n    return {value}"
    for test in (TestCase(call="f(1)", output=output), TestCase(check=f"assert f(1) == {output}")):
        assert outcome(verifier, program, test, entry_point="f") is Outcome.PASSED


def test_a_check_may_use_numpy_where_the_program_does_not(verifier):  # as those of HumanEval+
    pytest.importorskip("numpy")
    check = "import numpy as np\ndef check(f):\n    assert np.allclose(f(1, 2), 3)\n"
    assert outcome(verifier, ADD, TestCase(check=check), entry_point="add") is Outcome.PASSED


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("def add(a, b): return a - b", Outcome.WRONG_ANSWER),
        ("def add(a, b): return object()", Outcome.WRONG_ANSWER),
        ("def add(a, b): print(3)", Outcome.WRONG_ANSWER),
        ("def add(a, b): print('noise'); return 3", Outcome.PASSED),
        ("def add(a, b): raise KeyError(a)", Outcome.RUNTIME_ERROR),
        ("def other(): pass", Outcome.RUNTIME_ERROR),
        ("def add(a, b):\n    while True: pass", Outcome.TIME_LIMIT),
        ("def add(a, b):\n    x = []\n    x.append(x)\n    return x", Outcome.WRONG_ANSWER),
        ("import sys\ndef add(a, b): sys.exit(0)", Outcome.RUNTIME_ERROR),
        ("if __name__ == '__main__': input()\ndef add(a, b): return a + b", Outcome.PASSED),
    ],
)
def test_outcomes_of_a_call(verifier, program, expected):
    assert outcome(verifier, program, TestCase(call="add(1, 2)", output="3")) is expected


CHECK = TestCase(
    check="def check(candidate):\n    assert candidate(1, 2) == 3\n"
    "    assert candidate([1], b=[2]) == [1, 2]\n"
)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (ADD, Outcome.PASSED),
        ("def add(a, b): return 3", Outcome.WRONG_ANSWER),
        ("def add(a, b): raise AssertionError", Outcome.WRONG_ANSWER),
        ("def add(a, b): raise ValueError('no')", Outcome.RUNTIME_ERROR),
        ("def add(a, b): return object()", Outcome.RUNTIME_ERROR),
        ("import os\ndef add(a, b): os._exit(0)", Outcome.RUNTIME_ERROR),
        ("import sys\nsys.exit(0)", Outcome.RUNTIME_ERROR),
        ("def add(a, b):\n    while True: pass", Outcome.TIME_LIMIT),
        ("1 / 0", Outcome.RUNTIME_ERROR),
        ("def sub(a, b): return 0", Outcome.RUNTIME_ERROR),
    ],
)
def test_outcomes_of_a_check(verifier, program, expected):
    assert outcome(verifier, program, CHECK, entry_point="add") is expected


@pytest.mark.parametrize(
    ("module", "value", "holds"),
    [
        ("re", "re.match('a+', 'aab')", "candidate(0)"),
        ("re", "re.match('a+', 'b')", "not candidate(0)"),
        (
            "collections",
            "collections.deque([1, 2], 3)",
            "candidate(0) == collections.deque([1, 2])",
        ),
        ("fractions", "[fractions.Fraction(2, 6)]", "candidate(0)[0] * 3 == 1"),
        ("decimal", "decimal.Decimal('0.10')", "str(candidate(0)) == '0.10'"),
        ("datetime", "datetime.date(2024, 2, 29)", "candidate(0).isoformat() == '2024-02-29'"),
        (
            "datetime",
            "datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.timezone.utc)",
            "candidate(0) == datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.timezone.utc)",
        ),
        ("datetime", "datetime.time(1, 2)", "candidate(0) == datetime.time(1, 2)"),
        ("datetime", "datetime.timedelta(-1, 5)", "candidate(0) == datetime.timedelta(-1, 5)"),
        ("math", "range(1, 9, 2)", "list(candidate(0)) == [1, 3, 5, 7]"),
        ("math", "{1: 2}.keys()", "candidate(0) == {1}"),
        ("math", "{1: 2}.values()", "sorted(candidate(0)) == [2]"),
        ("math", "{1: 2}.items()", "candidate(0) == {(1, 2)}"),
    ],
)
def test_values_of_known_types_cross_in_a_check(verifier, module, value, holds):
    program = f"import {module}\ndef f(x):\n    assert x == x\n    return {value}"
    sent = value if module == "fractions" else 0
    check = f"import {module}\ncandidate(candidate({sent}))\nassert {holds}\n"
    verdict = verifier.verify(program, [TestCase(check=check)], entry_point="f")
    assert verdict.outcome is Outcome.PASSED, verdict


@pytest.mark.parametrize(
    ("value", "kind"), [("iter([1])", "list_iterator"), ("lambda: 1", "function"), ("C()", "C")]
)
def test_the_reason_names_a_type_that_cannot_cross(verifier, value, kind):
    program = f"class C: pass\ndef f(x): return {value}"
    tests = [TestCase(check="assert candidate(0) == [1]"), TestCase(call="f(0)", output="[1]")]
    verdict = verifier.verify(program, tests, entry_point="f")
    assert [str(t.outcome) for t in verdict.tests] == ["runtime_error", "wrong_answer"]
    for test in verdict.tests:
        assert f"a value of type {kind} cannot leave the sandbox" in test.stderr


@pytest.mark.parametrize(
    "answer",
    ["(1, 0)", "('1', '2')", "(1,) * 9", "1", "()", "[1, 2]", "None"],
)
def test_a_value_that_a_program_forges_is_no_pass(verifier, answer):
    forged = (
        "import os\ndef f(x):\n    from maxatk.verifier.inside import values as v, checking as c\n"
        f"    c._send(v.container(b'l', [b'T', v.container(b'r', [v.encode('fractions.Fraction'), "
        f"v.encode({answer})])]))\n    os._exit(0)"
    )
    test = TestCase(check="assert candidate(0) == 5")
    assert outcome(verifier, forged, test, entry_point="f") is Outcome.RUNTIME_ERROR


def test_a_checker_may_expect_an_exception(verifier):
    check = (
        "def check(f):\n    try:\n        f(0)\n    except ZeroDivisionError:\n        return\n"
        "    assert False\n"
    )
    program = "def f(x): return 1 // x"
    assert outcome(verifier, program, TestCase(check=check), entry_point="f") is Outcome.PASSED


RAISED = [
    ("class E(ValueError): pass\ndef f(): raise E('no')", "ValueError", "str(e) == 'no'"),
    ("class E(ValueError): pass\ndef f(): raise E('no')", "Exception", "type(e).__name__ == 'E'"),
    ("def f(): raise KeyError('a')", "KeyError", "e.args == ('a',) and str(e) == repr('a')"),
    ("class Missing(KeyError): pass\ndef f(): raise Missing('a', 3)", "KeyError",
     "e.args == ('a', 3)"),
    ("def f(): open('none')", "FileNotFoundError", "e.errno == 2 and e.filename == 'none'"),
    ("def f(): open('none')", "OSError", "type(e) is FileNotFoundError"),
    ("import json\ndef f(): json.loads('x')", "ValueError", "'Expecting value' in str(e)"),
    ("import json\ndef f(): json.loads('[x')", "json.JSONDecodeError",
     "e.pos == 1 and type(e) is json.JSONDecodeError"),
    ("import statistics\ndef f(): statistics.mean([])", "ValueError", "'mean' in str(e)"),
    ("import statistics\ndef f(): statistics.mean([])", "statistics.StatisticsError", "True"),
    ("import decimal\ndef f(): decimal.Decimal('x')", "ArithmeticError", "True"),
    ("import decimal\ndef f(): decimal.Decimal('x')", "decimal.InvalidOperation", "True"),
    ("def f(): 'ä'.encode('ascii')", "UnicodeEncodeError", "e.start == 0 and e.object == 'ä'"),
    ("def f(): b'\\xff'.decode()", "ValueError", "e.reason == 'invalid start byte'"),
    ("def f(): raise SystemExit(3)", "SystemExit", "e.code == 3"),
    ("def f(): exit()", "SystemExit", "e.code is None"),
    ("class E(Exception):\n    def __init__(self, n): self.n = n\n    def __str__(self):"
     " return f'<{self.n}>'\ndef f(): raise E(7)", "Exception", "(e.n, str(e)) == (7, '<7>')"),
    ("class E(ValueError, KeyError): pass\ndef f(): raise E(1)", "KeyError",
     "isinstance(e, ValueError)"),
    ("class E(Exception):\n    def __str__(self): return 1 / 0\ndef f(): raise E", "Exception",
     "str(e) == ''"),
    ("def f(): raise ValueError(object())", "ValueError", "'object' in str(e)"),
    ("def f(): raise ValueError('x' * 10**6)", "ValueError", "e.args == ('x' * 1000,)"),
    ("def f(): assert False, 'no'", "AssertionError", "str(e) == 'no'"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "kind", "holds"), RAISED)
def test_an_exception_crosses_with_its_classes_and_what_it_holds(verifier, program, kind, holds):
    check = (
        "import decimal, json, statistics\ndef check(f):\n    try:\n        f()\n"
        f"    except {kind} as e:\n        assert {holds}, [repr(e), str(e), type(e).__mro__]\n"
        "    else:\n        assert False\n"
    )
    verdict = verifier.verify(program, [TestCase(check=check)], entry_point="f")
    assert verdict.outcome is Outcome.PASSED, verdict.tests[0].stderr


@pytest.mark.parametrize(
    "error",
    [
        "__import__('unittest').SkipTest('x')",
        "type('SkipTest', (Exception,), {'__module__': 'unittest.case'})",
        "type('Stop', (StopIteration,), {})",
    ],
)
def test_no_error_of_a_program_skips_a_test(verifier, error):
    check = (
        "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n"
        "        self.assertEqual([f(n) for n in [1]], [1])\n"
        "result = unittest.main(module=None, argv=['', '__main__.T'], exit=False) if 0 else "
        "unittest.TextTestRunner().run(T('test_f'))\nassert result.wasSuccessful()\n"
    )
    tests = [TestCase(check=check)]
    for program, outcome in (("return n", "passed"), (f"raise {error}", "wrong_answer")):
        verdict = verifier.verify(f"def f(n): {program}", tests, entry_point="f")
        assert verdict.outcome == outcome, verdict.tests[0].stderr


@pytest.mark.parametrize(
    "sent",
    [
        "(False, 1, 2, 3, 4)",
        "(False, [], '', (), {})",
        "(False, [('builtins', 'eval')], '', ('1',), {})",
        "(False, [('os', 'system')], '', ('true',), {})",
        "(False, [('builtins', 'KeyError')], '', 5, {})",
        "(False, [('builtins', 'KeyError')], '', (), 7)",
        "(False, [('builtins', 'GeneratorExit')], '', (), {})",
        "(False, [('x', '\\0'), ('builtins', 'OSError')], '', (), {'__class__': 1})",
        "(False, [('builtins', 'BaseExceptionGroup')], '', ('a', [1]), {})",
        "(True,)",
    ],
)
def test_an_error_that_a_program_forges_is_no_pass(verifier, sent):
    forged = (
        "import os\ndef f():\n    from maxatk.verifier.inside import values, checking\n"
        f"    checking._send(values.encode({sent}))\n    os._exit(0)"
    )
    test = TestCase(check="assert candidate() == 5")
    verdict = verifier.verify(forged, [test], entry_point="f")
    assert verdict.outcome is Outcome.RUNTIME_ERROR, verdict.tests[0].stderr


LOOPS = [
    "def check(candidate):\n    assert all(map(lambda n: candidate(n) == n, [1, 2]))\n",
    "def check(candidate):\n    for got, want in zip(map(candidate, [1, 2]), [1, 2]):\n"
    "        assert got == want\n",
]


@pytest.mark.parametrize("check", LOOPS)
@pytest.mark.parametrize("error", ["StopIteration", "StopAsyncIteration", "GeneratorExit"])
def test_no_error_ends_the_loop_of_a_check_as_if_all_was_well(verifier, check, error):
    program = f"def f(n): raise {error}"
    raised = outcome(verifier, program, TestCase(check=check), entry_point="f")
    assert raised is Outcome.RUNTIME_ERROR
    right = outcome(verifier, "def f(n): return n", TestCase(check=check), entry_point="f")
    assert right is Outcome.PASSED


def test_a_failed_check_names_its_line_and_its_error(verifier):
    check = "def check(f):\n    assert f(1) == 1\n    assert tuple(f(2)) == (2, 'expected')\n"
    program = "import sys\ndef f(n):\n    print('noise', file=sys.stderr)\n    return n"
    verdict = verifier.verify(program, [TestCase(check=check)] * 2, entry_point="f")
    for test in verdict.tests:
        assert test.outcome is Outcome.RUNTIME_ERROR
        assert test.stderr.splitlines() == [
            "check, line 3: assert tuple(f(2)) == (2, 'expected')",
            "TypeError: 'int' object is not iterable",
            "noise",
            "noise",
        ]


RAISES = "def f(x):\n    raise KeyError(x)"
CHAINED = "def f(x):\n    try:\n        {}[x]\n    except KeyError:\n        1 / 0"
HIDES = "class E(Exception):\n    __cause__ = __traceback__ = 1\ndef f(x):\n    raise E"
DEEP = "def f(x):\n    for _ in range(1000):\n        x = [x]\n    return x"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (RAISES, "KeyError: 1"),
        (CHAINED, "During handling of the above exception"),
        (HIDES, "E"),
        ("def f():\n    pass", "TypeError: f() takes 0 positional arguments but 1 was given"),
        ("def f(x):\n    yield x", "a value of type generator cannot leave the sandbox"),
        (DEEP, "ValueError: the value is nested too deeply"),
        ("def g(x):\n    return x", "NameError: name 'f' is not defined"),
    ],
)
@pytest.mark.parametrize(
    "test",
    [
        TestCase(call="f(1)", output="2"),
        # Called late, when a program that has failed at once is gone.
        TestCase(check="def check(f):\n    import time; time.sleep(0.1)\n    assert f(1) == 2"),
    ],
)
def test_what_a_program_did_wrong_is_told_without_files_of_the_host(
    verifier, program, reason, test
):
    result = verifier.verify(program, [test], time_limit=0.5, entry_point="f").tests[0]
    assert result.outcome is not Outcome.PASSED
    assert reason in result.stderr
    assert str(Path(maxatk.__file__).parent) not in result.stderr
    assert "inside" not in result.stderr
    assert "Broken pipe" not in result.stderr


def test_bare_asserts_on_the_entry_point_are_a_check_too(verifier):
    check = "assert add(2, 2) == 4\nassert candidate(1, 1) == 2"
    assert outcome(verifier, ADD, TestCase(check=check), entry_point="add") is Outcome.PASSED


def test_the_checkers_source_is_nowhere_in_the_candidate(verifier):
    secret = "expected_97531"
    program = (
        "import gc, os, sys\n"
        "def add(a, b):\n"
        "    needle = '13579_detcepxe'[::-1]\n"
        "    seen = [str(o)[:10**6] for o in gc.get_objects()]\n"
        "    frame = sys._getframe().f_back\n"
        "    while frame:\n"
        "        seen.append(str(frame.f_locals)[:10**6])\n"
        "        frame = frame.f_back\n"
        "    for fd in range(256):\n"
        "        try:\n"
        "            seen.append(str(os.pread(fd, 10**6, 0)))\n"
        "        except OSError:\n"
        "            pass\n"
        "    return [text for text in seen if needle in text]\n"
    )
    check = f"def check(candidate):\n    {secret} = 1\n    assert candidate(1, 2) == []\n"
    verdict = verifier.verify(program, [TestCase(check=check)], entry_point="add")
    assert verdict.outcome is Outcome.PASSED, verdict


def test_bad_function_tests_are_refused_at_once():
    for output in ("set()(", "{[1]: 2}"):
        with pytest.raises(InvalidValueError, match="must be a Python literal"):
            Job("x", (TestCase(call="f()", output=output),))
    with pytest.raises(InvalidValueError, match="entry_point"):
        Job("x", (TestCase(check="def check(c): pass"),))


TEST_TWO = "def test_two():\n    assert f(1) == 2\n"
UNITTEST = (
    "import unittest\nclass TestF(unittest.TestCase):\n    def test_two(self):\n"
    "        self.assertEqual(f(1), 2)\n"
)


@pytest.mark.parametrize(
    "check",
    [
        TEST_TWO,
        f"f = candidate\n{TEST_TWO}",
        f"import pytest\n@pytest.mark.slow\n{TEST_TWO}",
        f"{TEST_TWO}if __name__ == '__main__':\n    test_two()\n",
        "if __name__ == '__main__':\n    assert f(1) == 2\n",
        f"{UNITTEST}unittest.main(exit=False)\n",
        f"cases = list(range(3))\n{TEST_TWO}",
        f"def check(candidate):\n    pass\n{TEST_TWO}",
        f"def check(f):\n{textwrap.indent(TEST_TWO, '    ')}",
        f"def check(f):\n{textwrap.indent(UNITTEST, '    ')}    unittest.main(exit=False)\n",
        f"def check(f):\n{textwrap.indent(UNITTEST, '    ')}"
        "    assert unittest.main(exit=False).result.wasSuccessful()\n",
    ],
)
def test_a_check_that_calls_none_of_its_functions_is_refused(check):
    with pytest.raises(InvalidValueError, match="nothing calls the functions in it"):
        Job("x", (TestCase(check=check),), entry_point="f")


SUITE = "unittest.defaultTestLoader.loadTestsFromTestCase(TestF)"
INSIDE_CHECK = textwrap.indent(f"{UNITTEST}unittest.TextTestRunner().run({SUITE})\n", "    ")


@pytest.mark.parametrize(
    "check",
    [
        f"{UNITTEST}unittest.TextTestRunner().run({SUITE})\n",
        f"{UNITTEST}result = unittest.TestResult()\n{SUITE}.run(result)\nprint(result)\n",
        f"{UNITTEST}unittest.TextTestRunner().run(unittest.TestSuite([TestF('test_two')]))\n",
        f"def check(candidate):\n{INSIDE_CHECK}",
        f"def run_all():\n{INSIDE_CHECK}\nrun_all()\n",
    ],
)
def test_a_unittest_runner_whose_result_nothing_looks_at_is_refused(check):
    with pytest.raises(InvalidValueError, match=r"assert result\.wasSuccessful\(\)"):
        Job("x", (TestCase(check=check),), entry_point="f")


@pytest.mark.parametrize(
    "check",
    [
        "def check(g):\n    return g(1) == 2\n",
        "def check(g):\n    return g(1) == 2 and g(2) == 2\n",
        "def check(g):\n    return all(g(n) == 2 for n in range(3))\n",
        "def check(g):\n    if g(1) != 2:\n        return False\n    return True\n",
        "def check(g):\n    g(1) == 2\n    g(2) == 2\n",
        "f(1) == 2\n",
        "print(f(1) == 2)\n",
        "for n in range(3):\n    print('case', n, not f(n) != n + 1)\n",
        "def check(g):\n    print(f'{g(1) == 2}')\n",
        "print(f(1) == 2 and f(2) == 3)\n",
        "print(all(f(n) == n + 1 for n in range(3)))\n",
    ],
)
def test_a_check_that_compares_and_asserts_nothing_is_refused(check):
    with pytest.raises(InvalidValueError, match="write assert before it"):
        Job("x", (TestCase(check=check),), entry_point="f")


@pytest.mark.parametrize(
    "check",
    [
        f"{TEST_TWO}test_two()\n",
        f"def check(f):\n{textwrap.indent(TEST_TWO, '    ')}    test_two()\n",
        "def check(g):\n    def right(n):\n        return n + 1\n    assert g(1) == right(1)\n",
        "def check(g):\n    if g(1) != 2:\n        raise SystemExit(1)\n    return g(1) == 2\n",
        "import unittest\ndef check(g):\n    unittest.TestCase().assertEqual(g(1), 2)\n"
        "    return g(1) == 2\n",
        "import sys\ndef check(g):\n    g(1) == 2 or sys.exit(1)\n    return g(1) == 2\n",
        "print(f(1) == 2)\nassert f(1) == 2\n",
        f"{TEST_TWO}for test in [test_two]:\n    test()\n",
        f"{TEST_TWO}[test() for name, test in list(globals().items()) if name[:4] == 'test']\n",
        f"def run(test):\n    test()\n@run\n{TEST_TWO}",
        f"def check(candidate):\n    test_two()\n{TEST_TWO}",
        f"{TEST_TWO}check = lambda candidate: test_two()\n",
        "def equal(a, b):\n    assert a == b\nequal(f(1), 2)\n",
        "class Both:\n    def __init__(self):\n        assert f(1) == 2\nBoth()\n",
        "def right(n):\n    return f(n) + 1\ndef check(g):\n    assert g(1) == 2\n",
        f"{UNITTEST}TestF('test_two').debug()\n",
        f"{UNITTEST}result = unittest.TextTestRunner().run({SUITE})\n"
        "assert result.wasSuccessful()\n",
        f"{UNITTEST}result = unittest.TextTestRunner().run({SUITE})\n"
        "if result.failures:\n    raise SystemExit(1)\n",
        f"{UNITTEST}class Strict(unittest.TestResult):\n    def addFailure(self, test, error):\n"
        f"        assert not error\n{SUITE}.run(Strict())\n",
        f"{UNITTEST}for test in unittest.TestSuite([TestF('test_two')]):\n    test.debug()\n",
        f"{UNITTEST}unittest.TextTestRunner().run({SUITE})\nTestF('test_two').test_two()\n",
    ],
)
def test_a_check_that_calls_its_functions_decides(verifier, check):
    for program, passes in {"def f(n): return 2": True, "def f(n): return 3": False}.items():
        verdict = verifier.verify(program, [TestCase(check=check)], entry_point="f")
        assert (verdict.outcome is Outcome.PASSED) is passes, verdict
