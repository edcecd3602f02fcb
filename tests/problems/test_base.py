"""The wording of prompts, and values as Python literals."""

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.models import prompt_ids
from maxatk.problems import BENCHMARKS
from maxatk.problems.benchmarks import mathematics
from maxatk.problems.benchmarks.base import python_literal, render
from maxatk.verifier import extract_code
from problems.rows import ROWS

TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[a]{% endif %}"
)


@pytest.mark.parametrize("kind", ["stdin", "function", "completion"])
@given(statement=st.text(), starter=st.none() | st.just("def f(x):\n    "))
def test_a_prompt_holds_its_statement_and_its_starter(kind, statement, starter):
    for style in ("chat", "plain"):
        prompt = render(kind, statement, starter=starter, style=style)
        assert statement.strip("\n") in prompt
        assert (starter or "").rstrip() in prompt


OF_PROGRAMS = [name for name in ROWS if name not in {*mathematics.BENCHMARKS, "table"}]


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_every_benchmark_of_programs_has_both_styles(name):
    benchmark = BENCHMARKS[name]
    row = ROWS[name]()
    chat, plain = (
        benchmark.convert(row, benchmark.options(prompt_style=style)).problem.prompt
        for style in ("chat", "plain")
    )
    assert chat.startswith("You are an expert programmer")
    assert "```python block" in chat
    assert "```" not in plain  # a base model would close the fence, and the code would be cut there
    assert extract_code(plain + "print(1)").rstrip().endswith("print(1)")


@pytest.fixture(scope="module")
def tokenizer():
    from maxatk.mini.model import train_tokenizer

    return train_tokenizer(["print the sum\n[user][a]"] * 3, vocabulary=20)


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_the_tokens_of_a_prompt_are_those_that_sampling_feeds_to_the_model(tokenizer, template):
    from maxatk.sampling import ModelSettings
    from maxatk.sampling.hf import HFBackend

    tokenizer.chat_template = template
    backend = HFBackend.__new__(HFBackend)
    backend.tokenizer = tokenizer
    backend.settings = ModelSettings()
    prompt = "print the sum\n"
    ids = prompt_ids(tokenizer, prompt)
    assert ids == backend._prompt_ids(prompt)
    assert (len(ids) > len(tokenizer(prompt)["input_ids"])) == (template is not None)


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=10,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES | st.sets(st.integers() | st.text(), min_size=1))
def test_a_literal_is_the_value_again(value):
    assert ast.literal_eval(python_literal(value)) == value


@given(JSON)
def test_a_json_value_becomes_the_literal_of_the_same_value(value):
    assert ast.literal_eval(python_literal(json.loads(json.dumps(value)))) == value


def test_what_has_no_literal_is_refused():
    for value in (float("nan"), [float("nan")]):
        with pytest.raises(ValueError, match="nan has no Python literal"):
            python_literal(value)
