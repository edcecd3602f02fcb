import math

import pytest

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.external_rewards import score_rewards
from maxatk.evaluation.problem_selection import select_problems
from maxatk.evaluation.results import read_results
from maxatk.evaluation.selection_note import selection_note
from maxatk.jsonl import read_jsonl, write_jsonl
from maxatk.records import Problem, TestCase
from maxatk.verifier import Verifier
from runs import scored, write_records

PASSES = "print(input())"
FAILS = "print('no')"
HALF = "print(1)"
PROGRAMS = {  # rewards 0, 0 | 0, 1 | 1, 1 | 0.5, 0.5
    "none": [FAILS, FAILS],
    "some": [FAILS, PASSES],
    "all": [PASSES, PASSES],
    "half": [HALF, HALF],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    tests = (TestCase(input="1\n", output="1\n"), TestCase(input="2\n", output="2\n"))
    write_records(folder / "problems.jsonl", (Problem(p, "", tests) for p in PROGRAMS))
    rows = [
        {"problem_id": problem, "sample": i, "completion": program, "finish_reason": reason}
        for problem, programs in PROGRAMS.items()
        for i, (program, reason) in enumerate(zip(programs, ("stop", "length"), strict=True))
    ]
    write_jsonl(folder / "samples.jsonl", rows)
    with Verifier(workers=1) as verifier:
        scored(
            folder / "samples.jsonl", folder / "problems.jsonl", folder / "out", verifier=verifier
        )
    return folder


def chosen(run, **settings):
    return [problem.id for problem in select_problems(run / "out", **settings)]


def test_problems_strictly_between_the_bounds_are_kept_in_their_order(run):
    assert chosen(run) == ["some", "half"]
    assert chosen(run, k=2) == ["half"]
    assert chosen(run, above=0.5) == []
    assert chosen(run, above=0.25, below=0.75) == ["some", "half"]


def test_the_problems_of_a_run_may_be_in_a_table_with_a_mapping(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("name,question,gold\na,1+1=,2\nb,1+2=,3\n")
    rewards = [
        {"problem_id": problem, "sample": sample, "reward": reward}
        for problem, of_problem in {"a": (0.0, 1.0), "b": (1.0, 1.0)}.items()
        for sample, reward in enumerate(of_problem)
    ]
    write_jsonl(tmp_path / "rewards.jsonl", rewards)
    score_rewards(tmp_path / "rewards.jsonl", tmp_path / "out")
    mapping = {"id": "name", "prompt": "question", "answer": "gold"}
    (problem,) = select_problems(tmp_path / "out", table, mapping=mapping)
    assert (problem.id, problem.prompt, problem.answer) == ("a", "1+1=", "2")
    with pytest.raises(InvalidValueError, match="--map prompt=COLUMN"):
        select_problems(tmp_path / "out", table)


def test_without_a_lower_bound_problems_that_were_never_solved_are_kept(run):
    problems = select_problems(run / "out", above=None, below=0.5)
    assert [problem.id for problem in problems] == ["none"]
    rule = f"max@1 < 0.5 of 2 samples of {run / 'out'}"
    assert problems[0].meta == {"selected_by": rule}
    assert "handicap it where it solved none" in selection_note([problems[0].meta])


def test_every_chosen_problem_says_by_which_model_and_how_it_was_chosen(run):
    problems = select_problems(run / "out", k=1)
    rule = f"0 < max@1 < 1 of 2 samples of {run / 'out'}"
    assert [problem.meta for problem in problems] == [{"selected_by": rule}] * 2
    note = selection_note(problem.meta for problem in problems)
    assert note.startswith(f"problems chosen by a model's own rewards ({rule})")
    assert selection_note([{}, {"level": 1}]) is None
    assert selection_note(None) is None


def test_a_second_selection_is_written_behind_the_first(run, tmp_path):
    first = select_problems(run / "out")
    write_records(tmp_path / "some.jsonl", first)
    rows = [row for row in read_jsonl(run / "samples.jsonl", dict) if row["problem_id"] != "none"]
    rows = [row for row in rows if row["problem_id"] != "all"]
    write_jsonl(tmp_path / "samples.jsonl", rows)
    with Verifier(workers=1) as verifier:
        files = (tmp_path / "samples.jsonl", tmp_path / "some.jsonl", tmp_path / "out")
        scored(*files, verifier=verifier)
    (problem,) = select_problems(tmp_path / "out", k=2)
    earlier, later = problem.meta["selected_by"].split("; ")
    assert earlier == first[0].meta["selected_by"]
    assert later == f"0 < max@2 < 1 of 2 samples of {tmp_path / 'out'}"
    # Results carry the record, so that whatever compares runs can say it.
    results = read_results(tmp_path / "out" / "results.json")
    assert earlier in selection_note(results.per_problem.meta)


def test_samples_cut_off_by_length_are_counted(run):
    results = read_results(run / "out" / "results.json")
    assert results.finish_reasons == {"length": 4, "stop": 4}


def test_rewards_beyond_0_and_1_are_chosen_by_bounds_of_their_own(tmp_path, caplog):
    rewards = {"bad": [-2, -1], "mixed": [-1, 1], "good": [1.1, 1.2], "best": [2, 2]}
    problems = [Problem(name, "do").to_json() for name in rewards]
    write_jsonl(tmp_path / "problems.jsonl", problems)
    rows = [
        {"problem_id": name, "reward": reward}
        for name, of_problem in rewards.items()
        for reward in of_problem
    ]
    write_jsonl(tmp_path / "rewards.jsonl", rows)
    score_rewards(tmp_path / "rewards.jsonl", tmp_path / "out")
    chosen_ids = [
        problem.id
        for problem in select_problems(
            tmp_path / "out", tmp_path / "problems.jsonl", above=-1.5, below=2.0
        )
    ]
    assert chosen_ids == ["mixed", "good"]
    assert not caplog.messages
    assert select_problems(tmp_path / "out", tmp_path / "problems.jsonl") == []
    (message,) = caplog.messages  # since "mixed", with a mean of 0, has a signal
    assert "rewards lie from -2 to 2, and the bounds 0 and 1 suit rewards from 0 to 1" in message


def test_other_problems_and_bounds_that_nothing_lies_between_are_refused(run, tmp_path):
    with pytest.raises(InvalidValueError, match=r"min < max, got \(0\.5, 0\.5\)"):
        chosen(run, above=0.5, below=0.5)
    with pytest.raises(InvalidValueError, match="above: must be a finite number, or None, got nan"):
        chosen(run, above=math.nan)
    with pytest.raises(InvalidValueError, match="below: must be a finite number, got inf"):
        chosen(run, below=math.inf)
    with pytest.raises(InvalidValueError, match="got 3"):
        chosen(run, k=3)
    rows = list(read_jsonl(run / "problems.jsonl", dict))
    write_jsonl(tmp_path / "other.jsonl", [{**row, "prompt": "another"} for row in rows])
    with pytest.raises(DataError, match="their ids are, and their prompts, tests or order"):
        chosen(run, problems=tmp_path / "other.jsonl")
    write_jsonl(tmp_path / "fewer.jsonl", rows[1:])
    with pytest.raises(DataError, match="they lack 1, such as 'none'"):
        chosen(run, problems=tmp_path / "fewer.jsonl")
    with pytest.raises(MissingFileError):
        select_problems(tmp_path / "nowhere")


def test_a_run_of_rewards_that_were_there_chooses_too(maxatk, run, tmp_path):
    values = {"none": (0, 0), "some": (0, 1), "all": (1, 1), "half": (0.5, 0.5)}
    rows = [f"{p},{i},{value}" for p in values for i, value in enumerate(values[p])]
    (tmp_path / "rewards.csv").write_text("\n".join(["problem_id,sample,reward", *rows, ""]))
    assert maxatk("score", "--rewards", "rewards.csv", "--out", "rewarded").returncode == 0
    command = ("problems", "select", "rewarded", "--out", "train.jsonl")
    done = maxatk(*command, "--problems", run / "problems.jsonl")
    assert (done.returncode, done.stdout) == (0, "train.jsonl: 2 problems\n"), done.stderr
    assert [row["id"] for row in read_jsonl(tmp_path / "train.jsonl", dict)] == ["some", "half"]
    assert "name their file" in maxatk(*command).stderr


def test_the_command_writes_the_problems_and_says_how_many(maxatk, run, tmp_path):
    files = ("--problems", run / "problems.jsonl", "--samples", run / "samples.jsonl")
    scored = maxatk("score", *files, "--out", "scored", "--verifier.workers", 1)
    assert scored.returncode == 0, scored.stderr
    done = maxatk("problems", "select", "scored", "--out", "train.jsonl")
    assert (done.returncode, done.stdout) == (0, "train.jsonl: 2 problems\n"), done.stderr
    assert "These problems are for training" in done.stderr
    ids = [row["id"] for row in read_jsonl(tmp_path / "train.jsonl", dict)]
    assert ids == ["some", "half"]
    none = maxatk("problems", "select", run / "out", "--out", "x.jsonl", "--min-max-at-k", "0.9")
    assert none.returncode != 0
    assert "no problem has a max@1 between the bounds" in none.stderr
    assert not (tmp_path / "x.jsonl").exists()


def test_the_problems_of_the_run_are_not_written_over(maxatk, run):
    before = (run / "problems.jsonl").read_text()
    done = maxatk("problems", "select", run / "out", "--out", run / "problems.jsonl")
    assert done.returncode == 2
    assert "problems.jsonl' is read, and would be lost" in done.stderr
    assert (run / "problems.jsonl").read_text() == before
