"""The part of a trained model's README that says what it was trained for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maxatk.objectives import method_of
from maxatk.training import findings

_TITLE = "## Trained for best-of-N with maxatk"
_SETTINGS = ("form", "max_weight", "advantage_scale", "num_generations", "num_iterations")


def describe_training(trainer: Any) -> None:
    """Add the objective, and what the log shows to be wrong, to the card that TRL has written."""
    args = trainer.args
    card = Path(args.output_dir) / "README.md"
    if not card.is_file():
        return
    base = trainer.model.config.name_or_path
    text = card.read_text(encoding="utf-8").partition(_TITLE)[0].rstrip()
    # TRL names a model of the hub; a local folder it calls None.
    text = text.replace("[None](https://huggingface.co/None)", f"`{base}`")
    text = text.replace('model="None"', f'model="{args.output_dir}"')
    method = method_of(args.method)
    settings = [f"| `{name}` | {getattr(args, name)} |" for name in _SETTINGS]
    warnings = [f"- {finding}" for finding in findings(trainer.state.log_history)]
    lines = [
        text,
        "",
        _TITLE,
        "",
        f"The method raises the expected {_aim(args, method)}.",
        "",
        "| setting | value |",
        "|---|---|",
        f"| base model | `{base}` |",
        f"| method | `{args.method}` ({method.source}) |",
        *settings,
        "",
        *warnings,
        "",
    ]
    card.write_text("\n".join(lines), encoding="utf-8")


def _aim(args: Any, method: Any) -> str:
    """Return the statistic that is trained for, with its k."""
    aim = str(
        method.credit_row.statistic or f"reward of the best of all {args.num_generations} samples"
    )
    if not method.credit_row.uses_k:
        return aim
    k = str(args.k)
    if args.k_schedule != "constant":
        k += f" to {args.objective.last_k} ({args.k_schedule})"
    return f"{aim} for k = {k}"
