"""Best-of-N distillation: supervised training (SFT) on what the best of k samples would be.

Each sample of a problem is weighed by its chance to be the best of k (`chance_of_best`).
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from maxatk.check import require, whole
from maxatk.errors import DataError, MissingFileError
from maxatk.evaluation.evaluation import UnitProgress
from maxatk.evaluation.folder import MANIFEST, SAMPLES, SCORES
from maxatk.evaluation.load import rewarded_scores
from maxatk.evaluation.recipe import EvalRecipe
from maxatk.evaluation.run import evaluate
from maxatk.evaluation.run import plan as plan_drawing
from maxatk.evaluation.store import read_records
from maxatk.exchange.export import Exported, sft_rows
from maxatk.folders import differing_settings, read_json
from maxatk.models import PromptSettings, load_tokenizer, quiet_libraries, refuse_missing_model
from maxatk.problems import load_problems, problems_by_id
from maxatk.records import Problem, Sample
from maxatk.settings import from_mapping
from maxatk.train.finite_gradients import FiniteGradients
from maxatk.train.fit import fit
from maxatk.train.folder import (
    alone_in,
    check_plan,
    has_finished,
    out_folder,
    refuse_to_go_on,
)
from maxatk.train.launch import check_processes, process_count
from maxatk.train.loading_checks import config_to_train
from maxatk.train.recipe import lora_config, merged, trainer_settings
from maxatk.train.reporter import Reporter
from maxatk.train.setting_checks import require_settings
from maxatk.train.start_checks import refuse_closed_hub
from maxatk.train.unread_settings import check_unread

_NO_LABEL = -100  # of a token that no loss is taken of, as in all of transformers
# What the weighed loss is made for: a sample a row, and its likelihood.
_LOSS = {"packing": False, "padding_free": False, "loss_type": "nll", "label_smoothing_factor": 0.0}
# The prompts are those of `eval.prompt`, and their tokens are not learned.
_LEARNED = {
    "chat_template_path": (None,),
    "assistant_only_loss": (False,),
    "completion_only_loss": (None, True),
}


@dataclasses.dataclass(frozen=True)
class DistillRecipe:
    """What `maxatk distill` needs: the keys of its recipe.

    `model`, `problems`, `out` and `peft` are as in `TrainRecipe`, and `trainer` has fields of TRL's
    SFTConfig. `run` is a folder of samples that eval wrote; without one each of the `rounds` draws
    them from the model of the one before, as `eval` says, a recipe of `maxatk eval`. A round draws
    for all problems, or for `problems_of_a_round`: the next ones in each round, and after the last
    problem the first one again.

    Raises InvalidValueError for k, rounds and problems_of_a_round below 1, and the last two with a
    run.
    """

    model: str
    problems: str
    out: str
    k: int
    run: str | None = None
    eval: dict[str, Any] = dataclasses.field(default_factory=dict)
    rounds: int = 1
    problems_of_a_round: int | None = None
    trainer: dict[str, Any] = dataclasses.field(default_factory=dict)
    peft: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        whole("k", self.k, 1)
        whole("rounds", self.rounds, 1)
        drawing = self.eval_recipe(self.model, Path(self.out), 0)
        if self.run is None:
            samples = drawing.sampling.samples
            require(self.k <= samples, "k", f"at most {samples}", self.k)
        else:
            require(self.rounds == 1, "rounds", "1 with a run", self.rounds)
        if self.problems_of_a_round is not None:
            whole("problems_of_a_round", self.problems_of_a_round, 1)
            allowed = "left out with a run"
            require(self.run is None, "problems_of_a_round", allowed, self.problems_of_a_round)

    def eval_recipe(self, model: str, out: Path, number: int) -> EvalRecipe:
        """Return how a round draws, with a seed of its own and as if it were for all problems."""
        of_round = {"model": model, "problems": self.problems, "out": str(out)}
        settings = merged(self.eval, of_round, where="eval")
        recipe = from_mapping(EvalRecipe, settings, where="eval")
        require(recipe.shard is None, "eval.shard", "left out of a distillation", recipe.shard)
        sampling = dataclasses.replace(recipe.sampling, seed=recipe.sampling.seed + number)
        return dataclasses.replace(recipe, sampling=sampling)


def distill(recipe: DistillRecipe, *, progress: UnitProgress | None = None) -> Path:
    """Distil the best of k as `recipe` says and return the folder of the distilled model.

    What is there already of the same recipe is kept and gone on with; another recipe is refused.
    `progress(done, total, part)` counts the "samples" and "scores" of all rounds, and the "steps"
    of the round that trains.

    Raises InvalidValueError, MissingFileError and MissingDependencyError as `train`, before any
    work, and DataError where no problem has samples of different rewards.
    """
    out = Path(recipe.out)
    folder = out_folder(recipe, "distill")
    folder.check_content()
    refuse_to_go_on(out, recipe)
    if has_finished(out, recipe):
        return out
    folder.check()
    refuse_closed_hub(_check(recipe))
    with alone_in(folder):
        model = recipe.model
        for number in range(recipe.rounds):
            target = out if number + 1 == recipe.rounds else out / f"round-{number}"
            refuse_to_go_on(target, recipe)
            if not has_finished(target, recipe):
                _round(recipe, model, number, target, progress)
            model = str(target)
    return out


def plan_distillation(recipe: DistillRecipe) -> dict[str, Any]:
    """Return what `distill` would draw and train on, after all its checks; raises as it does.

    `samples_to_draw` are those of all rounds; without `max_steps` the steps are known once it is
    known which samples are worth a place. The same distillation may be under way in the folder.
    """
    check_plan(out_folder(recipe, "distill"), recipe)
    config = _check(recipe)
    drawing = recipe.eval_recipe(recipe.model, _samples_folder(recipe, 0), 0)
    samples = drawing.sampling.samples
    if recipe.run is None:
        problems = len(_problems_of_round(recipe, 0))
        plan_drawing(drawing)
    else:
        problems = len(load_problems(recipe.problems))
        _weighed_rows(recipe, Path(recipe.run))
    rows = config.train_batch_size * config.gradient_accumulation_steps
    return {
        "problems": problems,
        "samples_of_a_problem": samples if recipe.run is None else None,
        "samples_to_draw": problems * samples * recipe.rounds if recipe.run is None else 0,
        "rounds": recipe.rounds,
        "k": recipe.k,
        "epochs": config.num_train_epochs if config.max_steps <= 0 else None,
        "optimizer_steps_of_a_round": config.max_steps if config.max_steps > 0 else None,
        "rows_of_an_optimizer_step": rows * process_count(),
        "out": recipe.out,
    }


def _check(recipe: DistillRecipe) -> SFTConfig:
    """Return the settings of TRL's trainer, where all that needs no weights is as it has to be."""
    if recipe.run is None:
        allowed = "a folder that `maxatk eval` wrote, in which several processes find the samples"
        require(process_count() == 1, "run", allowed, recipe.run)
    config = config_of(recipe, Path(recipe.out))
    check_processes(config)
    adapter = lora_config(recipe.peft)
    refuse_missing_model(recipe.model)
    config_to_train(config, recipe.model, adapter)
    _check_special_tokens(config, recipe)
    if recipe.problems_of_a_round is None:
        load_problems(recipe.problems, limit=1)
    else:
        check_problems_of_a_round(recipe, len(load_problems(recipe.problems)))
    if recipe.run is not None and not (Path(recipe.run) / SCORES).is_file():
        raise MissingFileError(f"run: {recipe.run}: holds no {SCORES}")
    if recipe.run is not None:
        _warn_of_another_prompt(recipe, Path(recipe.run))
    return config


def _warn_of_another_prompt(recipe: DistillRecipe, run: Path) -> None:
    """Warn where the samples of a run were drawn after another prompt than is trained after.

    It may be meant: a model can learn to answer without a system turn as it does with one.
    """
    manifest = read_json(run / MANIFEST) if (run / MANIFEST).is_file() else {}
    model_settings = manifest.get("settings", {}).get("model") or {}
    sampled_after = model_settings.get("prompt")
    if sampled_after is None:  # samples of a server, or from elsewhere
        return
    trained_after = recipe.eval_recipe(recipe.model, run, 0).prompt.to_json()
    differences = list(differing_settings(sampled_after, trained_after, "prompt"))
    if differences:
        warnings.warn(
            f"run: the samples in {run} were drawn after another prompt than the model is to "
            f"learn to answer, which `eval` says: {'; '.join(differences)}",
            stacklevel=2,
        )


def config_of(recipe: DistillRecipe, out: Path) -> SFTConfig:
    """Return the settings of TRL's trainer; raise InvalidValueError for one that is not allowed."""
    of_run = {"output_dir": str(out), "remove_unused_columns": False, **_LOSS}
    of_recipe = {"max_length": None, **recipe.trainer}  # TRL would cut samples at 1024 tokens
    config = trainer_settings(SFTConfig, of_recipe, of_run)
    check_unread(config)
    require_settings(config, _LEARNED, "in a distillation, which learns samples as they were drawn")
    return config


def _check_special_tokens(config: SFTConfig, recipe: DistillRecipe) -> None:
    """Refuse tokens that the tokenizer does not have, which TRL looks for behind the samples."""
    if config.eos_token is None and config.pad_token is None:
        return
    drawing = recipe.eval_recipe(recipe.model, Path(recipe.out), 0)
    vocabulary = load_tokenizer(recipe.model, prompt=drawing.prompt).get_vocab()
    for name in ("eos_token", "pad_token"):
        token = getattr(config, name)
        is_known = token is None or token in vocabulary
        require(is_known, f"trainer.{name}", "a token of the model's tokenizer", token)


def _round(
    recipe: DistillRecipe, model: str, number: int, out: Path, progress: UnitProgress | None
) -> None:
    """Train a model into `out` on its weighed samples, which are drawn where no run has them."""
    folder = _samples_folder(recipe, number)
    drawing = recipe.eval_recipe(model, folder, number)
    if recipe.problems_of_a_round is not None:
        problems = _problems_of_round(recipe, number)
        drawing = dataclasses.replace(drawing, problems=problems, limit=None)
    if recipe.run is None:
        evaluate(drawing, progress=_over_all_rounds(progress, number, recipe.rounds))
    rows = _weighed_rows(recipe, folder)
    with quiet_libraries():
        tokenizer = load_tokenizer(model, prompt=drawing.prompt)
        trainer = WeightedSFTTrainer(
            model=model,
            args=config_of(recipe, out),
            processing_class=tokenizer,
            train_dataset=sft_dataset(rows, tokenizer, drawing.prompt),
            peft_config=lora_config(recipe.peft),
        )
        if progress:
            trainer.add_callback(Reporter(lambda done, total: progress(done, total, "steps")))
        fit(trainer, recipe, out)


def _over_all_rounds(
    progress: UnitProgress | None, number: int, rounds: int
) -> UnitProgress | None:
    """Return what tells `progress` the samples of all rounds in place of those of round `number`.

    Every round has the same number of them.
    """
    if progress is None:
        return None
    tell = progress

    def tell_of_all(done: int, total: int, part: str) -> None:
        tell(number * total + done, rounds * total, part)

    return tell_of_all


def check_problems_of_a_round(recipe: DistillRecipe, count: int) -> None:
    """Raise InvalidValueError where a round is to draw for more problems than there are."""
    limit = recipe.eval.get("limit")
    count = count if limit is None else min(count, limit)
    size = recipe.problems_of_a_round
    allowed = f"at most the {count} problems that there are"
    require(size is None or size <= count, "problems_of_a_round", allowed, size)


def _problems_of_round(recipe: DistillRecipe, number: int) -> list[Problem]:
    """Return the problems for which a round draws.

    The rounds go through the problems in their order, and after the last begin again.
    """
    problems = load_problems(recipe.problems, limit=recipe.eval.get("limit"))
    size = recipe.problems_of_a_round
    if size is None:
        return problems
    first = number * size
    return [problems[index % len(problems)] for index in range(first, first + size)]


def _samples_folder(recipe: DistillRecipe, number: int) -> Path:
    """Return the folder with the samples of a round."""
    return Path(recipe.run or Path(recipe.out) / f"samples-{number}")


def _weighed_rows(recipe: DistillRecipe, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of `sft_rows` of the samples in a folder; raise DataError where none is."""
    problems = problems_by_id(load_problems(recipe.problems), source=recipe.problems)
    samples = read_records(folder / SAMPLES, Sample)
    scores = rewarded_scores(folder)
    exported = [
        Exported(score, samples.get(key), problems.get(score.problem_id))
        for key, score in scores.items()
    ]
    rows = sft_rows(exported, k=recipe.k)
    if not rows:
        raise DataError(
            f"{folder}: no problem has samples of different rewards, so there is nothing to distil"
        )
    return rows


def sft_dataset(
    rows: Sequence[Mapping[str, Any]], tokenizer: Any, prompt: PromptSettings | None = None
) -> Dataset:
    """Return rows of `sft_rows` as TRL reads them, with weights of the mean 1.

    With a chat template a row has turns, and what the template gets, as `prompt` says of those that
    were sampled from; without one it has the tokens of the text and their labels.
    """
    prompt = prompt or PromptSettings()
    of_template: dict[str, Any] = {}
    if prompt.template_arguments:
        of_template = {"chat_template_kwargs": dict(prompt.template_arguments)}
    mean = sum(row["weight"] for row in rows) / len(rows)
    dataset_rows = []
    for row in rows:
        weight = {"weight": row["weight"] / mean}
        if tokenizer.chat_template is not None:
            turns = [*prompt.turns_before, *row["prompt"]]
            conversation = {"prompt": turns, "completion": row["completion"]}
            dataset_rows.append({**conversation, **of_template, **weight})
        else:
            asked = row["prompt"][0]["content"]
            answered = row["completion"][0]["content"]
            dataset_rows.append({**_labelled_tokens(asked, answered, tokenizer), **weight})
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


class WeightedSFTTrainer(SFTTrainer):
    """TRL's SFTTrainer whose rows have a column `weight`, a factor on the loss of their tokens.

    The loss is the sum of weight times the negative log-likelihood over the tokens of a step.
    """

    def __init__(self, *, train_dataset: Dataset, **arguments: Any) -> None:
        super().__init__(train_dataset=train_dataset, **arguments)
        self.data_collator: Any = functools.partial(_with_weights, self.data_collator)
        self.add_callback(FiniteGradients())

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the weighed loss, as transformers' Trainer calls for it."""
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
