import json
import re

from problems.rows import mbpp_row


def write_rows(path, *rows):
    path.write_text("\n".join(map(json.dumps, rows)))


def test_a_benchmarks_reference_solutions_from_rows_to_a_page(maxatk, tmp_path):
    write_rows(
        tmp_path / "rows.jsonl",
        mbpp_row(1),
        mbpp_row(2, tests=["assert add_all([1], 2) == [3]", "assert add_all([1], 2) == [4]"]),
        mbpp_row(3, tests=["assert add_all(x, 2) == [3]"]),
    )
    made = maxatk(
        *("problems", "prepare", "mbpp", "--file", "rows.jsonl"),
        *("--out", "mbpp.jsonl"),
    )
    assert made.returncode == 0, made.stderr
    assert "rows left out, by reason" in made.stdout
    assert re.search(r"mbpp +│ an assert is not of the form: f\(literals\)", made.stdout)
    for file, lines in {"mbpp": 2, "mbpp.solutions": 2, "mbpp.left_out": 1}.items():
        assert re.search(rf"│ {file}\.jsonl +│ {lines} +│", made.stdout)
    checked = maxatk("problems", "check", "mbpp.jsonl")
    assert re.search(r"mbpp\.jsonl +│ 1 +│ 1 +│ 0 +│ 0 +│", checked.stdout)
    assert "wrong_answer" in checked.stdout
    score = (
        "score",
        "--samples",
        "mbpp.solutions.jsonl",
        "--problems",
        "mbpp.jsonl",
        "--out",
        "scored",
    )
    scored = maxatk(*score)
    assert scored.returncode == 0, scored.stderr
    assert "max@1" in scored.stdout
    results = json.loads((tmp_path / "scored" / "results.json").read_text())
    assert results["per_problem"]["ids"] == ["mbpp/1", "mbpp/2"]
    assert results["per_problem"]["max@k"]["1"] == [1.0, 0.5]
    assert results["per_problem"]["pass@k"]["1"] == [1.0, 0.0]
    page = maxatk("report", "solutions=scored", "--out", "page.html", "--title", "Our own rows")
    assert page.returncode == 0, page.stderr
    assert "Our own rows" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "page-figure1.svg").read_text().lstrip().startswith("<")


def test_a_finished_score_is_not_verified_again(maxatk, scoring, tmp_path):
    first = maxatk(*scoring("print(4)"))
    scores = (tmp_path / "score" / "scores.jsonl").read_bytes()
    again = maxatk(*scoring("print(4)"))
    assert (first.returncode, again.returncode) == (0, 0)
    assert again.stdout.splitlines()[:-1] == first.stdout.splitlines()[:-1]
    assert again.stdout.endswith("1 found from before\n")
    assert (tmp_path / "score" / "scores.jsonl").read_bytes() == scores


def test_files_that_score_cannot_read_are_named_with_the_line(maxatk, scoring, tmp_path):
    arguments = scoring("print(4)")
    samples = tmp_path / "score-samples.jsonl"
    samples.write_text(samples.read_text() + "{}\n")
    done = maxatk(*arguments)
    assert done.returncode == 2
    assert f"{samples}:2: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "score").exists()
    samples.unlink()
    assert f"{samples}: no such file" in maxatk(*arguments).stderr
