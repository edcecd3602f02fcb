"""The part of a trained model's README that says what it was trained for, and what it came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

from maxatk.objectives import method_of
from maxatk.training import findings
from maxatk.training.summary import first_and_last
from maxatk.writing import write_text

_TITLE = "## Trained for best-of-N with maxatk"
_SETTINGS = (
    "learning_rate",
    "form",
    "max_weight",
    "advantage_scale",
    "num_generations",
    "num_iterations",
)
_CHAT_TURN = '[{"role": "user", "content": question}]'  # of the quick start in TRL's card


def describe_training(trainer: Any) -> None:
    """Add the objective, what it came to, and what the log shows to be wrong, to TRL's card."""
    args = trainer.args
    card = Path(args.output_dir) / "README.md"
    if not card.is_file():
        return
    base = trainer.model.config.name_or_path
    method = method_of(args.method)
    settings = {
        "base model": f"`{base}`",
        "method": f"`{args.method}` ({method.source})",
        "k": _ks(args) if method.credit_row.uses_k else "none",
        "optimizer steps": trainer.state.global_step,
        **{f"`{name}`": getattr(args, name) for name in _SETTINGS},
    }
    if isinstance(trainer.train_dataset, Sized):
        settings["problems"] = f"{len(trainer.train_dataset):,}"
    lines = [
        _card_of_trl(card.read_text(encoding="utf-8"), trainer),
        "",
        _TITLE,
        "",
        f"The method raises the expected {_aim(args, method)}.",
        "",
        "| setting | value |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in settings.items()),
        "",
        *_what_it_came_to(trainer.state.log_history),
        *(f"- {finding}" for finding in findings(trainer.state.log_history)),
        "",
    ]
    write_text(card, "\n".join(lines))


def _card_of_trl(text: str, trainer: Any) -> str:
    """Return TRL's part of the card, for a local model and for one without a chat template."""
    text = text.partition(_TITLE)[0].rstrip()
    # TRL names a model of the hub; a local folder it calls None.
    base = trainer.model.config.name_or_path
    text = text.replace("[None](https://huggingface.co/None)", f"`{base}`")
    text = text.replace('model="None"', f'model="{trainer.args.output_dir}"')
    if getattr(trainer.processing_class, "chat_template", None) is None:
        text = text.replace(_CHAT_TURN, "question")
    return text


def _what_it_came_to(log: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a table: max@k at both ends of the training."""
    ends = first_and_last(log)
    if not ends:
        return []
    return [
        "In the training groups, over the first and the last tenth of the log. Only an evaluation "
        "says what held-out problems gain.",
        "",
        "| value | at first | at last |",
        "|---|---|---|",
        *(f"| {name} | {first:.3f} | {last:.3f} |" for name, (first, last) in ends.items()),
        "",
    ]


def _aim(args: Any, method: Any) -> str:
    """Return the statistic that is trained for, with its k."""
    aim = str(
        method.credit_row.statistic or f"reward of the best of all {args.num_generations} samples"
    )
    if not method.credit_row.uses_k:
        return aim
    return f"{aim} for k = {_ks(args)}"


def _ks(args: Any) -> str:
    """Return the k, and where its schedule leads."""
    if args.k_schedule == "constant":
        return str(args.k)
    return f"{args.k} to {args.objective.last_k} ({args.k_schedule})"
