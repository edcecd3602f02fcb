import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk.models import prompt_ids
from maxatk.problems import BENCHMARKS
from maxatk.problems.benchmarks.prompts import render
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


@pytest.mark.parametrize("name", ROWS)
def test_every_benchmark_has_both_styles(name):
    benchmark, row = BENCHMARKS[name], ROWS[name]()
    chat, plain = (
        benchmark.convert(row, benchmark.options(prompt_style=style)).problem.prompt
        for style in ("chat", "plain")
    )
    assert chat.startswith("You are an expert programmer")
    assert "```python block" in chat
    assert "```" not in plain  # a base model would close the fence, and the code would be cut there
    assert extract_code(plain + "print(1)") == plain + "print(1)"


@pytest.fixture(scope="module")
def tokenizer():
    from maxatk.mini.tokenizer import train_tokenizer

    return train_tokenizer(["print the sum\n[user][a]"] * 3, vocabulary=20)


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_the_tokens_of_a_prompt_are_those_that_sampling_feeds_to_the_model(tokenizer, template):
    from maxatk.evaluation import ModelSettings
    from maxatk.evaluation.backends.hf import HFBackend

    tokenizer.chat_template = template
    backend = HFBackend.__new__(HFBackend)
    backend.tokenizer, backend.settings = tokenizer, ModelSettings()
    prompt = "print the sum\n"
    ids = prompt_ids(tokenizer, prompt)
    assert ids == backend._prompt_ids(prompt)
    assert (len(ids) > len(tokenizer(prompt)["input_ids"])) == (template is not None)
