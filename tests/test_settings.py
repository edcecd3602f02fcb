import dataclasses
from typing import Any, Literal, Optional

import pytest
import yaml

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.settings import apply_overrides, from_mapping, read_extended, read_recipe


@dataclasses.dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    name: str = "x"


@dataclasses.dataclass(frozen=True)
class Outer:
    out: str
    steps: int = 1
    flag: bool = False
    limit: Optional[int] = None  # noqa: UP045  (the spelling of other libraries)
    size: float | None = None
    mode: Literal["fast", "slow"] = "fast"
    inner: Inner = dataclasses.field(default_factory=Inner)
    names: list[str] = dataclasses.field(default_factory=list)
    section: dict[str, Any] = dataclasses.field(default_factory=dict)
    either: str | list[str] | None = None
    derived: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass(frozen=True)
class Checked:
    """Settings that check themselves, and begin with the field, their own name or the section."""

    low: int = 0
    high: int = 1
    file: str | None = None

    def __post_init__(self):
        if self.low >= self.high:
            raise InvalidValueError(
                f"low: must be below high\nChecked.high: must be above low, got {self.high}\n"
                "inner: holds nothing\n  high: in a paragraph\nhighest: is no field"
            )
        if self.file is not None:
            raise MissingFileError(f"inner.file: there is no file {self.file!r}")


@dataclasses.dataclass(frozen=True)
class Around:
    inner: Checked


def parse(text):
    return from_mapping(Outer, apply_overrides({}, [f"x={text}"])["x"], where="recipe")


def test_what_is_left_out_keeps_its_default():
    assert parse("out: a") == Outer("a")


def test_every_kind_of_field():
    text = """
        out: a
        steps: 3
        flag: true
        limit: 4
        size: 2
        mode: slow
        inner: {rate: 1e-4, name: y}
        names: [a, b]
        section: {k: [1]}
        either: [a]
    """
    assert parse(text) == Outer(
        "a", 3, True, 4, 2.0, "slow", Inner(1e-4, "y"), ["a", "b"], {"k": [1]}, ["a"]
    )


def test_numbers_that_yaml_reads_as_text_become_numbers():
    assert yaml.safe_load("1e-4") == "1e-4"  # YAML 1.1 wants a dot
    assert apply_overrides({}, ["a=1e-4", "b=-2E5", "c=.5e3", "d=1e", "e=e5"]) == {
        **{"a": 1e-4, "b": -2e5, "c": 500.0},
        **{"d": "1e", "e": "e5"},
    }
    assert parse("{out: a, inner: {rate: 1e-4}}").inner.rate == 1e-4
    whole = parse("{out: a, size: 3}").size
    assert (whole, type(whole)) == (3.0, float)


def test_nothing_is_a_value_where_none_is_allowed():
    assert parse("{out: a, limit: , size: null, either: }") == Outer("a")


BAD = {
    "{out: a, stepz: 1}": r"recipe: unknown key 'stepz'; did you mean 'steps'\?; allowed: either,",
    "{out: a, 7: 1}": "recipe: unknown key 7",
    "{out: a, derived: 1}": "recipe: unknown key 'derived'",
    "{steps: 1}": "recipe: the key 'out' is required",
    "{out: a, steps: two}": "recipe.steps: must be int, got 'two'",
    "{out: a, steps: 1.5}": "recipe.steps: must be int, got 1.5",
    "{out: a, steps: true}": "recipe.steps: must be int, got True",
    "{out: a, steps: }": "recipe.steps: must be int, got nothing",
    "{out: 3}": "recipe.out: must be str, got 3",
    "{out: a, flag: 1}": "recipe.flag: must be bool, got 1",
    "{out: a, flag: yes}": "recipe.flag: must be bool, got 'yes'; YAML 1.2 writes true and false",
    "{out: a, limit: x}": "recipe.limit: must be int, got 'x'",
    "{out: a, size: big}": "recipe.size: must be float, got 'big'",
    "{out: a, size: true}": "recipe.size: must be float, got True",
    "{out: a, mode: fats}": r"recipe.mode: got 'fats'; allowed: fast, slow; did you mean 'fast'",
    "{out: a, inner: {rat: 1}}": r"recipe.inner: unknown key 'rat'; did you mean 'rate'\?",
    "{out: a, inner: 3}": "recipe.inner: must be a mapping of settings, got 3",
    "{out: a, inner: }": "recipe.inner: must be a mapping of settings, got None",
    "{out: a, inner: {rate: [1]}}": r"recipe.inner.rate: must be float, got \[1\]",
    "{out: a, names: b}": "recipe.names: must be list, got 'b'",
    "{out: a, names: [b, 3]}": r"recipe.names\[1\]: must be str, got 3",
    "{out: a, names: }": "recipe.names: must be list, got nothing",
    "{out: a, section: 3}": "recipe.section: must be dict, got 3",
    "{out: a, section: }": "recipe.section: must be dict, got nothing",
    "[out]": r"recipe: must be a mapping of settings, got \['out'\]",
}


@pytest.mark.parametrize(("text", "message"), BAD.items())
def test_bad_settings_are_named_by_their_path(text, message):
    with pytest.raises(InvalidValueError, match=message):
        parse(text)


def test_what_settings_say_of_themselves_is_named_by_its_path():
    with pytest.raises(InvalidValueError) as refused:
        from_mapping(Around, {"inner": {"low": 2}}, where="recipe")
    assert str(refused.value).splitlines() == [
        "recipe.inner.low: must be below high",
        "recipe.inner.high: must be above low, got 1",
        "recipe.inner: holds nothing",
        "  high: in a paragraph",
        "highest: is no field",
    ]
    with pytest.raises(MissingFileError, match=r"^recipe\.inner\.file: there is no file 'x'"):
        from_mapping(Around, {"inner": {"file": "x"}}, where="recipe")
    with pytest.raises(InvalidValueError, match=r"^top\.low: must be below high"):
        from_mapping(Checked, {"high": 0}, where="top")
    with pytest.raises(InvalidValueError, match=r"^low: must be below high"):
        Checked(low=3)


def test_an_unknown_key_among_very_many_lists_only_what_is_close():
    Many = dataclasses.make_dataclass("Many", [(f"field_{i}", int, 0) for i in range(200)])
    with pytest.raises(InvalidValueError) as caught:
        from_mapping(Many, {"feild_7": 1}, where="recipe")
    assert "unknown key 'feild_7'; did you mean 'field_7'" in str(caught.value)
    assert "field_150" not in str(caught.value)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n"
    for before, name in zip("abcde", "bcdef", strict=True)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, r"too many values"),
        (
            BOMB.replace("[x, x", "[{x: 1}, x") + "g: {<<: [*f]}",
            r"mapping for merging",
        ),
        ("a: &a [*a]", r"Circular reference"),
        ("a: !!set {b, c}", r"Object of type set is not"),
        ("a: !!binary aGVsbG8=", r"Object of type bytes is not"),
        ("a: !!timestamp 2020-01-01", r"Object of type date is not"),
        ("a: " + "9" * 5000, r"4300 digits"),
        ("a: " + "[" * 100_000, r"nested too deeply"),
        (r'a: "\ud800"', r"surrogates not allowed"),
    ],
)
def test_a_recipe_that_is_no_recipe_is_refused_by_its_problem(tmp_path, text, problem):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"recipe\.yaml.*: not a YAML file: .*{problem}"):
        read_recipe(path)


def test_dates_are_text_and_what_a_recipe_extends_is_a_name(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("a: 2020-01-01\nb: &b {c: 1}\nd: {<<: *b, e: =}")
    assert read_recipe(path) == {"a": "2020-01-01", "b": {"c": 1}, "d": {"c": 1, "e": "="}}
    path.write_text("extends: [other.yaml]")
    with pytest.raises(InvalidValueError, match=r"extends: must be the name of a file, got \['oth"):
        read_extended(path)


@dataclasses.dataclass(frozen=True)
class Parts:
    parts: dict[str, list[int]]


def test_a_value_inside_a_mapping_is_refused_with_the_mapping():
    with pytest.raises(InvalidValueError, match=r"recipe\.parts: must be int, got {"):
        from_mapping(Parts, {"parts": {"a": [1, "x"]}}, where="recipe")


def test_an_integer_that_no_machine_holds_is_refused():
    with pytest.raises(InvalidValueError, match=r"must be an integer of 64 bits, got 1000"):
        parse(f"{{out: a, steps: {10**30}}}")


@pytest.mark.parametrize("value", [".inf", "1e999", "nan", 10**400])
def test_a_number_that_is_none_is_refused(value):
    with pytest.raises(
        InvalidValueError,
        match=r"recipe\.size: (must be (a finite number|float)|Number out of range), got",
    ):
        parse(f"{{out: a, size: {value}}}")


@dataclasses.dataclass(frozen=True)
class Sizes:
    k: tuple[int, ...] = ()


def test_a_list_of_a_recipe_becomes_the_tuple_of_a_field_and_its_items_are_checked():
    assert from_mapping(Sizes, {"k": [1, 8]}, where="recipe") == Sizes((1, 8))
    with pytest.raises(InvalidValueError, match=r"recipe\.k\[1\]: must be int, got 'x'"):
        from_mapping(Sizes, {"k": [1, "x"]}, where="recipe")
    with pytest.raises(InvalidValueError, match=r"recipe\.k: must be list, got 8"):
        from_mapping(Sizes, {"k": 8}, where="recipe")
