"""Rollout batches drawn by the loop of this package: the distribution, the order, the refusals."""

import collections
import json

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from scipy.stats import chisquare
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from maxatk.errors import InvalidValueError
from maxatk.sampling import SamplingSettings
from maxatk.train import MaxAtKTrainer
from maxatk.train.own_rollouts import draw_completions

from . import enumerated
from .conftest import GROUP, PROMPTS, SpyTrainer, config, text_reward

# Tokens of the enumerated model.
END = 1
PAD = 0


@pytest.fixture(scope="module")
def ending_folder(tmp_path_factory):
    """A model of four tokens, one of which ends a completion."""
    return enumerated.write_model(tmp_path_factory.mktemp("ending"))


def make(folder, out, *, prompts=PROMPTS, cls=MaxAtKTrainer, peft_config=None, **changes):
    return cls(
        model=str(folder),
        reward_funcs=text_reward,
        args=config(out, **changes),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
        peft_config=peft_config,
    )


class Recording(SpyTrainer):
    """Keeps, for every rollout batch, the state of the generator and what was drawn."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.drawn = []

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        state = torch.get_rng_state()
        generated = super()._generate_single_turn(prompt_ids, *args, **kwargs)
        self.drawn.append((state, [list(ids) for ids in prompt_ids], generated[0]))
        return generated


@torch.no_grad()
def inverted(model, prompt, noise, *, temperature, ends):
    """A completion by plain forward passes over one row: the inverse of the distribution."""
    ids = []
    for uniform in noise:
        logits = model(torch.tensor([prompt + ids])).logits[0, -1].double() / temperature
        cumulative = logits.softmax(-1).cumsum(-1)
        ids.append(int(torch.searchsorted(cumulative, uniform * cumulative[-1], right=True)))
        if ids[-1] in ends:
            break
    return ids


ADAPTER = LoraConfig(r=4, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM")
CASES = {
    "adapter": {"peft_config": ADAPTER},
    "gradient checkpointing": {"gradient_checkpointing": True},
    "few samples of a prompt": {"num_generations": 2, "k": 1},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_completions_invert_the_distribution_of_the_weights_that_train(
    model_folder, tmp_path, case
):
    trainer = make(
        model_folder, tmp_path, cls=Recording, rollouts="own", temperature=1.5,
        max_completion_length=8, max_steps=3, **case,
    )  # fmt: skip
    assert trainer.rollouts == "own"
    trainer.train()
    for step, (state, prompts, completions) in enumerate(trainer.drawn):
        torch.set_rng_state(state)
        noise = torch.rand((len(prompts), 8))
        policy = trainer.generations[step][0]
        trainer.model.load_state_dict(policy)
        for row in range(0, len(prompts), 3):
            ends = [trainer.processing_class.eos_token_id]
            expected = inverted(trainer.model, prompts[row], noise[row], temperature=1.5, ends=ends)
            assert completions[row] == expected
    moved = [
        not torch.equal(before, after)
        for before, after in zip(
            trainer.generations[0][0].values(), trainer.generations[-1][0].values(), strict=True
        )
    ]
    assert any(moved), "the weights stayed: any weights would pass"


@torch.no_grad()
def probabilities(model, warpers, length):
    """The probability of every completion of the enumerated model under a cut distribution."""
    chances = collections.Counter({(): 1.0})
    for _ in range(length):
        for ids, probability in list(chances.items()):
            if END in ids:
                continue
            del chances[ids]
            scores = model(torch.tensor([[2, 3, *ids]])).logits[:, -1].float()
            for warper in warpers:
                scores = warper(None, scores)
            for token, share in enumerate(scores.softmax(-1)[0].tolist()):
                chances[(*ids, token)] = probability * share
    return chances


@pytest.mark.parametrize(
    "rollouts, settings, warpers",
    [
        ("own", {"temperature": 1.4}, []),
        ("own", {"temperature": 3.0, "top_p": 0.8}, [TopPLogitsWarper(0.8)]),
        ("own", {"top_k": 3, "top_p": 0.99}, [TopKLogitsWarper(3), TopPLogitsWarper(0.99)]),
        ("own", {"temperature": 3.0, "generation_kwargs": {"min_p": 0.3}}, [MinPLogitsWarper(0.3)]),
        ("trl", {"top_k": 3, "top_p": 0.99}, [TopKLogitsWarper(3), TopPLogitsWarper(0.99)]),
    ],
)
def test_the_distribution_is_that_of_generate(ending_folder, tmp_path, rollouts, settings, warpers):
    samples = 4096
    trainer = make(
        ending_folder, tmp_path, prompts=[enumerated.PROMPT] * 2, cls=SpyTrainer,
        rollouts=rollouts, method="grpo", num_generations=samples, max_steps=1,
        per_device_train_batch_size=samples, max_completion_length=3, **settings,
    )  # fmt: skip
    temperature = TemperatureLogitsWarper(settings.get("temperature", 1.0))
    expected = probabilities(trainer.model, [temperature, *warpers], 3)
    trainer.train()
    rows = trainer.generations[0][1]
    assert sum(share * samples >= 5 for share in expected.values()) > 2
    counts = collections.Counter(
        tuple(ids[mask.bool()].tolist())
        for ids, mask in zip(rows["completion_ids"], rows["completion_mask"], strict=True)
    )
    assert all(expected[ids] > 0 for ids in counts)
    likely = [ids for ids, share in expected.items() if share * samples >= 5]
    rare = samples - sum(counts[ids] for ids in likely)
    observed = np.array([counts[ids] for ids in likely] + [rare])
    shares = np.array([expected[ids] for ids in likely])
    wanted = np.append(shares, 1 - shares.sum()) * samples
    if wanted[-1] < 1:
        assert rare <= 5
        observed = observed[:-1]
        wanted = wanted[:-1] * observed.sum() / wanted[:-1].sum()
    assert chisquare(observed, wanted).pvalue > 1e-3


def test_masks_end_with_the_end_token_and_padding_follows(ending_folder, tmp_path):
    trainer = make(
        ending_folder, tmp_path, prompts=[enumerated.PROMPT] * 12, cls=SpyTrainer, rollouts="own"
    )
    trainer.train()
    lengths = set()
    for _, rows, _ in trainer.generations:
        for ids, mask in zip(
            rows["completion_ids"].tolist(), rows["completion_mask"].tolist(), strict=True
        ):
            length = ids.index(END) + 1 if END in ids else 6
            lengths.add(length)
            assert mask == [1] * length + [0] * (len(ids) - length)
            assert ids[length:] == [PAD] * (len(ids) - length)
    assert len(lengths) > 2


def test_the_same_seed_draws_the_same_and_another_one_does_not(ending_folder, tmp_path):
    def losses(seed):
        trainer = make(
            ending_folder, tmp_path, prompts=[enumerated.PROMPT] * 12, rollouts="own", seed=seed
        )
        trainer.train()
        return [row["loss"] for row in trainer.state.log_history if "loss" in row]

    assert losses(3) == losses(3) != losses(4)


def test_an_evaluation_within_the_training_is_drawn_by_the_same_loop(ending_folder, tmp_path):
    trainer = make(
        ending_folder, tmp_path, prompts=[enumerated.PROMPT] * 12, cls=Recording, rollouts="own",
        num_generations_eval=2,
    )  # fmt: skip
    trainer.model.eval()
    rows = [{"prompt": enumerated.PROMPT}] * 4
    output = trainer._generate_and_score_completions(rows)
    assert len(trainer.drawn) == 1
    assert len(output["completion_ids"]) == 4


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"rollouts": "hf"}, r"rollouts: unknown value 'hf'.*auto, own, trl"),
        (
            {"rollouts": "own", "use_vllm": True},
            r"rollouts: must be 'auto' .*got 'own'",
        ),
        (
            {"rollouts": "trl", "use_vllm": True},
            r"rollouts: must be 'auto' .*got 'trl'",
        ),
        ({"repetition_penalty": 1.2}, r"repetition_penalty: must be 1.0 .*got 1.2"),
        (
            {"generation_kwargs": {"repetition_penalty": 1.2}},
            r"repetition_penalty: must be 1.0 .*got 1.2",
        ),
        (
            {"generation_kwargs": {"min_new_tokens": 3}},
            r"generation_kwargs.min_new_tokens: must be left out .*got 3",
        ),
        ({"cache_implementation": "static"}, r"cache_implementation: must be None .*got 'static'"),
        ({"min_p": 0.1, "top_p": 0.9}, r"min_p: must be None .*before top_p, got 0.1"),
        ({"disable_dropout": False}, r"disable_dropout: must be True .*got False"),
        ({"fsdp": "full_shard"}, r"fsdp or deepspeed: must be False .*got True"),
        ({"torch_compile": True}, r"torch_compile: must be False .*got True"),
    ],
)
def test_what_the_loop_does_not_follow_is_refused(tmp_path, changes, message):
    with pytest.raises(InvalidValueError, match=message):
        config(tmp_path, **{"rollouts": "own", **changes})
    if "rollouts" not in changes:
        assert config(tmp_path, **changes).rollouts == "auto"


def write_like(folder, out, *, settings=None, generation=None):
    """A copy of a model with another config, without weights."""
    fields = AutoConfig.from_pretrained(folder).to_dict()
    AutoConfig.for_model(**{**fields, **(settings or {})}).save_pretrained(out)
    AutoTokenizer.from_pretrained(folder).save_pretrained(out)
    if generation is not None:
        generation.save_pretrained(out)
    return out


LLAMA_3 = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}


@pytest.mark.parametrize(
    "settings, generation, message",
    [
        (
            {},
            GenerationConfig(no_repeat_ngram_size=2),
            r"generation_config.no_repeat_ngram_size: must be left out .*got 2",
        ),
        ({}, GenerationConfig(do_sample=True, min_p=0.1), r"generation_config.min_p: .*got 0.1"),
        ({"rope_parameters": LLAMA_3}, None, r"rollouts: .* a llama model of this config"),
    ],
)
def test_a_model_that_the_loop_does_not_follow_is_refused_before_its_weights(
    ending_folder, tmp_path, settings, generation, message
):
    folder = write_like(ending_folder, tmp_path / "m", settings=settings, generation=generation)
    with pytest.raises(InvalidValueError, match=message):
        make(folder, tmp_path, rollouts="own")  # there are no weights to load


def test_what_the_generation_config_of_a_model_says_of_trls_own_settings_does_not_count(
    ending_folder, tmp_path
):
    model = AutoModelForCausalLM.from_pretrained(ending_folder)
    model.generation_config.update(do_sample=True, temperature=0.2, top_k=1, repetition_penalty=3.0)
    model.generation_config.save_pretrained(tmp_path / "m")
    model.save_pretrained(tmp_path / "m")
    AutoTokenizer.from_pretrained(ending_folder).save_pretrained(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "generation_config.json").read_text())["top_k"] == 1
    assert make(tmp_path / "m", tmp_path, rollouts="own").rollouts == "own"


def test_auto_takes_the_loop_where_it_follows_and_generate_elsewhere(ending_folder, tmp_path):
    assert make(ending_folder, tmp_path).rollouts == "own"
    assert make(ending_folder, tmp_path, rollouts="trl").rollouts == "trl"
    for beyond in ({"repetition_penalty": 1.2}, {"max_completion_length": None}, {"min_p": 1.0}):
        assert make(ending_folder, tmp_path, **beyond).rollouts == "trl"
    model = AutoModelForCausalLM.from_pretrained(ending_folder)
    model.config.rope_parameters = LLAMA_3
    trainer = MaxAtKTrainer(
        model=AutoModelForCausalLM.from_config(model.config),
        reward_funcs=text_reward,
        args=config(tmp_path),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
        processing_class=AutoTokenizer.from_pretrained(ending_folder),
    )
    assert trainer.rollouts == "trl"


def test_a_rollout_function_samples_by_itself(ending_folder, tmp_path):
    def drawn(prompts, trainer):
        rows = [[2, END]] * (len(prompts) * (1 if len(prompts) % GROUP == 0 else GROUP))
        return {"prompt_ids": [[2, 3]] * len(rows), "completion_ids": rows, "logprobs": None}

    for rollouts, resolved in (("auto", "trl"), ("own", None)):
        settings = config(tmp_path, rollouts=rollouts)
        arguments = {
            "model": ending_folder,
            "reward_funcs": text_reward,
            "args": settings,
            "train_dataset": Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS]),
            "rollout_func": drawn,
        }
        if resolved is None:
            with pytest.raises(InvalidValueError, match="rollout_func: must be None"):
                MaxAtKTrainer(**arguments)
        else:
            assert MaxAtKTrainer(**arguments).rollouts == resolved


def test_a_prompt_without_a_token_is_refused(ending_folder):
    model = AutoModelForCausalLM.from_pretrained(ending_folder)
    settings = SamplingSettings(samples=1, max_new_tokens=2)
    with pytest.raises(InvalidValueError, match="prompt: one has no token"):
        draw_completions(model, [[1, 2], []], settings=settings, end_tokens=(0,), on_end=print)
