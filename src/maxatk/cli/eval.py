"""The verb `eval`: sample a model, run the programs, compute the metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from maxatk.cli.progress import ProgressMode, progress_bar, summed
from maxatk.cli.tables import print_overview
from maxatk.evaluate import SamplingSettings, ServerSettings, evaluate
from maxatk.problems import load_problems
from maxatk.verifier.settings import JudgeSettings


def command(
    model: str,
    problems: str,
    out: Path,
    settings: Annotated[SamplingSettings, tyro.conf.arg(name="")] = SamplingSettings(),  # noqa: B008
    backend: Literal["hf", "openai", "vllm"] = "hf",
    server: ServerSettings = ServerSettings(),  # noqa: B008
    limit: int | None = None,
    batch_size: int | None = None,
    device: str | None = None,
    judge: JudgeSettings = JudgeSettings(),  # noqa: B008
    progress: ProgressMode = "auto",
) -> None:
    """Sample a model on problems, run the programs and compute max@k and pass@k.

    Killed and started again, the same command loses at most the samples in flight.

    Example: maxatk eval --model runs/mini/base --problems runs/mini/test.jsonl --out runs/eval/base

    Args:
        model: A local model folder or a hub name.
        problems: A benchmark's name or a problems.jsonl.
        out: Folder for samples.jsonl, scores.jsonl and results.json.
        settings: How completions are sampled.
        backend: hf runs the model here, vllm does with its own engine, openai asks a server.
        server: The server of the backend openai.
        limit: Take only the first problems.
        batch_size: Samples drawn at once; chosen by itself if not given.
        device: Where the model runs; a GPU if there is one.
        judge: Workers and limits of the verifier.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    chosen = load_problems(problems, limit=limit)
    with judge.open() as verifier, progress_bar("eval", progress) as report:
        results = evaluate(
            model,
            chosen,
            out,
            settings=settings,
            backend=backend,
            server=server if backend == "openai" or server != ServerSettings() else None,
            verifier=verifier,
            device=device,
            batch_size=batch_size,
            progress=summed(report, parts=2),  # every sample is drawn, then judged
        )
    if progress != "json":
        print_overview({out.name: results})
