import inspect

import pytest

from maxatk import errors

TREE = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.MaxAtKError) and error is not errors.MaxAtKError
]


@pytest.mark.parametrize("error", TREE)
def test_every_error_is_also_the_built_in_one_a_caller_expects(error):
    built_in = [base for base in error.__mro__ if base.__module__ == "builtins"]
    assert built_in[0] not in (Exception, BaseException, object)
    with pytest.raises(errors.MaxAtKError, match="what happened"):
        raise error("what happened")


def test_the_tree_has_no_forgotten_branch():
    assert len(TREE) >= 6


def test_a_missing_file_error_prints_its_message_alone():
    assert str(errors.MissingFileError("x: no such file")) == "x: no such file"
    assert str(errors.MissingFileError()) == ""


def test_the_closest_name_is_suggested():
    names = ["grpo", "bon_mean", "bon_loo1"]
    assert errors.suggestion("bon_men", names) == "; did you mean 'bon_mean'?"
    assert errors.suggestion("zzz", names) == ""
    assert errors.suggestion(5, names) == ""  # what is no text is unknown as well
    message = str(errors.unknown_name("method", "gropo", names))
    assert message == (
        "method: unknown value 'gropo'; allowed: bon_loo1, bon_mean, grpo; did you mean 'grpo'?"
    )


def test_one_thing_is_counted_in_the_singular():
    assert [errors.counted(n) for n in (0, 1, 2)] == ["0 problems", "1 problem", "2 problems"]
    assert [errors.counted(n, "row") for n in (1, 2000)] == ["1 row", "2,000 rows"]
