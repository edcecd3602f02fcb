"""What a model card says about training for max@k, added to the card that TRL writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.objectives import method_of
from maxatk.train.log import first_and_last, lacking

WITHOUT_SIGNAL = (
    "every group of the training had equal rewards or none, so that all advantages were 0 and the "
    "rewards changed nothing"
)
_TITLE = "## Trained for best-of-N with maxatk"


def describe_training(trainer: Any, *, without_signal: bool) -> None:
    """Add a section on objective and results to the card in the folder of a trainer, if it has one.

    `without_signal` says whether no group taught anything.
    """
    folder, base = Path(trainer.args.output_dir), trainer.model.config.name_or_path
    card = folder / "README.md"
    if card.is_file():
        text = card.read_text(encoding="utf-8").partition(_TITLE)[0].rstrip()
        text = text.replace("[None](https://huggingface.co/None)", f"`{base}`")  # a local folder
        text = text.replace('model="None"', f'model="{folder}"')
        results = _results(trainer.state.log_history, without_signal=without_signal)
        lines = [text, "", _TITLE, "", *_settings(trainer.args, base), *results, ""]
        card.write_text("\n".join(lines), encoding="utf-8")


def _settings(args: Any, base: str) -> Iterator[str]:
    method, k = method_of(args.method), str(args.k)
    if args.k_schedule != "constant":
        k += f" to {args.objective.last_k} ({args.k_schedule})"
    aim = method.kind.statistic or f"reward of the best of all {args.num_generations} samples"
    yield f"The method raises the expected {aim}{f' for k = {k}' if method.kind.uses_k else ''}."
    yield from ("", "| setting | value |", "|---|---|")
    yield f"| base model | `{base}` |"
    yield f"| method | `{args.method}` ({method.source}) |"
    yield f"| form | `{args.form}` |"
    if method.kind.uses_k:
        yield f"| share of max@k | {args.max_weight} (the rest is max@1) |"
    yield f"| `advantage_scale` | `{args.advantage_scale}` |"
    yield f"| samples a prompt | {args.num_generations} |"
    yield f"| passes over a rollout batch | {args.num_iterations} |"
    yield ""


def _results(log: Sequence[Mapping[str, Any]], *, without_signal: bool) -> Iterator[str]:
    if without_signal:
        yield from (f"Nothing was learned: {WITHOUT_SIGNAL}.", "")
    moved = first_and_last(log)
    if moved:
        yield from ("Rewards of the training groups, on different prompts:", "")
        yield from ("| | first tenth of the log | last tenth |", "|---|---|---|")
        yield from (f"| {n} | {first:.3f} | {last:.3f} |" for n, (first, last) in moved.items())
    if said := lacking(log):
        yield from ("", f"Of the completions: {', '.join(said)}.")
