"""The command `solve`: the best of many programs for one problem."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from maxatk.bounded import read_text
from maxatk.cli.flags import RewardFlag, set_threads, yaml_flag
from maxatk.cli.output import OutputFormat, emit_facts, facts_text, refuse_two_outputs
from maxatk.cli.progress import ProgressMode, progress_of
from maxatk.errors import DataError, InvalidValueError, MissingFileError, counted
from maxatk.evaluation import Choice, solve
from maxatk.evaluation.scoring import BY_TESTS
from maxatk.evaluation.solve_problem import DRAWN_AT_ONCE
from maxatk.jsonl import read_jsonl
from maxatk.problems import find_problem, load_problems
from maxatk.records import Problem, TestCase
from maxatk.sampling import ModelSettings, SamplingSettings
from maxatk.verifier import VerifierSettings

_RUNNING = ModelSettings(batch_size=DRAWN_AT_ONCE)


@dataclasses.dataclass(frozen=True)
class Drawing(SamplingSettings):
    """How the programs are drawn.

    Args:
        samples: How many programs are drawn at most.
    """

    samples: Annotated[int, tyro.conf.arg(name="n", aliases=["-n"])] = 64


@dataclasses.dataclass(frozen=True)
class Command:
    """Draw programs for one problem, verify them as they come, and print the best.

    The problem is one of --problems (--id says which), or a prompt and its tests in files.

    Example: maxatk solve --model runs/base --problems test.jsonl --id test-00000 -n 64

    Args:
        model: A local model folder, a hub name, or the name a server knows.
        problems: A benchmark's name or a problems.jsonl.
        id: Which of its problems; the only one if not given.
        prompt: A text file with the prompt.
        tests: Its tests, a line each as in problems.jsonl, such as {"input": "2", "output": "4"}.
        entry_point: The function that check tests are given.
        language: What the prompt asks for, such as cpp; Python, if not given.
        drawing: How the programs are drawn, as in eval.
        reward: What rewards a sample, as in eval; the tests, if not given.
        select: Choose without looking at the tests: by likelihood, visible-tests or majority.
        running: How the model is run, as in eval.
        template_arguments: For the chat template, as JSON, such as {"enable_thinking": false}.
        verifier: Its workers and limits.
    """

    model: str
    problems: str | None = None
    id: str | None = None
    prompt: Path | None = None
    tests: Path | None = None
    entry_point: str | None = None
    language: str | None = None
    drawing: Annotated[Drawing, tyro.conf.arg(name="")] = Drawing()
    reward: RewardFlag = "continuous"
    select: str | None = None
    running: Annotated[ModelSettings, tyro.conf.arg(name="")] = _RUNNING
    template_arguments: Annotated[Any, yaml_flag("template_arguments")] = dataclasses.field(
        default_factory=dict
    )
    verifier: VerifierSettings = dataclasses.field(default_factory=VerifierSettings)
    format: OutputFormat = "text"
    progress: ProgressMode = "auto"

    def run(self, _: Sequence[str]) -> None:
        """Do what was asked."""
        refuse_two_outputs(self.format, self.progress)
        problem = _problem(self)
        prompt = dataclasses.replace(
            self.running.prompt, template_arguments=self.template_arguments
        )
        set_threads(self.model)
        with self.verifier.open() as verifier, progress_of("solve", self.progress) as report:
            choice = solve(
                self.model,
                problem,
                n=self.drawing.samples,
                by=self.select or "reward",
                settings=self.drawing,
                model_settings=dataclasses.replace(self.running, prompt=prompt),
                verifier=verifier,
                reward=self.reward,
                progress=report,
            )
        if choice.reward is None:
            reasons = ", ".join(f"{name} ({count})" for name, count in choice.outcomes.items())
            raise DataError(
                f"{problem.id}: none of {counted(len(choice.rewards), 'sample')} has a reward: "
                f"{reasons}"
            )
        emit_facts(choice.to_json(), self.format, text=_text(choice))


def _problem(command: Command) -> Problem:
    by_tests = command.select is None and command.reward == BY_TESTS
    has_prompt = command.prompt is not None
    has_problems = command.problems is not None
    has_tests = command.tests is not None
    tests_without_prompt = has_tests and not has_prompt
    lacks_tests = has_prompt and by_tests and not has_tests
    if has_prompt == has_problems or tests_without_prompt or lacks_tests:
        raise InvalidValueError(
            "solve: give either --problems (and --id) or --prompt and --tests; --select majority "
            "chooses without tests"
        )
    if command.prompt is not None:
        problem = _problem_of_files(command.prompt, command.tests)
        return dataclasses.replace(
            problem, entry_point=command.entry_point, language=command.language
        )
    if command.id is not None:
        return find_problem(str(command.problems), command.id).problem
    problems = load_problems(str(command.problems))
    if len(problems) != 1:
        raise InvalidValueError(
            f"--id: {command.problems} has {counted(len(problems))}; name one of them"
        )
    return problems[0]


def _problem_of_files(prompt: Path, tests: Path | None) -> Problem:
    if not prompt.is_file():
        raise MissingFileError(f"prompt: {str(prompt)!r} does not exist")
    cases = () if tests is None else tuple(read_jsonl(tests, TestCase.from_json))
    return Problem(prompt.stem, read_text(prompt), cases)


def _text(choice: Choice) -> str:
    """Return the best sample as text: what it is worth, itself, and how often each reward came."""
    by_tests = choice.total > 0
    best = choice.program if by_tests else choice.completion
    tests = f"{choice.passed} of {counted(choice.total, 'test')}, " if by_tests else ""
    number = f"sample {(choice.sample or 0) + 1} of {len(choice.rewards)}"
    score = f"{choice.by} {choice.reward:.3f}"
    if choice.by == "majority":
        score = f"majority, {counted(round(choice.reward or 0), 'sample')} with this answer"
    head = f"{choice.problem_id}: {score}, {tests}{number}"
    text = f"{head}\n\n{str(best).rstrip()}"
    if choice.by != "reward":
        return text
    scored = sorted((reward for reward in choice.rewards if reward is not None), reverse=True)
    counts = Counter(f"{reward:.3f}" for reward in scored)
    counts["unscored"] = len(choice.rewards) - len(scored)
    kind = "programs" if by_tests else "samples"
    return f"{text}\n\n{facts_text({'reward': kind, **+counts})}"
