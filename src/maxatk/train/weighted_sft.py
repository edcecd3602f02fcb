"""Supervised training (SFT) on weighted samples: TRL's trainer with their loss, and its data."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset
from trl import SFTTrainer

from maxatk.models import PromptSettings
from maxatk.train.finite_gradients import FiniteGradients
from maxatk.train.last_step import EndsAtLastStep
from maxatk.train.settings_of_now import SettingsOfNow

_NO_LABEL = -100  # of a token that no loss is taken of, as in all of transformers


def sft_dataset(
    rows: Sequence[Mapping[str, Any]], tokenizer: Any, prompt: PromptSettings | None = None
) -> Dataset:
    """Return rows of `sft_rows` as TRL reads them, with weights of the mean 1.

    With a chat template a row has turns, and what the template gets, as `prompt` says of those that
    were sampled from; without one it has the tokens of the text and their labels.
    """
    prompt = prompt or PromptSettings()
    template_column: dict[str, Any] = {}
    if prompt.template_arguments:
        template_column = {"chat_template_kwargs": dict(prompt.template_arguments)}
    mean = sum(row["weight"] for row in rows) / len(rows)
    dataset_rows = []
    for row in rows:
        weight = {"weight": row["weight"] / mean}
        if tokenizer.chat_template is not None:
            turns = [*prompt.turns_before, *row["prompt"]]
            conversation = {"prompt": turns, "completion": row["completion"]}
            dataset_rows.append({**conversation, **template_column, **weight})
        else:
            question = row["prompt"][0]["content"]
            answer = row["completion"][0]["content"]
            dataset_rows.append({**_labelled_tokens(question, answer, tokenizer), **weight})
    return Dataset.from_list(dataset_rows)


def _labelled_tokens(prompt: str, completion: str, tokenizer: Any) -> dict[str, list[int]]:
    """Return the tokens of a text and of its end, and labels that leave out the prompt.

    TRL appends the end token as text, whose first letter a token of a program may take.
    """
    prompt_ids = tokenizer(prompt)["input_ids"]
    ids = [*tokenizer(prompt + completion)["input_ids"], tokenizer.eos_token_id]
    # A token may span the boundary, and is then learned.
    shared = 0
    while shared < len(prompt_ids) and prompt_ids[shared] == ids[shared]:
        shared += 1
    return {"input_ids": ids, "labels": [_NO_LABEL] * shared + ids[shared:]}


class WeightedSFTTrainer(EndsAtLastStep, SFTTrainer):
    """TRL's SFTTrainer whose rows have a column `weight`, a factor on the loss of their tokens.

    The loss is the sum of weight times the negative log-likelihood over the tokens of a step.
    """

    def __init__(self, *, train_dataset: Dataset, **arguments: Any) -> None:
        super().__init__(train_dataset=train_dataset, **arguments)
        self.data_collator: Any = functools.partial(_with_weights, self.data_collator)
        self.add_callback(FiniteGradients())
        self.add_callback(SettingsOfNow())

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the weighted loss, as transformers' Trainer calls for it."""
        weights = inputs.pop("weight")
        labels = inputs["labels"][:, 1:]
        outputs = model(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False
        )
        losses = torch.nn.functional.cross_entropy(
            outputs.logits[:, :-1].float().transpose(1, 2), labels, reduction="none"
        )
        tokens = (labels != _NO_LABEL).sum() if num_items_in_batch is None else num_items_in_batch
        loss = (losses.sum(dim=1) * weights).sum() / tokens
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes  # its gradients are averaged over them
        return (loss, outputs) if return_outputs else loss


def _with_weights(collate: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {**collate(rows), "weight": torch.tensor([row["weight"] for row in rows])}
