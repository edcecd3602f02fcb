"""Gradients on stored samples: against enumeration of every group of a small policy."""

import itertools
import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from maxatk import advantages
from maxatk.cli.main import main
from maxatk.diagnose.gradients import gradient_tables, max_gradient
from maxatk.diagnose.prospects import METHODS_COMPARED
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.models import PromptSettings
from maxatk.records import Outcome, Sample, Score
from runs import write_run

N = 4
K = 2
REWARDS = {"a": [0.0, 0.5, 1.0, 0.5], "b": [0.0, 0.0, 1.0, 0.25], "c": [1.0, 1.0, 0.0, 0.0]}
PROMPTS = ("#", "print(1)", "print(2)")
TEXTS = ["print(1)\n", "print(2)", "#print(3)", "1/0\n"]


@pytest.fixture
def run(tiny_model, tmp_path):
    """An evaluation of a model with four completions of each of three problems, and of one more."""
    rewards = {**REWARDS, "even": [0.5] * 4}
    places = [(problem, i) for problem in rewards for i in range(4)]
    scores = [Score(p, i, rewards[p][i], 0, 1, Outcome.SCORED, 0.0) for p, i in places]
    samples = [Sample(p, i, TEXTS[i], finish_reason="stop") for p, i in places]
    write_run(tmp_path, scores, samples)
    with (tmp_path / "prompts.jsonl").open("w") as file:
        for problem, prompt in zip(rewards, (*PROMPTS, "print(3)"), strict=True):
            file.write(json.dumps({"problem_id": problem, "prompt": prompt}) + "\n")
    model = {"name": "hf", "model": str(tiny_model), "prompt": {"template": "auto"}}
    (tmp_path / "manifest.json").write_text(json.dumps({"settings": {"model": model}}))
    return tmp_path


@pytest.fixture
def scores(tiny_model):
    """The centred scores (4, D) of every problem, by one backward pass each."""
    return centred_scores(tiny_model, with_end=True)


def centred_scores(tiny_model, *, with_end):
    model = AutoModelForCausalLM.from_pretrained(tiny_model).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tiny_model)
    centred = {}
    for problem, prompt in zip(REWARDS, PROMPTS, strict=True):
        head = tokenizer(prompt)["input_ids"]
        rows = []
        for text in TEXTS:
            end = [tokenizer.eos_token_id] if with_end else []
            ids = torch.tensor([[*head, *tokenizer(text)["input_ids"], *end]])
            log_p = torch.log_softmax(model(ids).logits[0, :-1], -1)
            model.zero_grad()
            sum(log_p[at - 1, ids[0, at]] for at in range(len(head), ids.shape[1])).backward()
            rows.append(torch.cat([p.grad.flatten() for p in model.parameters()]).double().numpy())
        centred[problem] = np.array(rows) - np.mean(rows, axis=0)
    return centred


def enumerated(rewards, scores, k):
    """The gradient of the expected best of k arms, over all draws."""
    total = 0.0
    for draw in itertools.product(range(len(rewards)), repeat=k):
        total = total + max(rewards[i] for i in draw) * sum(scores[i] for i in draw)
    return total / len(rewards) ** k


def test_the_gradient_of_max_at_k_is_that_of_all_draws(scores):
    for problem, rewards in REWARDS.items():
        for k in (1, 2, 3):
            gradient = max_gradient(np.array(rewards), None, scores[problem], k)
            np.testing.assert_allclose(gradient, enumerated(rewards, scores[problem], k), atol=1e-6)


@pytest.mark.parametrize(
    "sampling", [{}, {"stop": ["\n\n"]}, {"stop": [], "stop_at_fence": True}], ids=str
)
def test_agreement_and_interference_are_those_of_the_whole_gradients(run, tiny_model, sampling):
    # A completion that ends at a text has no end token, which the model never gave.
    scores = centred_scores(tiny_model, with_end=not sampling)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["settings"]["sampling"] = sampling
    (run / "manifest.json").write_text(json.dumps(manifest))
    rows = gradient_tables(run, n=N, k=K)["agreement"]
    one, best = ({p: enumerated(r, scores[p], k) for p, r in REWARDS.items()} for k in (1, K))
    bands = {"all": "abc", "up to 1/2": "abc"}  # a and b pass once in four, c twice
    assert {row["solved"]: row["problems"] for row in rows} == {"all": 3, "up to 1/2": 3}
    for row in rows:
        first, second = (sum(of[p] for p in bands[row["solved"]]) for of in (one, best))
        cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
        assert row["cosine"] == pytest.approx(cosine, abs=1e-4)
        against = [one[p] @ sum(one[q] for q in one if q != p) < 0 for p in bands[row["solved"]]]
        assert row["interfere"] == pytest.approx(np.mean(against))


def test_a_problem_is_solved_from_the_threshold_of_the_run_on(run):
    results = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(json.dumps({**results, "threshold": 0.5}))
    rows = gradient_tables(run, n=N, k=K)["agreement"]
    # a passes three times in four, b once and c twice.
    problems = {row["solved"]: row["problems"] for row in rows}
    assert problems == {"all": 3, "up to 1/2": 2, "up to 7/8": 1}


def test_the_noise_is_that_of_every_group_that_can_be_drawn(run, scores):
    draws = np.array(list(itertools.product(range(4), repeat=N)))
    for row in gradient_tables(run, n=N, k=K)["noise"]:
        means = []
        squares = []
        for problem, rewards in REWARDS.items():
            weights = advantages(np.array(rewards)[draws], row["method"], K)
            groups = np.einsum("gi,gid->gd", weights, scores[problem][draws])
            means.append(groups.mean(axis=0))
            squares.append((groups**2).sum(axis=1).mean())
        signal = sum(means[p] @ means[q] for p in range(3) for q in range(3) if p != q) / 6
        expected = (np.mean(squares) - signal) / signal if signal > 0 else None
        # 500 random groups a problem stand for all 256 that are equally likely.
        assert row["groups"] == (expected and pytest.approx(expected, rel=0.3))


def test_problems_without_a_difference_and_cut_off_samples_are_left_out(run):
    text = (run / "samples.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if line["problem_id"] in "ab" and line["sample"] == 2:
            line["finish_reason"] = "length"
    (run / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    agreement = gradient_tables(run, n=N, k=K)["agreement"]
    assert {row["solved"]: row["problems"] for row in agreement} == {
        "all": 3,
        "never": 2,
        "up to 1/2": 1,
    }
    (run / "prompts.jsonl").write_text((run / "prompts.jsonl").read_text().splitlines()[0])
    with pytest.raises(DataError, match="has 1 problem whose rewards differ; needs 2"):
        gradient_tables(run, n=N, k=K)


def test_a_larger_model_is_looked_at_through_adapters(run, monkeypatch):
    pytest.importorskip("peft")
    monkeypatch.setattr("maxatk.diagnose.gradients._WHOLE_MODEL", 100)
    rows = gradient_tables(run, n=N, k=K)["agreement"]
    assert rows[0]["problems"] == 3
    assert -1 <= rows[0]["cosine"] <= 1


def test_the_adapter_that_sampled_is_part_of_the_model(run, tiny_model, tmp_path_factory):
    from peft import LoraConfig, get_peft_model

    def with_model(**model):
        manifest = {"settings": {"model": {"name": "hf", "prompt": {"template": "auto"}, **model}}}
        (run / "manifest.json").write_text(json.dumps(manifest))
        (row, *_) = gradient_tables(run, n=N, k=K)["agreement"]
        return row

    torch.manual_seed(1)
    lora = LoraConfig(r=4, lora_alpha=32, init_lora_weights=False, target_modules="all-linear")
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), lora)
    adapter = tmp_path_factory.mktemp("adapter")
    merged = tmp_path_factory.mktemp("merged")
    adapted.save_pretrained(adapter)
    adapted.merge_and_unload().save_pretrained(merged)
    PreTrainedTokenizerFast.from_pretrained(tiny_model).save_pretrained(merged)
    by_adapter = with_model(model=str(tiny_model), adapter=str(adapter))
    expected = with_model(model=str(merged))
    assert by_adapter == {**expected, "cosine": pytest.approx(expected["cosine"], abs=1e-4)}
    without = with_model(model=str(tiny_model))
    assert abs(by_adapter["cosine"] - without["cosine"]) > 1e-3


def test_the_command_prints_them_beside_the_rest(run, capsys):
    assert main(["diagnose", str(run), "--n", "4", "--best-of", "2", "--gradients"]) == 0
    printed = capsys.readouterr().out
    assert all(method in printed for method in METHODS_COMPARED)
    assert "interfere" in printed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 5}, r"k: must be from 2 to n \(4\)"),
        ({"prompts": 1}, "prompts: must be an integer of 2"),
    ],
)
def test_numbers_that_are_not_allowed_are_refused(run, changes, message):
    with pytest.raises(InvalidValueError, match=message):
        gradient_tables(run, **{"n": N, "k": K, **changes})


def test_samples_of_a_file_have_no_model(run):
    (run / "manifest.json").write_text(json.dumps({"settings": {"samples": "x.jsonl"}}))
    with pytest.raises(DataError, match="need a run that a local model sampled"):
        gradient_tables(run, n=N, k=K)


def test_a_chat_template_of_a_file_which_no_run_holds_is_said_to_be_missing(run, tmp_path):
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages[0]['content'] }}")
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["settings"]["model"]["prompt"] = PromptSettings(str(template)).to_json()
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="was sampled with the chat template of a file, of which"):
        gradient_tables(run, n=N, k=K)


def test_a_model_folder_that_is_not_here_is_named(run):
    model = {"name": "hf", "model": "runs/base", "weights": "9f", "prompt": {}}
    (run / "manifest.json").write_text(json.dumps({"settings": {"model": model}}))
    with pytest.raises(MissingFileError, match="the model in 'runs/base', which is no folder here"):
        gradient_tables(run, n=N, k=K)
