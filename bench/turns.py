"""What a second turn with feedback is worth beside a blind retry, on runs of `maxatk eval`.

A run's samples are first tries, on problems with visible tests. A try that fails them is shown what
the environment `programs` says of it, and the model writes once more. These second turns are drawn
and verified by `maxatk eval` on a file of conversations, RUN-second.jsonl, into RUN-second. A blind
retry is another sample of the same run, which was told nothing. With `--tries` the first tries of
each problem alone are played, since a conversation of its own for each costs more than a sample.

Several runs are those of models that share their problems, such as two seeds of one training: a
value of a problem is the mean over them. The intervals speak of other problems for these models.
Interrupted, it goes on where it was. Another `--tries` needs RUN-second and its file removed.

    python bench/turns.py RUN [RUN ...] [--tries 4] [--ks 1 2 4]
"""

import argparse
import dataclasses
import json
from pathlib import Path

import numpy as np

from maxatk import Problem, Score, Verifier, load_problems, max_at_k
from maxatk.evaluation import EvalRecipe, evaluate
from maxatk.evaluation.blind_retry import VISIBLE_TESTS, retried_max_at_k
from maxatk.evaluation.folder import RESULTS, SAMPLES, SCORES
from maxatk.evaluation.store import read_records
from maxatk.folders import read_json
from maxatk.jsonl import write_jsonl
from maxatk.models import PromptSettings, load_tokenizer
from maxatk.records import Sample
from maxatk.sampling import SamplingSettings
from maxatk.statistics.significance import paired_difference
from maxatk.train import Programs
from maxatk.verifier import VerifierSettings


@dataclasses.dataclass(frozen=True)
class FirstTries:
    """A run of `maxatk eval`: rewards and shares of visible tests that passed, (P, n)."""

    folder: Path
    settings: dict
    problems: list[Problem]
    samples: dict[tuple[str, int], Sample]
    rewards: np.ndarray
    visible: np.ndarray


def read_run(folder):
    """Return the first tries of a folder."""
    manifest = read_json(folder / RESULTS)["manifest"]
    scores = read_records(folder / SCORES, Score)
    by_id = {problem.id: problem for problem in load_problems(manifest["problems_file"])}
    ids = list(dict.fromkeys(problem_id for problem_id, _ in scores))
    count = manifest["settings"]["sampling"]["samples"]
    table = [[scores[problem_id, sample] for sample in range(count)] for problem_id in ids]
    return FirstTries(
        folder=folder,
        settings=manifest["settings"],
        problems=[by_id[problem_id] for problem_id in ids],
        samples=read_records(folder / SAMPLES, Sample),
        rewards=np.array([[score.reward for score in row] for row in table], dtype=float),
        visible=np.array([[score.columns[VISIBLE_TESTS] for score in row] for row in table]),
    )


def failed_tries(run, tries):
    """Yield problem, its place and sample of the first tries that failed a visible test."""
    for place, problem in enumerate(run.problems):
        for sample in np.flatnonzero(run.visible[place, :tries] < 1):
            yield problem, place, int(sample)


def conversations(run, tokenizer, tries):
    """Yield a problem for every try that failed a visible test: its prompt is the whole talk."""
    with Verifier(workers=1) as verifier:
        environment = Programs(turns=2, verifier=verifier)
        for problem, _, sample in failed_tries(run, tries):
            program = run.samples[problem.id, sample].completion
            columns = problem.to_json()
            del columns["id"]
            environment.reset(**columns)
            talk = [
                {"role": "user", "content": problem.prompt},
                {"role": "assistant", "content": program},
                {"role": "user", "content": environment.submit(program)},
            ]
            prompt = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
            yield dataclasses.replace(problem, id=f"{problem.id}#{sample}", prompt=prompt)


def second_rewards(run, tries):
    """Return the rewards of tries after their second turn, (P, tries): one that passed is kept."""
    settings = run.settings
    model = settings["model"]
    problems = run.folder.with_name(f"{run.folder.name}-second.jsonl")
    if not problems.exists():
        talks = conversations(run, load_tokenizer(model["model"]), tries)
        write_jsonl(problems, (talk.to_json() for talk in talks))
    out = run.folder.with_name(f"{run.folder.name}-second")
    sampling = SamplingSettings(**{**settings["sampling"], "samples": 1})
    evaluate(
        EvalRecipe(
            model=model["model"],
            dtype=model["dtype"],
            prompt=PromptSettings(template="none"),  # the template is in the text already
            problems=problems,
            out=out,
            sampling=sampling,
            verifier=VerifierSettings(
                workers=1,
                time_limit=settings["verifier"]["time_limit_s"],
                memory_limit_mb=settings["verifier"]["memory_limit_bytes"] >> 20,
            ),
        )
    )
    scores = read_records(out / SCORES, Score)
    rewards = run.rewards[:, :tries].copy()
    for problem, place, sample in failed_tries(run, tries):
        rewards[place, sample] = scores[f"{problem.id}#{sample}", 0].reward
    return rewards


def ways_of(run, ks, tries):
    """Return max@k of the problems (P, K) for one turn, a blind retry and two turns."""
    second = second_rewards(run, tries)
    return {
        "one turn": max_at_k(run.rewards, ks),
        "blind retry": retried_max_at_k(run.rewards, run.visible, ks),
        "two turns": max_at_k(second, ks),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--tries", type=int, help="of each problem that are played; by default all")
    parser.add_argument("--ks", nargs="+", type=int, default=[1, 2, 4])
    arguments = parser.parse_args()
    runs = [read_run(folder) for folder in arguments.runs]
    of_runs = [ways_of(run, arguments.ks, arguments.tries) for run in runs]
    values = {way: np.mean([of_run[way] for of_run in of_runs], axis=0) for way in of_runs[0]}
    print(json.dumps({"runs": len(of_runs), "problems": len(values["one turn"])}))
    for way, of_problems in values.items():
        means = "  ".join(f"{value:.3f}" for value in of_problems.mean(axis=0))
        print(f"{way:24s}", means)
    difference = paired_difference(values["two turns"], values["blind retry"])
    for k, mean, low, high in zip(
        arguments.ks, difference.mean, difference.low, difference.high, strict=True
    ):
        print(f"two turns - blind retry at {k}: {mean:+.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
