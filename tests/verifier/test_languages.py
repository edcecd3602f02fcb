"""Programs in other languages: what is run, what is built once, what is refused."""

import contextlib
import math
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from growth import assert_linear_time
from maxatk.errors import InvalidValueError, MissingFileError, SandboxError
from maxatk.evaluation.submissions import program_key, submission
from maxatk.records import Outcome, Problem, Sample, TestCase
from maxatk.verifier import (
    LANGUAGES,
    CodeReward,
    Job,
    Verifier,
    compute_score,
    extract_code,
    languages_here,
    toolchain,
)
from processes import family
from verifier.compilers import needs_c_compiler, needs_compiler
from verifier.cpp_programs import HONEST, STD

ADD = "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }\n"
ADD_IN_C = '#include <stdio.h>\nint main(void) { int a, b; scanf("%d%d", &a, &b);' \
    ' printf("%d", a + b); }\n'  # fmt: skip
PAIR = (TestCase(input="1 2\n", output="3\n"),)


# No header that is compiled in advance serves these two, so that a build takes seconds.
SLOW_TO_BUILD = ("pragmas", "templates and lambdas")
PROGRAMS = [
    pytest.param(name, marks=[pytest.mark.long] if name in SLOW_TO_BUILD else []) for name in HONEST
]


@needs_compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_right_programs_pass_and_wrong_ones_do_not(verifier, name):
    program, pairs, (part, instead) = HONEST[name]
    tests = [TestCase(input=stdin, output=stdout) for stdin, stdout in pairs]
    assert part in program
    wrong = program.replace(part, instead)
    right, changed = verifier.verify_many(
        [Job(source, tuple(tests), language="cpp", time_limit=5.0) for source in (program, wrong)]
    )
    assert right.reward == 1.0, right.tests
    assert changed.reward < 1.0


MAIN_LINES = "int main() {\n    int a, b;\n    std::cin >> a >> b;\n    std::cout << a + b;\n}\n"
LONG_ADD = f"#include <iostream>\n// adds\n{MAIN_LINES}"


@pytest.mark.parametrize(
    ("later", "program"),
    [
        ("int main() {\n    int a, b;\n    std::cin >> a >> b;\n", LONG_ADD),
        ("int main() {\n    // two numbers\n    int a, b;\n", LONG_ADD),
        (MAIN_LINES, LONG_ADD),
        (LONG_ADD.replace("+", "-"), LONG_ADD.replace("+", "-")),
        (ADD, ADD),
    ],
)
@pytest.mark.parametrize("fence", ["cpp", ""])
def test_a_block_that_explains_a_program_is_not_the_program(later, program, fence):
    completion = f"```{fence}\n{LONG_ADD}```\nHere\n```{fence}\n{later}```\nreads.\n"
    assert extract_code(completion, language="cpp") == program


@pytest.mark.parametrize(
    "program",
    [
        'main() { puts("1"); }\n',
        '#include <stdio.h>\nmain(void)\n{\n    puts("1");\n}\n',
        "main(argc, argv)\nint argc;\nchar **argv;\n{\n    return 0;\n}\n",
    ],
)
def test_a_main_without_a_type_is_a_main(program):
    completion = f"```c\n{program}```\nThe output:\n```c\n1\n```\nmain() is called first.\n"
    assert extract_code(completion, language="c") == program


@needs_compiler
@pytest.mark.parametrize(
    ("program", "outcome", "text"),
    [
        ("int main() { return x; }", "compile_error", "program.cpp:1:21: error"),
        ("int main() { return 3; }", "runtime_error", ""),
        (STD + "int main() { throw runtime_error(\"no\"); }", "runtime_error", "no"),
        (STD + "int main() { vector<int> v; cout << v.at(3); }", "runtime_error", "range"),
        (STD + "int main() { vector<long> v(1l << 36, 1); }", "memory_limit", "bad_alloc"),
        ("int a[1 << 28]; int main() { return a[7]++; }", "memory_limit", "map segment"),
        (STD + "int main() { while (1) cout << string(9999, 'x'); }", "output_limit", ""),
        ("int main() { for (volatile int i = 0;; i++) ; }", "time_limit", ""),
    ],
)  # fmt: skip
def test_every_outcome(verifier, program, outcome, text):
    verdict = verifier.verify(program, PAIR, language="cpp", time_limit=0.3)
    assert verdict.outcome.value == outcome
    assert text in verdict.tests[0].stderr


@needs_c_compiler
def test_c_is_one_file_more(verifier):
    assert verifier.verify(ADD_IN_C, PAIR, language="c").reward == 1.0
    assert verifier.verify("int main() { return y; }", PAIR, language="c").outcome.value == (
        "compile_error"
    )


@needs_compiler
def test_a_program_is_built_once_for_all_tests_and_duplicates():
    with Verifier(workers=2) as verifier:
        many = tuple(TestCase(input=f"{i} 1\n", output=str(i + 1)) for i in range(20))
        jobs = [Job(ADD, many[:size], language="cpp") for size in range(1, 21)]
        assert {verdict.reward for verdict in verifier.verify_many(jobs)} == {1.0}
        spent = verifier.build_seconds
        assert spent > 0
        verifier.verify_many(jobs)
        assert verifier.build_seconds == spent
        assert verifier.verify(ADD + "// other", many, language="cpp").reward == 1.0
        assert verifier.build_seconds > spent


@needs_compiler
def test_objects_are_kept_up_to_a_bound(monkeypatch):
    from maxatk.verifier import builds

    monkeypatch.setattr(builds, "_MOST_BYTES", 50_000)  # of 128 MiB: three objects
    with Verifier(workers=1) as verifier:
        for number in range(4):
            verifier.verify(f"{ADD}// {number}", PAIR, language="cpp")
        spent = verifier.build_seconds
        verifier.verify(f"{ADD}// 3", PAIR, language="cpp")
        assert verifier.build_seconds == spent
        assert verifier.verify(f"{ADD}// 0", PAIR, language="cpp").reward == 1.0
        assert verifier.build_seconds > spent


@needs_compiler
def test_flags_are_settings():
    program = "#ifndef MARK\n#error no mark\n#endif\nint main() {}"
    empty = [TestCase(input="", output="")]
    with Verifier(workers=1, flags={"cpp": "-O0 -DMARK=1"}) as marked:
        assert marked.verify(program, empty, language="cpp").reward == 1.0
        assert marked.limits["flags"] == {"cpp": "-O0 -DMARK=1"}
    with pytest.raises(InvalidValueError, match="flags: python has no compiler"):
        Verifier(flags={"python": "-O"})
    with pytest.raises(InvalidValueError, match="did you mean 'cpp'"):
        Verifier(flags={"cp": "-O"})


def test_calls_of_functions_are_python_alone(verifier):
    call = TestCase(call="f(1)", output="1")
    with pytest.raises(InvalidValueError, match=r"a program in C\+\+ .* calls a function"):
        Job(ADD, (call,), language="cpp")
    check = TestCase(check="def check(candidate): pass")
    with pytest.raises(InvalidValueError, match="calls a function"):
        Job(ADD, (check,), language="c", entry_point="f")
    with pytest.raises(InvalidValueError, match="language: unknown value 'rust'; allowed: c, cpp"):
        verifier.verify(ADD, PAIR, language="rust")
    with pytest.raises(InvalidValueError, match="calls a function"):
        verifier.refuse_problems([Problem("p", "", (call,), language="cpp")])


def test_a_language_that_this_machine_cannot_build_passes_nothing(monkeypatch, verifier):
    monkeypatch.setenv("PATH", "/nowhere")
    toolchain.toolchain.cache_clear()
    try:
        verdict = verifier.verify(ADD, PAIR, language="cpp")
        assert verdict.outcome is Outcome.INFRA_ERROR
        assert verdict.reward is None
        assert "there is no g++ and no clang++" in verdict.tests[0].stderr
        with pytest.raises(SandboxError, match=r"C\+\+ cannot be built on this machine"):
            verifier.refuse_problems([Problem("p", "", PAIR, language="cpp")])
        rows = {row.name: row for row in languages_here()}
        assert rows["python"].holds
        assert not rows["cpp"].holds
        assert "no g++" in rows["cpp"].reason
    finally:
        toolchain.toolchain.cache_clear()


def test_a_compiler_is_called_by_its_own_name_where_links_lead_to_another(monkeypatch, tmp_path):
    """`clang` and `clang++` are one file, which links no library of C++ under the first name."""
    inside = tmp_path / "llvm" / "bin"
    inside.mkdir(parents=True)
    driver = inside / "clang"
    driver.write_text("#!/bin/sh\necho clang version 99\n")
    driver.chmod(0o755)
    (inside / "clang++").symlink_to("clang")
    outside = tmp_path / "bin"
    outside.mkdir()
    for name in ("clang", "clang++"):
        (outside / name).symlink_to(inside / name)
    monkeypatch.setenv("PATH", f"{outside}:/nowhere")
    toolchain.toolchain.cache_clear()
    try:
        assert toolchain.toolchain(LANGUAGES["cpp"]).path == str(inside / "clang++")
        assert toolchain.toolchain(LANGUAGES["c"]).path == str(driver)
    finally:
        toolchain.toolchain.cache_clear()


CPP = "```cpp\n"
END = "```\n"
USE = "int add(int a, int b);\n"
FOUND = [
    (f"{CPP}{ADD}{END}", ADD),
    (f"```c++\n{ADD}{END}", ADD),
    (f"```C++20\n{ADD}{END}", ADD),
    (f"```\n{ADD}{END}", ADD),
    (f"First:\n{CPP}{ADD}{END}The declaration:\n{CPP}{USE}{END}", ADD),
    (f"{CPP}{USE}{END}Then:\n```\n{ADD}{END}Output:\n```\n3\n{END}", ADD),
    (f"{CPP}int main() {{}}\n{END}Better:\n{CPP}{ADD}{END}", ADD),
    (f"{CPP}{USE}{END}", USE),
    (f"{CPP}{ADD}", ADD),
    (f"{ADD}{END}It adds.", ADD),
    (ADD, ADD),
    (f"<think>\n{CPP}int main() {{}}\n{END}</think>\n{CPP}{ADD}{END}", ADD),
    (f"<answer>\n{CPP}{ADD}{END}</answer>", ADD),
    # fences that end a block with words beside them, or as they open the next one
    (f"{CPP}int main() {{}}\n``` It does nothing.\nBetter:\n{CPP}{ADD}{END}", ADD),
    (f"{CPP}{ADD}``` It adds.\n", ADD),
    (f"{CPP}{ADD.rstrip()}```\nIt adds.\n", ADD),
    (f"```\n{ADD.rstrip()}```\nIt adds.\n", ADD),
    (f"{CPP}int main() {{}}\n{CPP}{ADD}{END}", ADD),
    (f"```markdown\nHere it is:\n{CPP}{ADD}{END}Done.\n```\n", ADD),
    ("I do not know.", "I do not know."),
]


@pytest.mark.parametrize(("completion", "program"), FOUND)
def test_the_program_is_what_a_reader_would_take(completion, program):
    assert extract_code(completion, language="cpp") == program


@pytest.mark.parametrize(
    ("language", "fence", "message"),
    [
        ("cpp", "python", "a program in Python 3, and the problem asks for C++"),
        ("cpp", "c", "a program in C, and the problem asks for C++"),
        (None, "cpp", "a program in C++, and the problem asks for Python 3"),
        (None, "c++", "a program in C++, and the problem asks for Python 3"),
    ],
)
def test_a_program_in_another_language_has_an_outcome_of_its_own(
    verifier, language, fence, message
):
    extracted = verifier.program_of(f"So:\n```{fence}\n{ADD}```\n", None, language)
    assert extracted.program == ADD
    job = Job(extracted.program, PAIR, language=language, refused=extracted.refused)
    (verdict,) = verifier.verify_many([job])
    assert verdict.outcome is Outcome.OTHER_LANGUAGE
    assert verdict.reward == 0.0
    assert message in verdict.tests[0].stderr


def test_blocks_beside_the_program_may_be_in_any_language(verifier):
    completion = f"```python\nprint(1)\n```\nIn C++:\n```cpp\n{ADD}```\n"
    assert extract_code(completion, language="cpp") == ADD
    assert extract_code(completion) == "print(1)\n"
    assert extract_code("```bash\nls\n```\n", language="cpp") == "ls\n"


@pytest.mark.parametrize(
    "other",
    [
        "#include <iostream>\n\n// adds\nint main()   {\n  int a, b; /* two\nnumbers */"
        " std::cin >> a >> b;\nstd::cout << a + b; }",
        ADD.replace("; ", ";\n\t"),
    ],
)
def test_layout_and_comments_make_no_other_program(other):
    assert program_key(other, "cpp") == program_key(ADD, "cpp")


@pytest.mark.parametrize(
    "other",
    [
        ADD.replace("a + b", "a - b"),
        ADD.replace("a + b", '"//"'),
        ADD.replace("<iostream>\n", "<iostream>\n#define x\n"),
        ADD.replace("a + b", 'R"(/* */)"'),
    ],
)
def test_other_programs_have_other_fingerprints(other):
    keys = {program_key(text, "cpp") for text in (ADD, other, other.replace("//", "/"))}
    assert len(keys) >= 2
    assert program_key(other, "cpp") != program_key(ADD, "cpp")


@pytest.mark.parametrize(
    ("unit", "size"), [('R"(', 20_000), ("/*", 40_000), ('"', 80_000), ("a ", 60_000)]
)
def test_fingerprints_and_programs_take_linear_time(unit, size):
    def read(text):
        program_key(text, "cpp")
        extract_code(text, language="cpp")

    assert_linear_time(read, lambda count: unit * count, size)


@needs_compiler
def test_rewards_of_trainers_take_the_language_of_the_problem(verifier):
    completions = [
        f"{CPP}{ADD}{END}",
        f"```python\nprint(3)\n{END}",
        f"{CPP}int main() {{}}\n{END}",
    ]
    tests = [[test.to_json() for test in PAIR]] * 3
    of_trl = CodeReward(verifier)(completions=completions, tests=tests, language=["cpp"] * 3)
    assert of_trl == [1.0, 0.0, 0.0]
    truth = {"tests": tests[0], "language": "cpp"}
    assert [compute_score("a", text, truth)["score"] for text in completions] == of_trl
    problem = Problem("p", "", PAIR, language="cpp")
    assert submission(Sample("p", 0, completions[0]), problem).program == ADD
    assert Problem.from_json(problem.to_json()) == problem


@needs_compiler
def test_what_programs_print_is_told_in_every_language(verifier):
    ((output,),) = verifier.run([ADD], ["4 5\n"], language="cpp")
    assert (output.outcome, output.printed) == (Outcome.ENDED, "9")


# What testlib.h is to a checker: its names, its order of files and its exit statuses.
TESTLIB = """\
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
enum TResult { _ok = 0, _wa = 1, _pe = 2, _fail = 3 };
struct InStream { std::ifstream file; long readLong() { long x; if (!(file >> x)) std::exit(_pe);
    return x; } };
InStream inf, ouf, ans;
inline void registerTestlibCmd(int argc, char **argv) {
    if (argc < 4) std::exit(_fail);
    inf.file.open(argv[1]); ouf.file.open(argv[2]); ans.file.open(argv[3]);
}
[[noreturn]] inline void quitf(TResult result, const char *text, ...) {
    std::fprintf(stderr, "%s", text); std::exit(result);
}
"""
CHECKER = """\
#include "testlib.h"
int main(int argc, char **argv) {
    registerTestlibCmd(argc, argv);
    long sum = inf.readLong(), a = ouf.readLong(), b = ouf.readLong();
    if (ans.readLong() != sum) quitf(_fail, "the answer is no answer");
    quitf(a + b == sum ? _ok : _wa, "two numbers");
}
"""


@pytest.fixture(scope="module")
def with_testlib(tmp_path_factory):
    path = tmp_path_factory.mktemp("testlib") / "testlib.h"
    path.write_text(TESTLIB)
    with Verifier(workers=1, testlib=path) as verifier:
        yield verifier


@needs_compiler
@pytest.mark.parametrize(
    ("program", "language", "outcome"),
    [
        (STD + "int main() { int n; cin >> n; cout << n - 9 << ' ' << 9; }", "cpp", "passed"),
        ("n = int(input())\nprint(n + 4, -4)", None, "passed"),
        ("print(1, 1)", None, "wrong_answer"),
        ("print('x')", None, "wrong_answer"),
        ("print(1)", None, "wrong_answer"),
        ("1 / 0", None, "runtime_error"),
    ],
)
def test_a_checker_in_cpp_follows_the_protocol_of_testlib(with_testlib, program, language, outcome):
    tests = [TestCase(input=f"{n}\n", output=f"{n}\n") for n in (3, 8)]
    verdict = with_testlib.verify(
        program, tests, "checker", checker=CHECKER, checker_language="cpp", language=language
    )
    assert [test.outcome.value for test in verdict.tests] == [outcome] * 2
    if program == "print(1, 1)":
        assert verdict.tests[0].stderr == "checker: two numbers"


@needs_compiler
def test_a_checker_without_its_header_or_its_syntax_is_no_reward_of_zero(verifier, with_testlib):
    for judge, checker in (
        (verifier, CHECKER),
        (with_testlib, CHECKER.replace("quitf(a", "quitf(c")),
    ):
        verdict = judge.verify(
            "print(1, 2)", PAIR, "checker", checker=checker, checker_language="cpp"
        )
        assert verdict.reward is None
        assert "the checker does not compile" in verdict.tests[0].stderr
    with pytest.raises(MissingFileError, match="no such file"):
        Verifier(testlib="nowhere/testlib.h")


def test_programs_have_the_stack_that_judges_give(verifier):
    program = STD + (
        "int depth(volatile int *p, int n) { volatile int x[50] = {n};"
        " return n ? depth(x, n - 1) + (x[0] == n) : *p == 0; }\n"
        "int main() { volatile int x = 1; cout << depth(&x, 1000000); }"
    )
    verdict = verifier.verify(program, [TestCase(input="", output="1000000")], language="cpp")
    assert verdict.tests[0].peak_memory > 200 << 20
    assert verdict.outcome in (Outcome.PASSED, Outcome.WRONG_ANSWER)
    assert math.isfinite(verdict.seconds)


@contextlib.contextmanager
def only_compiler(monkeypatch, folder):
    """A `clang++` in a prefix of its own, as the only compiler; yields what sets how it builds."""
    inside = folder / "llvm" / "bin"
    inside.mkdir(parents=True)
    driver = inside / "clang++"

    def build_by(script):
        driver.write_text(
            f'#!/bin/sh\ncase "$1" in --version) echo clang version 99;;\n'
            f"-print*) ;;\n*) {script}\nesac\n"
        )

    build_by("exit 1")
    for path in (folder / "llvm", inside, driver):
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(inside))
    toolchain.toolchain.cache_clear()
    try:
        yield build_by
    finally:
        toolchain.toolchain.cache_clear()


def test_a_toolchain_may_lie_below_tmp(monkeypatch):
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        only_compiler(monkeypatch, Path(folder)) as build_by,
        Verifier(workers=1) as verifier,
    ):
        build_by("echo no such program >&2; exit 1")
        verdict = verifier.verify(ADD, PAIR, language="cpp")
        assert verdict.outcome is Outcome.COMPILE_ERROR
        assert verdict.tests[0].stderr == "no such program"


ENDS_OF_CLANG = {
    "a part of it is killed": (
        "echo 'clang++: error: unable to execute command: Killed' >&2\n"
        "echo 'clang++: error: clang frontend command failed due to signal' >&2\nexit 254"
    ),
    "all of it is killed": "exec sleep 50",
}


@pytest.mark.parametrize("end", ENDS_OF_CLANG.values(), ids=ENDS_OF_CLANG)
def test_a_program_whose_clang_was_killed_is_built_anew_when_asked_for(monkeypatch, tmp_path, end):
    with (
        only_compiler(monkeypatch, tmp_path) as build_by,
        Verifier(workers=1) as verifier,
        ThreadPoolExecutor(1) as thread,
    ):
        build_by(end)
        ending = thread.submit(verifier.verify, ADD, PAIR, language="cpp")
        while not ending.done():
            kill_below("sleep")
            time.sleep(0.05)
        assert ending.result().outcome is Outcome.COMPILE_ERROR
        for number in (2, 3):
            build_by(f"echo build {number} >&2; exit 1")
            verdict = verifier.verify(ADD, PAIR, language="cpp")
            assert verdict.tests[0].stderr == "build 2"  # which is kept, since nothing killed it


def kill_below(name):
    """Kill the processes of that name below this one."""
    for member in family(os.getpid()):
        with contextlib.suppress(psutil.NoSuchProcess):
            if member.name() == name:
                member.kill()
