"""Reward functions of one's own: loaded by name, called as TRL calls them, never a silent 0."""

import dataclasses
import functools
import logging
import math
import textwrap
import time

import pytest

from maxatk.errors import InvalidValueError, MissingFileError
from maxatk.records import Problem, TestCase
from maxatk.rewards import load_reward, load_rewards, read_spec
from maxatk.rewards.reward import Reward, RewardPart, columns_of
from maxatk.rewards.specification import describe_reward
from maxatk.verifier import Verifier

PROBLEMS = [
    Problem("a", "1+1=", answer="2", meta={"level": 3, "id": "shadow"}),
    Problem("b", "2+3=", (TestCase(input="", output="5"),), answer="5"),
]


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as opened:
        yield opened


@pytest.fixture
def write_spec(tmp_path):
    """Return a function that writes functions to a file and gives the value of `reward:`."""

    def write(source, name="reward"):
        path = tmp_path / "own.py"
        path.write_text(textwrap.dedent(source))
        return f"{path}:{name}"

    return write


def called(reward, completions, problems=PROBLEMS):
    prompts = [problem.prompt for problem in problems]
    return reward(prompts, completions, **columns_of(problems))


def test_a_function_of_a_file_gets_the_columns_of_the_problems(write_spec, verifier):
    spec = write_spec(
        """
        def reward(prompts, completions, answer, level, **_):
            return [
                (c == a) + (10.0 if level is None else level) + len(p)
                for p, c, a, level in zip(prompts, completions, answer, level)
            ]
        """
    )
    reward = load_reward(spec, verifier=verifier)
    reward.check(PROBLEMS)
    assert called(reward, ["2", "4"]) == [1 + 3 + 4, 0 + 10 + 4]
    assert describe_reward(spec)[0]["sha256"]


def test_a_function_of_a_module_and_an_array_as_its_result(verifier):
    reward = load_reward("rewards_for_tests:lengths", verifier=verifier)
    assert called(reward, ["abc", ""]) == [3.0, 0.0]


def test_parts_are_weighted_and_one_without_a_value_leaves_none(write_spec, verifier):
    spec = write_spec(
        "def reward(completions, **_):\n    return [None if c == 'x' else 2 for c in completions]"
    )
    whole = [
        {"reward": spec, "weight": 0.25},
        {"reward": "rewards_for_tests:lengths", "weight": -1},
    ]
    reward = load_reward(whole, verifier=verifier)
    assert called(reward, ["abc", "x"]) == [0.5 - 3.0, None]
    rewarded = reward.rewarded(["", ""], ["abc", "x"], {})
    assert [sample.parts for sample in rewarded] == [
        {"reward": 2.0, "lengths": 3.0},
        {"lengths": 1.0},
    ]
    assert not reward.failures


def test_an_exception_spoils_only_the_completions_that_cause_it_and_is_named(
    verifier, write_spec, caplog
):
    spec = write_spec("def reward(completions, **_):\n    return [1 / len(c) for c in completions]")
    reward = load_reward({"reward": spec, "on_error": "drop"}, verifier=verifier)
    with caplog.at_level(logging.WARNING):
        assert called(reward, ["ab", ""]) == [0.5, None]
        assert called(reward, ["", "a"]) == [None, 1.0]
    assert reward.failures == {"reward reward: raised ZeroDivisionError: division by zero": 2}
    assert len(caplog.records) == 1
    assert "division by zero; such completions have no reward" in caplog.text


HOSTILE = """
import fractions, numpy as np
class Mute(BaseException):
    def __str__(self):
        raise self
    __repr__ = __str__
class Unshown:
    def __repr__(self):
        raise ValueError
"""


@pytest.mark.parametrize(
    "raised", ["SystemExit(0)", "GeneratorExit", "BaseException('x')", "StopIteration", "Mute()"]
)
def test_whatever_a_function_raises_is_a_failure_with_its_name(write_spec, verifier, raised):
    body = f"    if 'x' in completions:\n        raise {raised}\n    return [1] * len(completions)"
    spec = write_spec(f"{HOSTILE}\ndef reward(completions, **_):\n{body}")
    reward = load_reward({"reward": spec, "on_error": "drop"}, verifier=verifier)
    assert called(reward, ["x", "b"]) == [None, 1.0]
    assert f"raised {raised.partition('(')[0]}" in next(iter(reward.failures))
    direct = Reward([dataclasses.replace(part, timeout_s=None) for part in reward.parts])
    assert called(direct, ["x", "b"]) == [None, 1.0]


def test_an_interruption_of_the_user_is_none_of_a_function(write_spec, verifier):
    spec = write_spec("def reward(**_):\n    raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        called(load_reward(spec, verifier=verifier), ["a", "b"])


def test_numbers_of_other_types_are_rewards(write_spec, verifier):
    numbers = "[fractions.Fraction(1, 4), np.float32(0.5), np.bool_(True), np.array(2)]"
    spec = write_spec(f"{HOSTILE}\ndef reward(completions, **_):\n    return {numbers}")
    reward = load_reward(spec, verifier=verifier)
    assert called(reward, list("abcd"), PROBLEMS * 2) == [0.25, 0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    "value",
    [
        *("'high'", "float('nan')", "float('inf')", "[1]", "1j", "object()", "Unshown()"),
        *("1e101", "10 ** 400", "-10 ** 5000", "fractions.Fraction(10 ** 400, 3)"),
        "np.array([1, 2])",
    ],
)
def test_what_is_no_finite_number_is_a_failure_and_not_0(write_spec, verifier, value):
    spec = write_spec(f"{HOSTILE}\ndef reward(completions, **_):\n    return [{value}, 1]")
    reward = load_reward({"reward": spec, "on_error": "drop"}, verifier=verifier)
    assert called(reward, ["a", "b"]) == [None, 1.0]
    wanted = "where a finite number of at most 1e+100 in size or None is wanted"
    assert wanted in next(iter(reward.failures))


@pytest.mark.parametrize(
    "result",
    ["0.5", "[1.0]", "[1.0] * 3", "[]", "None", "{0: 1, 1: 2}", "Unshown()", "{0.5, 1}"],
)
def test_a_result_of_another_length_or_type_is_an_error_and_no_second_call(
    write_spec, verifier, result
):
    # Called with one completion alone it would be right, which hides the defect.
    spec = write_spec(
        f"{HOSTILE}\ndef reward(completions, **_):\n"
        f"    return {result} if len(completions) > 1 else [1.0]"
    )
    reward = load_reward({"reward": spec, "on_error": "zero"}, verifier=verifier)
    with pytest.raises(InvalidValueError, match="for 2 completions, where a list of 2 numbers"):
        called(reward, ["a", "b"])


FAILS_AT_X = """
def inner(text):
    return {"a": VALUE}[text]

def reward(completions, **_):
    return [inner(text) for text in completions]
"""


def failing(write, verifier, *, value=1, **keys):
    spec = write(FAILS_AT_X.replace("VALUE", str(value)))
    return load_reward({"reward": spec, **keys}, verifier=verifier)


def batch(reward, *, good, bad):
    texts = ["a"] * good + ["x"] * bad
    return reward([""] * len(texts), texts)


def test_few_failures_count_as_zero_and_many_stop_with_the_users_own_lines(write_spec, verifier):
    reward = failing(write_spec, verifier)
    assert batch(reward, good=95, bad=5) == [1.0] * 95 + [0.0] * 5
    with pytest.raises(InvalidValueError) as stopped:
        batch(reward, good=0, bad=1)
    text = str(stopped.value)
    assert "failed for 6 of 101 completions; the first time it raised KeyError: 'x'" in text
    assert 'own.py", line 6, in' in text
    assert 'own.py", line 3, in inner' in text
    assert "rewards/reward.py" not in text
    assert "on_error: zero" in text


@pytest.mark.parametrize(("value", "weight"), [(-1, 1), (1, -1)])
def test_a_failure_is_no_zero_by_default_where_zero_would_be_a_gift(
    write_spec, verifier, value, weight
):
    reward = failing(write_spec, verifier, value=value, weight=weight)
    with pytest.raises(InvalidValueError, match="failed for 1 of 100"):
        batch(reward, good=99, bad=1)


@pytest.mark.parametrize(("policy", "worth"), [("zero", 0.0), ("drop", None)])
def test_a_policy_says_what_a_failure_is_worth(write_spec, verifier, policy, worth):
    reward = failing(write_spec, verifier, on_error=policy)
    assert batch(reward, good=1, bad=2) == [1.0, worth, worth]
    assert reward.failures.total() == 2
    (rewarded,) = reward.rewarded([""], ["x"], {})
    assert (rewarded.total, rewarded.error) == (worth, "reward raised KeyError: 'x'")


def test_none_of_a_function_is_no_failure_under_any_policy(write_spec, verifier):
    reward = load_reward(write_spec("def reward(**_):\n    return [None]"), verifier=verifier)
    assert reward([""], ["a"]) == [None]
    assert not reward.failures


def test_what_a_function_prints_goes_to_standard_error(write_spec, verifier, capsys):
    spec = write_spec("print('loaded')\ndef reward(**_):\n    print('called')\n    return [1]")
    assert load_reward(spec, verifier=verifier)([""], ["a"]) == [1.0]
    assert capsys.readouterr() == ("", "loaded\ncalled\n")


def test_a_function_that_takes_too_long_gives_no_reward_and_no_wait(write_spec, verifier):
    spec = write_spec("import time\ndef reward(completions, **_):\n    time.sleep(30)")
    keys = {"reward": spec, "timeout_s": 0.2, "on_error": "drop"}
    reward = load_reward(keys, verifier=verifier)
    started = time.monotonic()
    assert called(reward, ["a", "b"]) == [None, None]
    assert time.monotonic() - started < 15
    assert list(reward.failures) == ["reward reward: did not return within 0.2 s"]


@pytest.mark.parametrize("seconds", [math.inf, 1e12])
def test_a_function_may_take_for_ever(write_spec, verifier, seconds):
    spec = write_spec(
        "import time\ndef reward(completions, **_):\n    time.sleep(0.1)\n    return [1]"
    )
    reward = load_reward({"reward": spec, "timeout_s": seconds}, verifier=verifier)
    assert (called(reward, ["a"], PROBLEMS[:1]), reward.failures) == ([1.0], {})


def test_tests_and_a_function_of_ones_own_together(write_spec, verifier):
    spec = write_spec(
        "def reward(completions, **_):\n    return [-len(c) / 100 for c in completions]"
    )
    reward = load_reward(["continuous", spec], verifier=verifier)
    problems = [PROBLEMS[1]] * 2
    rewards = called(reward, ["print(5)", "print(4)"], problems)
    assert rewards == pytest.approx([1 - 0.08, -0.08])
    with pytest.raises(InvalidValueError, match="'a': has no tests, which the reward of a program"):
        reward.check(PROBLEMS)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("continous", "did you mean 'continuous'"),
        ("", "unknown value ''"),
        (3, "got 3; allowed"),
        ({"reward": "answer", "wieght": 2}, "unknown key 'wieght'.*did you mean 'weight'"),
        ({"reward": "answer", "weight": "2"}, r"weight: must be a finite number .*, got '2'"),
        ({"reward": "answer", "weight": 1e101}, r"weight: .* at most 1e\+100 in size, got 1e\+101"),
        ({"reward": "answer", "weight": math.inf}, r"weight: must be a finite .*, got inf"),
        ({"reward": "a:b", "timeout_s": 0}, "timeout_s: must be a positive number, got 0"),
        ({"reward": "a:b", "on_error": "skip"}, "on_error: unknown.*'skip'.*stop, zero"),
        ({"reward": "answer", "on_error": "zero"}, "on_error: is for functions and models"),
        ({"reward": "answer", "timeout_s": 60}, "timeout_s: is for functions .* for answer"),
        ({"reward": "binary", "timeout_s": 1}, "timeout_s: is for functions .* for binary"),
        ({"answer": None, "timeout_s": 1}, "timeout_s: is for functions .* for answer"),
        ({"model": 3}, "reward.model: must be text"),
        ({"model": "m", "reward": "answer"}, "allowed: continuous, binary"),
        ([], "every part needs a name of its own"),
        (["answer", {"reward": "answer"}], "every part needs a name of its own"),
    ],
)
def test_what_a_recipe_may_not_say_is_refused_by_name(value, message):
    with pytest.raises(InvalidValueError, match=message):
        read_spec(value)


def test_a_function_that_cannot_be_called_is_refused_before_any_completion(
    write_spec, verifier, tmp_path
):
    load = functools.partial(load_reward, verifier=verifier)
    with pytest.raises(MissingFileError, match=r"absent.py' does not exist"):
        load(f"{tmp_path}/absent.py:reward")
    with pytest.raises(InvalidValueError, match=r"no function 'rewrd'; did you mean 'reward'"):
        load(write_spec("def reward(**_): ...", name="rewrd"))
    with pytest.raises(InvalidValueError, match=r"cannot be imported: ModuleNotFoundError"):
        load("no_such_module_here:f")
    with pytest.raises(InvalidValueError, match="cannot be imported: SyntaxError"):
        load(write_spec("def reward("))
    with pytest.raises(InvalidValueError, match="cannot be imported: SystemExit: 0"):
        load(write_spec("import sys\nsys.exit(0)"))
    reward = load(write_spec("def reward(prompts, completions, answer):\n    return []"))
    with pytest.raises(InvalidValueError, match=r"unexpected keyword.*a last parameter \*\*_"):
        reward.check(PROBLEMS)


def test_a_module_that_is_a_file_of_the_working_folder_is_pointed_to(
    verifier, tmp_path, monkeypatch
):
    (tmp_path / "brevity.py").write_text("def reward(**_): ...")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValueError, match=r"'brevity'; did you mean 'brevity.py'"):
        load_reward("brevity:reward", verifier=verifier)


def test_a_field_of_meta_never_takes_the_place_of_a_column():
    columns = columns_of([Problem("a", "x", meta={"answer": "m", "n": 1}), Problem("b", "y")])
    assert columns["answer"] == [None, None]
    assert columns["n"] == [1, None]
    assert columns["problem_id"] == ["a", "b"]


def test_the_sum_is_exact_in_the_order_of_the_parts():
    parts = [
        RewardPart(
            "function", str(w), w, function=lambda completions, **_: [1.0] * len(completions)
        )
        for w in (1e16, 1, -1e16)
    ]
    assert Reward(parts)([""], ["x"]) == [math.fsum((1e16, 1, -1e16))]


def test_the_share_of_visible_tests_is_a_reward(verifier):
    tests = tuple(TestCase(input=f"{i}\n", output=f"{2 * i}\n") for i in (1, 2))
    problems = [Problem("a", "Double it.", tests=tests[:1], visible_tests=tests)]
    reward = load_reward(["visible_tests", "continuous"], verifier=verifier)
    reward.check(problems)
    (rewarded,) = reward.rewarded(["Double it."], ["print(2)"], columns_of(problems))
    assert rewarded.parts == {"visible_tests": 0.5, "continuous": 1.0}
    with pytest.raises(InvalidValueError, match="'b': has no visible_tests"):
        reward.check(PROBLEMS[1:])


def test_the_part_that_selects_is_a_function_of_its_own(verifier):
    spec = ["continuous", "binary", "visible_tests"]
    rewards = load_rewards(spec, selection="visible_tests", verifier=verifier)
    assert [reward.__name__ for reward in rewards] == ["continuous+binary", "visible_tests"]
    assert len(load_rewards(spec, selection=None, verifier=verifier)) == 1


@pytest.mark.parametrize("spec", ["visible_tests", ["continuous", "binary"]])
def test_a_selection_must_be_one_of_several_parts(verifier, spec):
    with pytest.raises(InvalidValueError, match=r"trainer\.selection: must name one of two"):
        load_rewards(spec, selection="visible_tests", verifier=verifier)
