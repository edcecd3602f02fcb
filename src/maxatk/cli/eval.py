"""The verb `eval`: sample a model, run the programs, compute the metrics."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro
import yaml

from maxatk.cli.progress import ProgressMode, progress_bar, summed
from maxatk.cli.tables import print_overview
from maxatk.evaluate import SamplingSettings, ServerSettings, evaluate
from maxatk.evaluate.planning import Plan, plan
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
    dry_run: bool = False,
    show_config: bool = False,
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
        dry_run: Print the plan, with a time estimated from a short probe, and write nothing.
        show_config: Print all settings as they would be used, as YAML, and stop.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    asked = server_for(backend, server)
    if show_config:
        shown = {
            **{"model": model, "problems": problems, "out": str(out), "limit": limit},
            **{"backend": backend, "batch_size": batch_size, "device": device},
            "sampling": settings.to_json(),
            "judge": dataclasses.asdict(judge),
            **({"server": dataclasses.asdict(asked)} if asked else {}),
        }
        print(yaml.safe_dump(shown, sort_keys=False), end="")  # noqa: T201
        return
    chosen = load_problems(problems, limit=limit)
    if dry_run:
        with judge.open() as verifier:
            planned = plan(
                model,
                chosen,
                out,
                verifier=verifier,
                settings=settings,
                backend=backend,
                server=asked,
                device=device,
                batch_size=batch_size,
            )
        print(_plan_text(planned))  # noqa: T201
        return
    with judge.open() as verifier, progress_bar("eval", progress) as report:
        results = evaluate(
            model,
            chosen,
            out,
            settings=settings,
            backend=backend,
            server=asked,
            verifier=verifier,
            device=device,
            batch_size=batch_size,
            progress=summed(report, parts=2),  # every sample is drawn, then judged
        )
    if progress != "json":
        print_overview({out.name: results})


def server_for(backend: str, server: ServerSettings) -> ServerSettings | None:
    """Return the server settings that a backend is given: None for one that was told nothing."""
    return server if backend == "openai" or server != ServerSettings() else None


def _plan_text(planned: Plan) -> str:
    expected = planned.expected_tokens
    return "\n".join(
        [
            f"problems   {planned.problems:,}",
            f"samples    {planned.samples:,}, {planned.found:,} of them found",
            f"tokens     at most {planned.most_tokens:,}"
            + ("" if expected is None else f", about {expected:,}"),
            f"sampling   about {planned.sampling_s:,.0f} s",
            f"judging    about {planned.judging_s:,.0f} s, beside the sampling",
            f"in all     about {planned.seconds:,.0f} s, from a probe of {planned.probed} samples",
        ]
    )
