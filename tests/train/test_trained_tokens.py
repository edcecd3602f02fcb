"""Ratios are those of the tokens that the policy wrote, under passes that see all model inputs."""

import copy

import numpy as np
import pytest
import torch
from datasets import Dataset
from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from maxatk.models import load_tokenizer
from maxatk.train import MaxAtKTrainer
from maxatk.train.batch import GROUP_ROW

from .conftest import GROUP, SpyTrainer, config, text_reward, with_weights
from .expected import brute_force, sequence_logps

WHOLE = {}
SPLIT = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
FEW = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}  # whole groups too
ENVIRONMENT = [40, 41, 42, 43, 44]  # what the environment says, the same for everyone


def talk(prompts, trainer):
    """Three tokens of the policy, five of an environment, three of the policy."""
    prompt_ids = []
    completions = []
    for prompt in prompts:
        ids = trainer.processing_class(prompt)["input_ids"]
        completion = []
        for turn in (ENVIRONMENT, []):
            for _ in range(3):
                with torch.no_grad():
                    logits = trainer.model(torch.tensor([ids + completion])).logits[0, -1]
                completion.append(int(torch.multinomial(logits.softmax(-1), 1)))
            completion += turn
        prompt_ids.append(ids)
        completions.append(completion)
    mask = [1] * 3 + [0] * len(ENVIRONMENT) + [1] * 3
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": completions,
        "logprobs": [[0.0] * len(mask)] * len(prompts),
        "env_mask": [mask] * len(prompts),
    }


def logps_of_the_policys_tokens(model_folder, policy, rows):
    """Sums over the tokens before and after the environment's, one row at a time."""
    model = with_weights(model_folder, policy)
    result = []
    for i in range(len(rows["prompt_ids"])):
        prompt = rows["prompt_ids"][i][rows["prompt_mask"][i].bool()]
        completion = rows["completion_ids"][i]
        assert completion[3:8].tolist() == ENVIRONMENT
        ids = torch.cat([prompt, completion])[None]
        with torch.no_grad():
            logps = model(ids).logits.double().log_softmax(-1)[0, len(prompt) - 1 : -1]
        token_logps = logps.gather(1, completion[:, None])[:, 0]
        result.append(float(token_logps[:3].sum() + token_logps[8:].sum()))
    return np.array(result)


@pytest.mark.parametrize(
    "method, form, geometry",
    [
        ("bon_off_policy_exact", "ppo", WHOLE),
        ("bon_off_policy_exact", "reinforce", SPLIT),
        ("bon_off_policy", "reinforce", WHOLE),
        ("bon_off_policy", "ppo", SPLIT),
        ("bon_loo1", "reinforce", WHOLE),
    ],
)
def test_what_an_environment_says_is_in_no_ratio(
    model_folder, prompts, tmp_path, method, form, geometry
):
    trainer = SpyTrainer(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=config(
            tmp_path,
            method=method,
            form=form,
            max_completion_length=11,
            num_iterations=2,
            max_steps=2,
            **geometry,
        ),
        train_dataset=prompts,
        processing_class=load_tokenizer(str(model_folder)),
        rollout_func=talk,
    )
    trainer.train()
    policy, rows, rewards = trainer.generations[0]
    old = logps_of_the_policys_tokens(model_folder, policy, rows)
    moved = 0.0
    for batch in trainer.seen:
        now = logps_of_the_policys_tokens(model_folder, batch.policy, rows)
        moved = max(moved, float(np.abs(now - old).max()))
        shape = (-1, GROUP)
        scored = rewards.double().numpy().reshape(shape)
        expected = brute_force(method, scored, (now - old).reshape(shape), k=2, form=form)
        expected_rows = expected.reshape(-1)[batch.inputs[GROUP_ROW].numpy()]
        np.testing.assert_allclose(batch.inputs["advantages"].numpy(), expected_rows, atol=5e-5)
    assert moved > 1e-2


@pytest.mark.parametrize("method", ["bon_loo1", "bon_off_policy_exact"])
@pytest.mark.parametrize("geometry", [WHOLE, SPLIT, FEW], ids=["8 rows", "2 rows", "4 rows"])
def test_the_logged_ratios_are_those_of_an_optimizer_step_without_what_an_environment_says(
    model_folder, prompts, tmp_path, method, geometry
):
    settings = {"max_completion_length": 11, "num_iterations": 2, "max_steps": 2, **geometry}
    trainer = SpyTrainer(
        model=str(model_folder),
        reward_funcs=text_reward,
        args=config(tmp_path, method=method, **settings),
        train_dataset=prompts,
        processing_class=load_tokenizer(str(model_folder)),
        rollout_func=talk,
    )
    trainer.train()
    rows = trainer.generations[0][1]
    now = logps_of_the_policys_tokens(model_folder, trainer.seen[-1].policy, rows)
    old = logps_of_the_policys_tokens(model_folder, trainer.seen[0].policy, rows)
    logged = [row for row in trainer.state.log_history if "ratio/mean_abs_delta" in row]
    deviations = np.abs(np.expm1(now - old))
    assert len(logged) == 1
    assert logged[0]["ratio/mean_abs_delta"] == pytest.approx(deviations.mean(), abs=1e-4)
    assert logged[0]["ratio/max_abs_delta"] == pytest.approx(deviations.max(), abs=1e-4)


@pytest.mark.parametrize("method", ["bon_loo1", "bon_off_policy_exact"])
@pytest.mark.parametrize("geometry", [WHOLE, SPLIT], ids=["8 rows", "2 rows"])
def test_completions_that_the_loss_leaves_out_are_in_no_logged_ratio(
    model_folder, make_trainer, method, geometry
):
    changes = {"max_completion_length": 64, "mask_truncated_completions": True, "method": method}
    trainer = make_trainer(num_iterations=2, max_steps=2, **changes, **geometry)
    trainer.train()
    rows = trainer.generations[0][1]
    in_loss = rows["completion_mask"].any(dim=1)
    assert 0 < in_loss.sum() < len(in_loss)
    now = sequence_logps(model_folder, trainer.seen[-1].policy, rows)
    old = sequence_logps(model_folder, trainer.seen[0].policy, rows)
    deviations = np.abs(np.expm1(now - old))[in_loss]
    assert deviations.max() > 0.01
    row = trainer.state.log_history[1]
    # A ratio has the error of its logarithm, sums of float32, times itself, and one is above 80.
    mean = pytest.approx(deviations.mean(), rel=2e-5, abs=1e-4)
    assert row["ratio/mean_abs_delta"] == mean
    assert row["ratio/clamped"] == pytest.approx((deviations > 0.5).mean())


WORDS = ["<pad>", "<eos>", "<image>", "user", "look", "twice", *"abcdefgh"]
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }} {% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image> {% else %}{{ c['text'] }} {% endif %}"
    "{% endfor %}{% endfor %}"
)


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    """A real vision-language model with random weights, its processor, and problems with images."""
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<pad>",
        extra_special_tokens={"image_token": "<image>"},
    )
    size = {"height": 8, "width": 8}
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size=size, crop_size=size),
        tokenizer=tokenizer,
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )
    small = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=CLIPVisionConfig(
                image_size=8, patch_size=4, num_hidden_layers=1, **small
            ),
            text_config=LlamaConfig(
                vocab_size=len(WORDS),
                num_hidden_layers=1,
                initializer_range=0.3,
                pad_token_id=0,
                eos_token_id=1,
                bos_token_id=None,
                **small,
            ),
            image_token_index=WORDS.index("<image>"),
            vision_feature_layer=-1,
        )
    )
    folder = tmp_path_factory.mktemp("vision")
    model.save_pretrained(folder)
    noise = np.random.default_rng(0)
    pictures = [noise.integers(0, 255, (8, 8, 3), dtype=np.uint8) for _ in range(8)]
    problems = [
        {"prompt": [{"role": "user", "content": "look twice"}], "images": [Image.fromarray(p)]}
        for p in pictures
    ]
    return str(folder), processor, Dataset.from_list(problems)


class SeesImages(MaxAtKTrainer):
    """Keeps which forward passes of the model got images, and the policies of the steps."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.images = []
        self.policies = {}
        self.seen = []
        self.generation = None
        self.model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, _module, _args, model_inputs):
        if model_inputs.get("fused_lm_head"):  # a pass for log-probabilities, not one of generation
            self.images.append(model_inputs.get("pixel_values") is not None)

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        self.generation = (copy.deepcopy(output), torch.from_numpy(self._rollout.rewards))
        return output

    def _compute_loss(self, model, inputs):
        step = self.state.global_step
        self.policies.setdefault(step, copy.deepcopy(self.model.state_dict()))
        loss = super()._compute_loss(model, inputs)
        rows = inputs[GROUP_ROW].tolist()
        self.seen.append((step, rows, inputs["advantages"].clone()))
        return loss


def logps_with_images(folder, policy, rows):
    model = LlavaForConditionalGeneration.from_pretrained(folder)
    model.load_state_dict(policy)
    model.eval()
    result = []
    for i in range(len(rows["prompt_ids"])):
        prompt = rows["prompt_ids"][i][rows["prompt_mask"][i].bool()]
        completion = rows["completion_ids"][i][rows["completion_mask"][i].bool()]
        ids = torch.cat([prompt, completion])[None]
        with torch.no_grad():
            logits = model(input_ids=ids, pixel_values=rows["pixel_values"][i : i + 1]).logits
        logps = logits.double().log_softmax(-1)[0, len(prompt) - 1 : -1]
        result.append(float(logps.gather(1, completion[:, None]).sum()))
    return np.array(result)


@pytest.mark.parametrize("geometry", [WHOLE, SPLIT], ids=["8 rows", "2 rows"])
def test_every_forward_pass_of_a_vision_model_gets_its_images(vision, tmp_path, geometry):
    folder, processor, problems = vision
    trainer = SeesImages(
        model=folder,
        reward_funcs=lambda completion_ids, **_: [(sum(ids) % 5) / 4 for ids in completion_ids],
        args=config(
            tmp_path,
            method="bon_off_policy_exact",
            num_iterations=2,
            max_steps=2,
            learning_rate=0.3,
            **geometry,
        ),
        train_dataset=problems,
        processing_class=processor,
    )
    trainer.train()
    assert trainer.images
    assert all(trainer.images)
    rows, rewards = trainer.generation
    old = logps_with_images(folder, trainer.policies[0], rows)
    now = logps_with_images(folder, trainer.policies[1], rows)
    scored = rewards.double().numpy().reshape(-1, GROUP)
    ratios = (now - old).reshape(-1, GROUP)
    expected = brute_force("bon_off_policy_exact", scored, ratios, k=2, form="ppo").reshape(-1)
    plain = brute_force("bon_off_policy_exact", scored, 0 * ratios, k=2, form="ppo").reshape(-1)
    assert np.abs(expected - plain).max() > 1e-2
    for step, places, advantages in trainer.seen:
        if step == 1:
            np.testing.assert_allclose(advantages.numpy(), expected[places], atol=1e-4)
