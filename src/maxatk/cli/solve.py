"""The command `solve`: the best of many programs for one problem."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import tyro

from maxatk.cli.progress import ProgressMode, progress_bar
from maxatk.errors import InvalidValueError, MissingFileError, suggestion
from maxatk.evaluation import ModelSettings, SamplingSettings, solve
from maxatk.evaluation.solve_by_score import Choice, choose
from maxatk.evaluation.solving import DRAWN_AT_ONCE, Solution
from maxatk.jsonl import read_jsonl
from maxatk.problems import load_problems, problems_by_id
from maxatk.records import Problem, TestCase
from maxatk.verifier import VerifierSettings

_BAR = 40
_RUNNING = ModelSettings(batch_size=DRAWN_AT_ONCE)


def command(
    model: str,
    problems: str | None = None,
    id: str | None = None,
    prompt: Path | None = None,
    tests: Path | None = None,
    entry_point: str | None = None,
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 64,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    max_new_tokens: int = 256,
    seed: int = 0,
    keep_going: bool = False,
    select: str | None = None,
    running: Annotated[ModelSettings, tyro.conf.arg(name="")] = _RUNNING,
    template_arguments: str = "{}",
    verifier: VerifierSettings = VerifierSettings(),  # noqa: B008
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
    progress: ProgressMode = "auto",
) -> None:
    """Draw programs for one problem, verify them as they come, and print the best.

    The problem is one of a benchmark or a problems.jsonl (--problems, --id), or a prompt in a
    file with its tests in another (--prompt, --tests).

    Example: maxatk solve --model runs/base --problems test.jsonl --id test-00000 -n 64

    Args:
        model: A local model folder, a hub name, or the name a server knows.
        problems: A benchmark's name or a problems.jsonl.
        id: Which of its problems; the only one if not given.
        prompt: A text file with the prompt.
        tests: Its tests, a line each as in problems.jsonl, such as {"input": "2", "output": "4"}.
        entry_point: The function that check tests are given.
        n: How many programs are drawn at most.
        temperature: Of the sampling, as in eval.
        top_p: Of the sampling, as in eval.
        top_k: Of the sampling, as in eval.
        min_p: Of the sampling, as in eval.
        max_new_tokens: Most tokens of a program.
        seed: Fixes every draw.
        keep_going: Draw all n, even after a program has passed every test.
        select: Choose one of n samples without looking at the tests: likelihood, visible-tests,
            majority, module:function or file.py:function.
        running: How the model is run, as in eval.
        template_arguments: For the chat template, as JSON, such as {"enable_thinking": false}.
        verifier: Its workers and limits.
        json_output: Print one JSON object instead of text.
        progress: A bar on the terminal, JSON lines on standard output, or nothing.
    """
    settings = SamplingSettings(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        max_new_tokens=max_new_tokens,
        seed=seed,
    )
    chat = dataclasses.replace(running.prompt, template_arguments=_arguments(template_arguments))
    running = dataclasses.replace(running, prompt=chat)
    if prompt is not None and tests is None and select is not None:
        problem = Problem(prompt.stem, _text_of(prompt), entry_point=entry_point)
    else:
        problem = _problem(problems, id, prompt, tests, entry_point)
    if select is not None:
        with verifier.open() as opened, progress_bar("solve", progress) as report:
            choice = choose(
                model,
                problem,
                select,
                n=n,
                settings=settings,
                model_settings=running,
                verifier=opened,
                progress=report,
            )
        print(json.dumps(choice.to_json()) if json_output else _choice_text(choice))  # noqa: T201
        return
    with verifier.open() as opened, progress_bar("solve", progress) as report:
        found = solve(
            model,
            problem,
            n=n,
            settings=settings,
            model_settings=running,
            verifier=opened,
            keep_going=keep_going,
            progress=report,
        )
    print(json.dumps(found.to_json()) if json_output else _text(found))  # noqa: T201


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except json.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        raise InvalidValueError(f"--template-arguments: must be a JSON object, got {text!r}")
    return arguments


def _problem(
    problems: str | None,
    problem_id: str | None,
    prompt: Path | None,
    tests: Path | None,
    entry_point: str | None,
) -> Problem:
    if (problems is None) == (prompt is None) or (prompt is None) != (tests is None):
        raise InvalidValueError("solve: give either --problems (and --id) or --prompt and --tests")
    if prompt is not None and tests is not None:
        cases = tuple(read_jsonl(tests, TestCase.from_json))
        return Problem(prompt.stem, _text_of(prompt), cases, entry_point=entry_point)
    found = problems_by_id(load_problems(str(problems)), source=str(problems))
    if problem_id is None and len(found) == 1:
        return next(iter(found.values()))
    if problem_id is None:
        raise InvalidValueError(f"--id: {problems} has {len(found)} problems; name one of them")
    if problem_id not in found:
        hint = suggestion(problem_id, found)
        raise InvalidValueError(f"--id: {problems} has no problem {problem_id!r}{hint}")
    return found[problem_id]


def _text_of(prompt: Path) -> str:
    if not prompt.is_file():
        raise MissingFileError(f"prompt: {str(prompt)!r} does not exist")
    return prompt.read_text(encoding="utf-8")


def _choice_text(choice: Choice) -> str:
    head = (
        f"{choice.problem_id}: sample {choice.sample + 1} of {len(choice.scores)}, chosen by "
        f"{choice.by} ({choice.score:.3f})"
    )
    return "\n".join([head, "", choice.text.rstrip()])


def _text(found: Solution) -> str:
    drawn = len(found.rewards)
    if found.program is None:
        return f"{found.problem_id}: none of {drawn} programs could be verified"
    head = (
        f"{found.problem_id}: reward {found.reward:.3f}, {found.passed} of {found.total} tests, "
        f"sample {(found.sample or 0) + 1} of {drawn}"
    )
    lines = [head, "", found.program.rstrip(), "", "reward   programs"]
    counts = Counter(reward for reward in found.rewards if reward is not None)
    for reward, count in sorted(counts.items(), reverse=True):
        lines.append(f"{reward:6.3f}   {count:4d} {'#' * max(1, round(_BAR * count / drawn))}")
    if unscored := found.rewards.count(None):
        lines.append(f"unscored {unscored:4d}")
    return "\n".join(lines)
