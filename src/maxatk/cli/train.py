"""The command `train`: one training run from a recipe."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from maxatk.cli.progress import ProgressMode, progress_bar
from maxatk.cli.tables import OutputFormat, print_json, refuse_two_outputs
from maxatk.engines.cluster import ClusterSettings
from maxatk.engines.cluster.opening import open_verifier
from maxatk.folders import TRAIN_RECORD, read_json
from maxatk.settings import from_mapping, read_recipe

if TYPE_CHECKING:
    from maxatk.train.preview import Preview

_WIDTH = 100


def command(
    recipe: Annotated[Path, tyro.conf.Positional],
    overrides: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    dry_run: bool = False,
    cluster: ClusterSettings = ClusterSettings(),  # noqa: B008
    format: OutputFormat = "text",
    progress: ProgressMode = "auto",
) -> None:
    """Train a model as a recipe says.

    If interrupted, rerun the same command: it resumes from the last checkpoint. A finished run is
    left alone. Every logging_steps a line on standard error has the reward, max@k, KL (with beta),
    the share of completions cut off by length, and the seconds.

    Example: maxatk train recipe.yaml trainer.k=4 out=runs/k4

    Args:
        recipe: A YAML file with model, problems, out, reward, verifier and trainer.
        overrides: Settings that win over the recipe, such as trainer.k=4 out=runs/k4.
        dry_run: Check everything without loading weights, show what the run would do, and stop.
        cluster: A Ray cluster whose nodes run the programs; this machine without an address.
        format: How the plan of a dry run, or what moved, is printed; json is one object.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    refuse_two_outputs(format, progress)
    settings = read_recipe(recipe, overrides)
    from maxatk.train import TrainRecipe, preview, train  # takes seconds to import

    chosen = from_mapping(TrainRecipe, settings, where="recipe")
    if dry_run:
        found = preview(chosen)
        if found.main_process:  # under accelerate launch every process comes here
            print(_as_json(found) if format == "json" else _as_text(found))  # noqa: T201
        return
    elsewhere = cluster.address is not None
    opening = open_verifier(chosen.verifier, cluster) if elsewhere else contextlib.nullcontext()
    with opening as verifier, progress_bar("train", progress) as report:
        write_line = None if progress == "none" else _write_line
        try:
            out = train(chosen, progress=report, verifier=verifier, write_line=write_line)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(_what_is_kept(Path(chosen.out))) from interrupt
    if progress != "json" and os.environ.get("RANK", "0") == "0":  # set by accelerate launch
        _print_outcome(out, format)


def _what_is_kept(out: Path) -> str:
    from maxatk.train.run import last_checkpoint

    checkpoint = last_checkpoint(out)
    if checkpoint is not None:
        return f"the same command resumes from {Path(checkpoint).name}"
    return (
        "nothing is kept, since no checkpoint was written (trainer.save_steps says how often one "
        "is); the folder may be used again, with other settings too"
    )


def _write_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _print_outcome(out: Path, output_format: OutputFormat) -> None:
    """Print where the model is and how max@k moved, from the log of the whole training."""
    from maxatk.train.log_lines import first_and_last, signal_warning

    history = read_json(out / TRAIN_RECORD)["log_history"]
    moved = first_and_last(history)
    if (warning := signal_warning(history)) is not None:
        _write_line(f"warning: {warning}")
    if output_format == "json":
        rows = [{"metric": n, "first": first, "last": last} for n, (first, last) in moved.items()]
        print_json({"training": rows, "files": [{"model": str(out)}]})
        return
    print(f"trained model: {out}")  # noqa: T201
    if moved:
        shown = (f"{n} {first:.3f} to {last:.3f}" for n, (first, last) in moved.items())
        tenths = "first and last tenth of the training log, on different prompts"
        print(f"{', '.join(shown)} ({tenths})")  # noqa: T201


def _as_json(found: Preview) -> str:
    """Return a preview as one line of JSON; bytes and counts are whole numbers."""
    memory = None
    if found.memory is not None:
        memory = {**dataclasses.asdict(found.memory), "total": found.memory.total}
    return json.dumps(
        {
            "plan": dataclasses.asdict(found.plan),
            "memory": memory,
            "memory_unknown": found.memory_unknown,
            "prompt_tokens": found.prompt_tokens,
            "given": found.given,
            "defaults": found.defaults,
        }
    )


def _as_text(found: Preview) -> str:
    """Return a preview for people."""
    recipe = found.recipe
    sections = {
        "run": [
            f"model {recipe.model}" + (", with an adapter" if recipe.peft is not None else ""),
            f"problems {recipe.problems}",
            f"out {recipe.out}",
            f"reward {recipe.reward}",
        ],
        "batch": list(_batch(found)),
        "forward passes of a process, in micro-batches": list(_passes(found)),
        "memory of a process, estimated": list(_memory(found)),
        "trainer settings that were given": _wrapped(found.given),
        "defaults (those that are None are left out)": _defaults(found),
    }
    lines = []
    for title, body in sections.items():
        lines += [title, *(f"  {line}" for line in body), ""]
    return "\n".join([*lines, "the settings are fine; nothing was loaded or written"])


def _defaults(found: Preview) -> list[str]:
    """Return the defaults of our own settings, and how many of TRL there are beside them."""
    from maxatk.train import MaxAtKConfig

    ours = {n: v for n, v in found.defaults.items() if n in MaxAtKConfig.__annotations__}
    own = {name: value for name, value in ours.items() if value is not None}
    others = len(found.defaults) - len(ours)
    return [*_wrapped(own), f"{others} more, of TRL and transformers: --format json lists them"]


def _batch(found: Preview) -> Iterator[str]:
    plan = found.plan
    yield (
        f"{plan.completions_per_rollout_batch} completions per rollout batch: "
        f"{plan.prompts_per_rollout_batch} "
        f"prompts x {plan.group_size} (a group), in micro-batches of {plan.micro_batch} on "
        f"{plan.processes} processes"
    )
    yield f"{plan.steps_per_rollout_batch:g} optimizer steps per rollout batch"
    yield f"advantages {plan.advantage_scale}"
    if plan.rollout_lag:
        yield f"sampled with the weights of {plan.rollout_lag} optimizer steps ago"
    yield (
        f"{plan.optimizer_steps:,} optimizer steps, {plan.rollout_batches:,} rollout batches, "
        f"{plan.completions:,} completions in all"
    )
    if plan.problems is None:
        yield "the number of problems is known when they are loaded"
    else:
        yield f"{plan.problems:,} problems, {plan.epochs:.3g} epochs"


def _passes(found: Preview) -> Iterator[str]:
    plan = found.plan
    yield f"{plan.passes_training:,} with gradient"
    yield f"{plan.passes_sampling:,} for the log-probabilities at sampling"
    yield f"{plan.passes_reference:,} of the reference model, for beta"
    where = ": whole groups fit, so the loss's own pass gives them" if plan.whole_groups else ""
    yield f"{plan.passes_ratios:,} for the ratios of reused groups{where}"


def _memory(found: Preview) -> Iterator[str]:
    memory = found.memory
    if memory is None:
        yield f"not known: {found.memory_unknown}"
        return
    yield (
        f"{_bytes(memory.total)} at the peak, for {memory.parameters:,} parameters "
        f"({memory.trained_parameters:,} trained), {memory.tokens_a_sequence:,} tokens a sequence"
    )
    names = ["weights", "gradients", "optimizer", "reference", "activations", "logits", "cache"]
    names += ["lagged"] if memory.lagged else []
    yield ", ".join(f"{name} {_bytes(getattr(memory, name))}" for name in names)
    yield "as if nothing were sharded; generation (cache) and training (activations, logits) take"
    yield "turns; without attention scores, vLLM's share, temporary copies and the framework"
    if found.prompt_tokens is None:
        yield "prompts count as nothing: their tokens are not known here"


def _bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def _wrapped(settings: Mapping[str, Any]) -> list[str]:
    text = ", ".join(f"{name}={value}" for name, value in settings.items())
    return textwrap.wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
