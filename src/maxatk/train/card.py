"""What a model card says about training for max@k, added to the card that TRL writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxatk.objectives import METHODS
from maxatk.train.scale import describe

_TITLE = "## Trained for best-of-N with maxatk"


def describe_training(folder: Path, args: Any, log: Sequence[Mapping[str, Any]]) -> None:
    """Add a section on objective and results to the README.md of a model folder, if there is one.

    `args` is a `MaxAtKConfig`, `log` the log history of the trainer.
    """
    card = folder / "README.md"
    if card.is_file():
        text = card.read_text(encoding="utf-8").partition(_TITLE)[0].rstrip()
        card.write_text(f"{text}\n\n{_section(args, log)}", encoding="utf-8")


def _section(args: Any, log: Sequence[Mapping[str, Any]]) -> str:
    method = METHODS[args.method]
    k = str(args.k)
    if args.k_schedule != "constant":
        k += f" to {args.objective.k_final} ({args.k_schedule})"
    scale = describe(args.advantage_scale, method, group_size=args.num_generations)
    lines = [
        _TITLE,
        "",
        f"The objective is the expected maximum reward of k = {k} samples.",
        "",
        "| setting | value |",
        "|---|---|",
        f"| method | `{args.method}` ({method.source}) |",
        f"| form | `{args.form}` |",
        f"| share of max@k | {args.max_weight} (the rest is max@1) |",
        f"| scale of the advantages | {scale} |",
        f"| samples a prompt | {args.num_generations} |",
        f"| uses of a generation | {args.num_iterations} |",
        "",
    ]
    rows = [row for row in log if "max@1" in row]
    if rows:
        first, last = rows[0], rows[-1]
        names = sorted((n for n in last if n.startswith("max@")), key=lambda n: int(n[4:]))
        lines += [
            "Rewards of the training groups:",
            "",
            "| | first log | last log |",
            "|---|---|---|",
        ]
        lines += [f"| {n} | {first.get(n, 0):.3f} | {last[n]:.3f} |" for n in names]
        lines.append("")
    return "\n".join(lines)
