"""The command `train`: one training run from a recipe."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
import yaml

from maxatk.cli import output
from maxatk.cli.flags import set_threads
from maxatk.cli.output import Output, OutputFormat, facts_text, say_aside
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.environment import is_first_process
from maxatk.folders import last_checkpoint, read_training
from maxatk.settings import read_recipe
from maxatk.training.symptoms import findings

if TYPE_CHECKING:
    from maxatk.train.preview import Preview


def command(
    recipe: Annotated[Path, tyro.conf.Positional],
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    show_config: bool = False,
    dry_run: bool = False,
    format: OutputFormat = "text",
    progress: ProgressMode = "auto",
) -> None:
    """Train a model as a recipe says.

    The keys of its trainer that matter most: method (`maxatk methods` lists them) and k;
    num_generations, the samples a prompt, and per_device_train_batch_size with
    gradient_accumulation_steps, the batch; num_iterations, the passes over it; max_steps,
    learning_rate, beta, max_completion_length, save_steps and logging_steps. The reward is
    continuous, binary, answer, or a function as own.py:reward. --show-config prints all.

    If interrupted, rerun the same command: it resumes from the last checkpoint. A finished run is
    left alone, and goes on where trainer.max_steps is raised. Every logging_steps a line on stderr
    has the reward, max@k, KL (with beta), the share of completions cut off, and the seconds.

    Example: maxatk train recipe.yaml trainer.k=4 out=runs/k4

    Args:
        recipe: A YAML file with model, problems, out, reward, verifier and trainer.
        overrides: Settings that win over the recipe, such as trainer.k=4 out=runs/k4.
        show_config: Print the recipe with this package's defaults, as a recipe, and stop.
        dry_run: Check all that needs no weights, show what the run would do, and stop.
    """
    output.refuse_two_outputs(format, progress)
    settings = read_recipe(recipe, overrides)
    set_threads(str(settings.get("model")))
    from maxatk.train import MaxAtKConfig, preview, train  # takes seconds to import
    from maxatk.train.recipe import check_settings, train_recipe

    chosen = train_recipe(settings)
    if show_config:
        config = check_settings(chosen)
        defaults = {name: getattr(config, name) for name in MaxAtKConfig.__annotations__}
        full = {**dataclasses.asdict(chosen), "trainer": {**defaults, **chosen.trainer}}
        print(yaml.safe_dump(full, sort_keys=False), end="")
        return
    main_process = is_first_process()
    if dry_run:
        previewed = preview(chosen)
        if main_process:
            facts = dataclasses.asdict(previewed) | {"trainer": chosen.trainer}
            del facts["recipe"]
            output.emit_facts(facts, format, text=_as_text(previewed))
        return
    with progress_of("train", progress) as report:
        write_line = None if progress == "none" else say_aside
        try:
            out = train(chosen, progress=report, write_line=write_line)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(what_is_kept(Path(chosen.out))) from interrupt
    if progress != "json" and main_process:
        _print_outcome(out, format)


def what_is_kept(out: Path) -> str:
    """Return what an interrupted training leaves for the next one in its folder."""
    checkpoint = last_checkpoint(out)
    if checkpoint is not None and _are_of_the_model_alone(out):
        return (
            "its checkpoints hold the model alone (trainer.save_only_model), from which no "
            "training goes on; one may be the `model` of another"
        )
    if checkpoint is not None:
        return f"the same command resumes from {Path(checkpoint).name}"
    return (
        "nothing is kept, since no checkpoint was written (trainer.save_steps says how often one "
        "is); the folder may be used again, with other settings too"
    )


def _are_of_the_model_alone(out: Path) -> bool:
    record = read_training(out)
    return bool((record.get("recipe", {}).get("trainer") or {}).get("save_only_model"))


def _print_outcome(out: Path, output_format: OutputFormat) -> None:
    """Print where the model is and how max@k moved, from the log of the whole training."""
    from maxatk.training.summary import first_and_last, lacking

    history = read_training(out)["log_history"]
    symptoms = [finding.symptom.name for finding in findings(history)]
    if symptoms:
        names = ", ".join(symptoms)
        say_aside(f"warning: {names}; maxatk diagnose {out} has evidence and remedies")
    moved = first_and_last(history)
    rows = [{"metric": name, "first": first, "last": last} for name, (first, last) in moved.items()]
    text = f"trained model: {out}"
    if moved:
        moves = ", ".join(
            f"{name} {first:.3f} to {last:.3f}" for name, (first, last) in moved.items()
        )
        text += f"\n{moves} (first and last tenth of the training log, on different prompts)"
    lacks = lacking(history)
    if lacks:
        text += f"\nof the completions: {', '.join(lacks)}"
    tables = {"training": Output(rows), "files": Output([{"model": str(out)}])}
    output.emit(tables, output_format, text=text)


def _as_text(previewed: Preview) -> str:
    """Return for people what a training would do."""
    recipe = previewed.recipe
    run = {name: getattr(recipe, name) for name in ("model", "problems", "out", "reward")}
    run |= output.tried_rewards(previewed.rewards)
    run["longest prompt (tokens)"] = previewed.prompt_tokens
    if previewed.unchecked:
        run["not checked"] = previewed.unchecked
    sections = {
        "run": run,
        "batch": previewed.plan,
        "trainer settings that were given (--show-config has all)": recipe.trainer,
    }
    texts = []
    for title, facts in sections.items():
        texts.append(f"{title}\n{textwrap.indent(facts_text(facts), '  ')}")
    return "\n\n".join([*texts, "the settings are fine; nothing was loaded or written"])
