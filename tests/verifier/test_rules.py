from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.errors import InvalidValueError
from maxatk.verifier.rules import COMPARE, rule

# The rule `checker` reads what a checker printed, not the output of a program; `apps` compares text
# as `tokens` does.
TEXT_RULES = [name for name in COMPARE if name not in ("checker", "apps")]

# (actual, expected) -> the rules that accept
CASES = [
    ("1 2\n", "1 2", {"tokens", "lcb", "deepmind", "literal"}),
    ("  1\t2 ", "1 2", {"tokens", "lcb", "deepmind"}),
    ("1\n2", "1 2", {"tokens", "deepmind"}),
    ("1.0000001", "1", {"tokens", "deepmind"}),
    ("1.000001000", "1.000001", {"tokens", "lcb", "deepmind", "literal"}),
    ("1.0", "1", {"tokens", "lcb", "deepmind", "literal"}),
    ("1.00001", "1", set()),
    ("1.000009", "1", {"deepmind"}),
    ("1000000000", "1000000007", set()),
    ("12345678", "12345600", set()),
    ("100001", "100000", set()),
    ("1e-5", "0", set()),
    # a float where an integer is expected: the error is absolute
    ("1000000.0", "1000000", {"tokens", "lcb", "deepmind", "literal"}),
    ("1e6", "1000000", {"tokens", "lcb", "deepmind", "literal"}),
    ("1234567.5", "1234567", set()),
    ("1000000007.0", "1000000006", set()),
    ("-1000000007.0", "-1000000006", set()),
    ("1e+18", "1000000000000000001", {"deepmind"}),
    ("9007199254740993.0", "9007199254740993", {"tokens", "lcb", "deepmind"}),
    ("9007199254740992.0", "9007199254740993", {"deepmind"}),
    ("9007199254740993.000001", "9007199254740993", {"tokens"}),
    ("9007199254740993.0000011", "9007199254740993", set()),
    ("0.0000010", "0", {"tokens", "deepmind"}),
    ("9" * 3000 + ".0", "9" * 3000, {"tokens", "lcb"}),
    ("9" * 3000 + ".0", "9" * 2999 + "8", set()),
    ("1e999999999999999999", "1", set()),
    ("1e9999999999999999999", "1", set()),
    ("1e-9999999999999999999", "1", set()),
    ("100000.0000001", "100000.5", set()),
    ("1000000.5", "1000000.0", {"tokens"}),  # a float is expected: the error may be relative
    ("1000000", "1000000.5", {"tokens"}),
    ("-0", "0", {"tokens", "lcb", "deepmind", "literal"}),
    ("+007", "7", {"tokens", "lcb", "deepmind"}),
    ("-7", "7", set()),
    ("0" + "9" * 5000, "9" * 5000, {"tokens", "lcb"}),
    ("YES", "yes", {"deepmind"}),
    (str(10**17), str(10**17 + 1), {"deepmind"}),
    ("007", "7", {"tokens", "lcb", "deepmind"}),
    ("nan", "nan", {"tokens", "lcb", "deepmind", "literal"}),
    ("nan", "NaN", {"deepmind"}),
    ("inf", "1e999", set()),
    ("1e999", "2e999", {"literal"}),  # both are inf to Python
    ("1e999", "5", set()),
    ("1_000", "1000", {"lcb", "literal"}),
    ("", "", {"tokens", "lcb", "deepmind", "literal"}),
    ("", "0", set()),
    ("0", "", set()),
    ("1 2 3", "1 2", set()),
    ("[1,2]", "[1, 2]", {"literal"}),
    ("{'a':(1,)}", '{"a": (1,)}', {"literal"}),
    ("(1)", "1", {"literal"}),
    ("\N{ARABIC-INDIC DIGIT ONE}", "1", {"lcb"}),
    ("9" * 5000, "9" * 5000, {"tokens", "lcb", "deepmind", "literal"}),
    ("9" * 5000, "8" + "9" * 4999, set()),
    ("[1" + "0" * 5000 + "]", "[1" + "0" * 5000 + " ]", {"literal"}),
    ("{-1" + "0" * 49_999 + ": 'a'}", "{-1" + "0" * 49_999 + ': "a"}', {"literal"}),
    ("['1" + "0" * 5000 + "']", "[1" + "0" * 5000 + "]", set()),
    ("[1" + "0" * 5000 + "]", "[2" + "0" * 5000 + "]", set()),
    ('"\\"' * 20_000, "[1]", set()),
    ("[" * 100_000, "1", set()),
    ("[" * 1_000, "[[1]]", set()),
    ("1" * 400_000, "[1]", set()),
]


@pytest.mark.parametrize("name", TEXT_RULES)
@pytest.mark.parametrize(("actual", "expected", "accepting"), CASES)
def test_rules(name, actual, expected, accepting):
    assert COMPARE[name](actual.encode(), expected) is (name in accepting)


@pytest.mark.parametrize(("actual", "expected", "accepting"), CASES)
def test_apps_compares_text_as_tokens_does(actual, expected, accepting):
    assert COMPARE["apps"](actual.encode(), expected) is ("tokens" in accepting)


@pytest.mark.parametrize("name", COMPARE)
@given(actual=st.binary(max_size=60), expected=st.text(max_size=60))
def test_no_output_raises(name, actual, expected):
    assert COMPARE[name](actual, expected) in (True, False)


@pytest.mark.parametrize("name", TEXT_RULES)
@given(text=st.text(st.characters(codec="ascii"), max_size=60))
def test_a_text_equals_itself(name, text):
    assert COMPARE[name](text.encode(), text)


@given(values=st.lists(st.integers()), noise=st.integers(1, 9), place=st.integers(0))
def test_tokens_tells_integers_apart_at_any_size(values, noise, place):
    changed = list(values)
    if changed:
        changed[place % len(changed)] += noise
    same = COMPARE["tokens"](" ".join(map(str, changed)).encode(), "\n".join(map(str, values)))
    assert same is (changed == values)


DIGITS = st.integers(-(10**25), 10**25)


@given(expected=DIGITS, millionths=st.integers(-3, 3), places=st.sampled_from([6, 9]))
def test_tokens_tells_a_float_from_an_expected_integer_beyond_a_millionth(
    expected, millionths, places
):
    error = Fraction(millionths, 10**places)
    scaled = (expected + error) * 10**places
    text = f"{scaled}e-{places}"
    assert COMPARE["tokens"](text.encode(), str(expected)) is (abs(error) <= Fraction(1, 10**6))


@given(n=st.integers(3, 10**16))
def test_true_division_is_no_floor_division(n):
    printed = f"{n / 2}"
    exact = Fraction(printed) == n // 2
    assert COMPARE["tokens"](printed.encode(), str(n // 2)) is exact


def test_unknown_rules_are_refused_with_a_suggestion():
    with pytest.raises(InvalidValueError, match="did you mean 'literal'"):
        rule("litteral")
