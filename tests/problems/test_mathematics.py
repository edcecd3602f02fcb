"""Questions with one answer: the rows of GSM8K, MATH-500 and AIME, and any other table."""

import json

import pytest

from maxatk import load_problems
from maxatk.errors import DataError, InvalidValueError
from maxatk.jsonl import write_jsonl
from maxatk.rewards.answers import AnswerReward
from problems.rows import GSM8K, MATHEMATICS


def loaded(name, rows, tmp_path, **options):
    write_jsonl(tmp_path / "rows.jsonl", rows)
    return load_problems(name, file=tmp_path / "rows.jsonl", options=options)


@pytest.mark.parametrize(
    "name, id, answer",
    [
        ("gsm8k", None, "1176"),
        ("math_500", "math_500/algebra/7", "\\frac{2}{3}"),
        ("aime24", "aime24/60", "25"),
        ("aime25", "aime25/0", "70"),
    ],
)
def test_a_row_becomes_a_question_with_its_answer(tmp_path, name, id, answer):
    (problem,) = loaded(name, [MATHEMATICS[name]], tmp_path)
    assert problem.answer == answer
    assert problem.id == id or problem.id.startswith("gsm8k/")
    assert "\\boxed{}" in problem.prompt
    assert problem.meta == ({"subject": "Algebra", "level": 2} if name == "math_500" else {})
    (plain,) = loaded(name, [MATHEMATICS[name]], tmp_path, prompt_style="plain")
    assert plain.prompt.endswith("\nSolution:")


def test_reference_solutions_have_the_answer_and_no_notes_for_a_calculator(maxatk, tmp_path):
    pytest.importorskip("math_verify")
    for name in ("gsm8k", "math_500", "aime24"):
        write_jsonl(tmp_path / "rows.jsonl", [MATHEMATICS[name]])
        done = maxatk("problems", "prepare", name, "--file", "rows.jsonl", "--out", f"{name}.jsonl")
        assert done.returncode == 0, done.stderr
        answer = json.loads((tmp_path / f"{name}.jsonl").read_text())["answer"]
        solution = json.loads((tmp_path / f"{name}.solutions.jsonl").read_text())["completion"]
        assert "<<" not in solution
        assert AnswerReward()(completions=[solution, "\\boxed{3}"], answer=[answer] * 2) == [1, 0]


def test_a_row_of_gsm8k_without_its_mark_is_left_out(tmp_path):
    assert loaded("gsm8k", [{**GSM8K, "answer": "1176"}], tmp_path) == []


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv"])
def test_any_table_is_read_by_the_names_of_its_columns(maxatk, tmp_path, ending):
    row = {"question": "1, 2 and 3?", "gold": 6, "level": "easy"}
    if ending == "jsonl":
        write_jsonl(tmp_path / "t.jsonl", [row])
    else:
        mark = "," if ending == "csv" else "\t"
        cells = ['"1, 2 and 3?"', "6", "easy"]
        (tmp_path / f"t.{ending}").write_text(f"{mark.join(row)}\n{mark.join(cells)}\n")
    command = ("problems", "prepare", "table", "--file", f"t.{ending}", "--out", "p.jsonl")
    done = maxatk(*command, "--map", "prompt=question", "answer=gold")
    assert done.returncode == 0, done.stderr
    (problem,) = load_problems(tmp_path / "p.jsonl")
    assert (problem.prompt, problem.answer) == ("1, 2 and 3?", "6")
    assert problem.meta == {"level": "easy"}


def test_a_conversation_of_one_user_is_a_prompt_and_a_longer_one_is_left_out(tmp_path):
    system = {"role": "system", "content": "Be brief."}
    user = {"role": "user", "content": "1 + 1?"}
    rows = [
        {"id": n, "prompt": turns, "answer": "2"}
        for n, turns in enumerate([[user], [system, user], [user, system, user]])
    ]
    problems = loaded("table", rows, tmp_path, id="id", instruct=True)
    assert [problem.id for problem in problems] == ["0", "1"]
    assert problems[1].prompt.endswith("\n\nBe brief.\n\n1 + 1?\n")


def test_a_row_of_a_table_without_an_answer_is_left_out(tmp_path):
    rows = [{"prompt": f"{answer}?", "answer": answer} for answer in (None, "", 0, "3")]
    assert [problem.answer for problem in loaded("table", rows, tmp_path)] == ["0", "3"]
    with pytest.raises(DataError, match="a row of a table is wanted"):
        loaded("table", [{"prompt": 1, "answer": 2}], tmp_path)


def test_a_table_needs_a_file_or_a_data_set():
    with pytest.raises(InvalidValueError, match="table: needs options\\.hub, a data set"):
        load_problems("table")


def test_verl_gets_the_answer_and_scores_it(tmp_path):
    pytest.importorskip("math_verify")
    parquet = pytest.importorskip("pyarrow.parquet")
    from maxatk.rewards import compute_answer_score
    from maxatk.verl.dataset import write_parquet

    problems = loaded("gsm8k", [GSM8K], tmp_path)
    assert write_parquet(problems, tmp_path / "p.parquet") == 1
    (row,) = parquet.read_table(tmp_path / "p.parquet").to_pylist()
    truth = row["reward_model"]["ground_truth"]
    assert (row["ability"], truth) == ("math", "1176")
    scores = [
        compute_answer_score("gsm8k", text, truth) for text in ("so \\boxed{1176}", "it is 3")
    ]
    assert scores == [{"score": 1.0, "unscored": 0.0}, {"score": 0.0, "unscored": 0.0}]
