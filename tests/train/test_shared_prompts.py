"""The same log-probabilities and gradients, from fewer tokens."""

import contextlib
import json
import shutil

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from maxatk.errors import InvalidValueError
from maxatk.models import load_tokenizer
from maxatk.train import MaxAtKTrainer, shared_prompts
from maxatk.train.recipe import lora_config
from maxatk.train.shared_prompts import SharedPrompts, refuse_differences, refuse_unshareable

from .conftest import config, text_reward

PROMPT = 9
COMPLETION = 5
GROUP = 4
PROMPTS = 3


@pytest.fixture
def model(model_folder):
    return AutoModelForCausalLM.from_pretrained(model_folder).double()


@pytest.fixture
def batch():
    """Groups in any order, prompts padded on the left and completions on the right."""
    torch.manual_seed(0)
    prompts = torch.randint(3, 100, (PROMPTS, PROMPT)).repeat_interleave(GROUP, dim=0)
    mask = torch.ones(PROMPTS * GROUP, PROMPT + COMPLETION, dtype=torch.long)
    mask[GROUP : 2 * GROUP, :4] = 0
    mask[2, -2:] = 0
    mask[7, -4:] = 0
    ids = torch.cat([prompts, torch.randint(3, 100, (len(prompts), COMPLETION))], dim=1)
    order = torch.randperm(len(ids))
    return ids[order], mask[order]


def tokens_seen(model):
    """A list that gets the number of tokens of every call of the model."""
    counts = []
    model.get_input_embeddings().register_forward_pre_hook(
        lambda _module, args: counts.append(args[0].numel())
    )
    return counts


def logps_and_gradients(called, model, ids, mask):
    model.zero_grad()
    logits = called(input_ids=ids, attention_mask=mask).logits[:, -COMPLETION - 1 : -1]
    wanted = ids[:, -COMPLETION:, None]
    logps = logits.log_softmax(dim=-1).gather(2, wanted)[..., 0] * mask[:, -COMPLETION:]
    (logps * torch.arange(logps.numel()).view_as(logps)).sum().backward()
    return logps.detach(), [weight.grad.clone() for weight in model.parameters()]


def test_log_probabilities_and_gradients_are_those_of_the_ordinary_pass(model, batch):
    expected = logps_and_gradients(model, model, *batch)
    counts = tokens_seen(model)
    shared = logps_and_gradients(SharedPrompts(model, model, COMPLETION), model, *batch)
    torch.testing.assert_close(shared[0], expected[0], rtol=1e-10, atol=1e-10)
    for mine, theirs in zip(shared[1], expected[1], strict=True):
        # The norms of this architecture work in single precision, whatever the weights are in.
        assert (mine - theirs).norm() <= 1e-6 * theirs.norm()
    prefix = PROMPT - 1
    assert counts == [PROMPTS * prefix, PROMPTS * GROUP * (COMPLETION + 1)]


@pytest.mark.parametrize("case", ["different prompts", "one token", "more input"])
def test_where_nothing_can_be_shared_the_ordinary_pass_is_taken(model, batch, case):
    ids, mask = batch
    more = {}
    if case == "different prompts":
        ids[:, 5] = torch.arange(3, 3 + len(ids))
    elif case == "one token":
        ids = ids[:, -COMPLETION - 1 :]
        mask = mask[:, -COMPLETION - 1 :]
    else:
        more = {"position_ids": torch.arange(ids.size(1)).expand_as(ids)}
    counts = tokens_seen(model)
    with torch.no_grad():
        outputs = SharedPrompts(model, model, COMPLETION)(
            input_ids=ids, attention_mask=mask, **more
        )
        expected = model(input_ids=ids, attention_mask=mask)
    assert counts[:-1] == [ids.numel()]
    torch.testing.assert_close(outputs.logits, expected.logits)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "grpo", "num_iterations": 2, "beta": 0.1},
        {"method": "bon_off_policy_exact", "num_iterations": 3, "max_steps": 6},
        {
            "method": "bon_off_policy_exact",
            "num_iterations": 2,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 4,
        },
    ],
    ids=["reference model", "whole groups", "split groups"],
)
def test_training_ends_with_the_same_weights_and_reads_fewer_tokens(make_trainer, changes):
    ends = []
    for share in (False, True):
        trainer = make_trainer(text_reward, share_prompts=share, **changes)
        counts = tokens_seen(trainer.model)
        trainer.train()
        ends.append((trainer.model.state_dict(), sum(counts)))
    (plain, all_tokens), (shared, fewer_tokens) = ends
    for name, weight in plain.items():
        torch.testing.assert_close(shared[name], weight, rtol=1e-4, atol=1e-5)
    assert fewer_tokens < all_tokens


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"gradient_checkpointing": True}, "gradient_checkpointing"),
        ({"fsdp": "full_shard"}, "fsdp"),
        ({"disable_dropout": False}, "disable_dropout"),
    ],
)
def test_what_cannot_keep_a_cache_is_refused(tmp_path, changes, named):
    with pytest.raises(InvalidValueError, match=f"share_prompts.*{named}"):
        config(tmp_path, share_prompts=True, **changes)


def small(kind, **changes):
    return AutoConfig.for_model(kind, **changes)


ROPE = {"rope_theta": 10000.0, "factor": 2.0}
REFUSED = {
    "dynamic": small("llama", rope_parameters={**ROPE, "rope_type": "dynamic"}),
    "longrope": small(
        "phi3",
        rope_parameters={
            "rope_theta": 10000.0,
            "rope_type": "longrope",
            "short_factor": [1.0] * 48,
            "long_factor": [2.0] * 48,
            "original_max_position_embeddings": 4096,
            "partial_rotary_factor": 1.0,
        },
    ),
    "lfm2": small("lfm2", num_hidden_layers=2, layer_types=["conv", "full_attention"]),
    **{
        kind: small(kind)
        for kind in ("qwen3_next", "jamba", "zamba2", "mamba", "mamba2", "falcon_mamba", "rwkv")
    },
    **{kind: small(kind) for kind in ("recurrent_gemma", "falcon_h1", "minimax", "bamba")},
}
KEPT = ("llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3", "gpt_oss", "mixtral", "gpt2")


@pytest.mark.parametrize("named", REFUSED)
def test_models_without_a_plain_cache_are_refused_by_their_config(named):
    with pytest.raises(InvalidValueError, match=r"share_prompts: must be False with a .*got True"):
        refuse_unshareable(REFUSED[named])


@pytest.mark.parametrize("kind", KEPT)
def test_models_with_a_plain_cache_are_not(kind):
    refuse_unshareable(small(kind))


def test_a_model_is_refused_before_its_weights_are_loaded(model_folder, prompts, tmp_path):
    shutil.copytree(model_folder, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    settings["rope_parameters"] = {**settings["rope_parameters"], **ROPE, "rope_type": "dynamic"}
    (tmp_path / "model" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(InvalidValueError, match=r"share_prompts: must be False .*'dynamic'"):
        MaxAtKTrainer(
            model=str(tmp_path / "model"),
            reward_funcs=text_reward,
            args=config(tmp_path / "out", share_prompts=True),
            train_dataset=prompts,
        )


def test_passes_that_differ_end_the_run_with_their_numbers(model_folder, prompts, tmp_path):
    """A model whose positions depend on the length, and whose config does not say so."""
    model = AutoModelForCausalLM.from_pretrained(model_folder)
    model.config.rope_parameters = {**model.config.rope_parameters, **ROPE, "rope_type": "dynamic"}
    model.config.max_position_embeddings = PROMPT
    hidden = AutoModelForCausalLM.from_config(model.config)
    hidden.load_state_dict(model.state_dict())
    for weight in hidden.parameters():  # random weights hardly look at positions
        weight.data *= 8
    hidden.config = AutoConfig.from_pretrained(model_folder)
    trainer = MaxAtKTrainer(
        model=hidden,
        reward_funcs=text_reward,
        args=config(tmp_path, share_prompts=True),
        train_dataset=prompts,
        processing_class=load_tokenizer(str(model_folder)),
    )
    with pytest.raises(InvalidValueError, match=r"share_prompts: .*mean difference .* nats"):
        trainer.train()


@pytest.mark.parametrize("frozen", [False, True])
def test_weights_of_16_bits_round_although_log_probabilities_have_32(
    model_folder, prompts, tmp_path, frozen
):
    """With `frozen` they belong to the model, and an adapter of 32 bits is trained."""
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16)
    for weight in model.parameters():  # random weights hardly look at the prompt
        weight.data *= 4
    trainer = MaxAtKTrainer(
        model=model,
        reward_funcs=text_reward,
        args=config(tmp_path, share_prompts=True, max_steps=1, bf16=False),
        train_dataset=prompts,
        processing_class=load_tokenizer(str(model_folder)),
        peft_config=lora_config({"r": 2}) if frozen else None,
    )
    differences = []
    compare = shared_prompts.refuse_differences

    def noted(shared, ordinary, mask, **more):
        differences.append((shared - ordinary).abs().mean())
        compare(shared, ordinary, mask, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("maxatk.train.shared_prompts.refuse_differences", noted)
        trainer.train()
    assert differences[0] > 1e-3  # more than rounding in 32 bits explains


def test_both_passes_are_compared_once(make_trainer, monkeypatch):
    trainer = make_trainer(text_reward, share_prompts=True, num_iterations=2, max_steps=4)
    calls = []
    monkeypatch.setattr(shared_prompts, "refuse_differences", lambda *a, **_: calls.append(a))
    trainer.train()
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("dtype", "apart", "fits"),
    [
        (torch.float32, 1e-4, True),
        (torch.float32, 1e-2, False),
        (torch.bfloat16, 1e-2, True),
        (torch.bfloat16, 0.2, False),
        (torch.float32, float("nan"), False),
    ],
)
def test_what_passes_for_rounding_depends_on_the_precision(dtype, apart, fits):
    ordinary = torch.zeros(2, 3, dtype=dtype)
    shared = ordinary + apart
    shared[:, 2] = 100.0  # padding does not count
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    with contextlib.nullcontext() if fits else pytest.raises(InvalidValueError, match="nats"):
        refuse_differences(shared, ordinary, mask)


def test_the_least_precision_of_the_weights_counts():
    ordinary = torch.zeros(1, 2)
    mask = torch.ones(1, 2)
    with pytest.raises(InvalidValueError, match=r"rounding explains 0\.001\)"):
        refuse_differences(ordinary + 0.02, ordinary, mask, weights={torch.float32})
    refuse_differences(ordinary + 0.02, ordinary, mask, weights={torch.float32, torch.bfloat16})
