import dataclasses
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.load import load_results, passing_reward, results_of_folder
from maxatk.jsonl import write_jsonl
from maxatk.records import Outcome, Sample, Score
from runs import write_records, write_run

TRICKY = ['", "tokens": 3', ', "completion": "', "\\", '\\"', '", ', "\u2028", "\ud800", "é\n\t"]
texts = st.sampled_from(TRICKY) | st.text(max_size=5)
samples_of_a_problem = st.lists(
    st.tuples(texts, st.none() | st.integers(1, 9), st.none() | st.floats(0, 3)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60)
@given(st.lists(samples_of_a_problem, min_size=1, max_size=3))
def test_the_files_give_what_the_records_give(tmp_path_factory, problems):
    folder = tmp_path_factory.mktemp("run")
    samples = []
    scores = []
    for number, drawn in enumerate(problems):
        for index, (text, tokens, entropy) in enumerate(drawn):
            key = (f"p{number}", index)
            samples.append(Sample(*key, text, tokens=tokens, entropy=entropy))
            program = None if number == 2 else f"{len(text)}"
            scores.append(Score(*key, len(text) % 2, 0, 1, Outcome.PASSED, 0.0, program))
    results = write_run(folder, scores, samples)
    (folder / "results.json").unlink()
    assert results_of_folder(folder) == results


def scored(folder, *rewards):
    scores = (Score("p", i, r, 0, 1, Outcome.PASSED, 0.0) for i, r in enumerate(rewards))
    write_records(folder / "scores.jsonl", scores)
    return folder


def test_without_samples_their_statistics_are_unknown(tmp_path):
    results = results_of_folder(scored(tmp_path, 1.0, 0.0))
    assert results.metrics["max@k"][1].mean == 0.5
    assert results.entropy is results.diversity.distinct is None
    samples = [Sample("p", i, "same").to_json() for i in range(2)]
    write_jsonl(tmp_path / "samples.jsonl", samples)
    assert results_of_folder(tmp_path).diversity.distinct == 1


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [5, 1_000_000, 0]])
def test_a_score_that_occurs_twice_is_refused_in_any_order(tmp_path, order):
    rows = [Score("p", i, 0.5, 0, 1, Outcome.PASSED, 0.0).to_json() for i in order]
    write_jsonl(tmp_path / "scores.jsonl", rows)
    assert results_of_folder(tmp_path).counts.samples == 3
    for row in rows:
        write_jsonl(tmp_path / "scores.jsonl", [*rows, row])
        message = rf"scores.jsonl:4: sample {row['sample']} of 'p' occurs twice"
        with pytest.raises(DataError, match=message):
            results_of_folder(tmp_path)


def test_the_manifest_is_that_of_the_folder(tmp_path):
    scored(tmp_path, 1.0)
    (tmp_path / "manifest.json").write_text('{"settings": {"x": 1}}')
    assert results_of_folder(tmp_path).manifest == {"settings": {"x": 1}}
    results = dataclasses.replace(results_of_folder(tmp_path), manifest={"seconds": 2})
    (tmp_path / "results.json").write_text(json.dumps(results.to_json()))
    assert results_of_folder(tmp_path).manifest == {"seconds": 2}


@pytest.mark.parametrize(
    ("manifest", "passes_from", "at_1"),
    [({"threshold": 0.5}, 0.5, 1.0), ({"threshold": "x"}, 1.0, 0.0), ({}, 1.0, 0.0)],
)
def test_a_run_without_results_has_the_threshold_of_its_manifest(
    tmp_path, manifest, passes_from, at_1
):
    scored(tmp_path, 0.7)
    (tmp_path / "manifest.json").write_text(json.dumps({"settings": {}, **manifest}))
    assert passing_reward(tmp_path) == passes_from
    results = results_of_folder(tmp_path)
    assert results.passes_from == passes_from
    assert results.metrics["pass@k"][1].mean == at_1
    assert results_of_folder(tmp_path, threshold=0.9).metrics["pass@k"][1].mean == 0.0


def test_the_reward_and_the_threshold_stay_those_of_the_run_at_every_k(maxatk, tmp_path):
    rows = [
        {"problem_id": problem, "reward": reward, "judge": 1 - reward / 2}
        for problem, reward in itertools.product("pq", (0.0, 0.2, 0.9, 1.0))
    ]
    write_jsonl(tmp_path / "rewards.jsonl", rows)
    done = maxatk(
        *("score", "--rewards", "rewards.jsonl", "--out", "judged"),
        *("--column", "judge", "--threshold", "0.6"),
    )
    assert done.returncode == 0, done.stderr
    written = load_results(tmp_path / "judged")
    assert written.metrics["max@k"][4].mean == 1.0
    assert written.metrics["pass@k"][1].mean == 0.5
    further = load_results(tmp_path / "judged", ks=[3])
    for results in (further, results_of_folder(tmp_path / "judged")):
        assert (results.column, results.threshold) == ("judge", 0.6)
        for metric, by_k in written.metrics.items():
            assert by_k.items() <= results.metrics[metric].items()
    stricter = load_results(tmp_path / "judged", threshold=0.95)
    assert stricter.metrics["max@k"] == written.metrics["max@k"]
    assert stricter.metrics["pass@k"][1].mean == 0.25
    shown = maxatk("compare", "a=judged", "b=judged", "--k", "3", "--format", "json")
    scores = json.loads(shown.stdout)["scores"]
    assert {row["mean"] for row in scores} == {further.metrics["max@k"][3].mean}


def test_what_cannot_be_summarised_is_refused(tmp_path):
    with pytest.raises(MissingFileError, match=r"scores\.jsonl: no such file"):
        results_of_folder(tmp_path)
    (tmp_path / "scores.jsonl").write_text("")
    with pytest.raises(DataError, match="holds no scores"):
        results_of_folder(tmp_path)
    scored(tmp_path, 1.0, 0.0)
    with pytest.raises(InvalidValueError, match="from 1 to the 2 samples"):
        results_of_folder(tmp_path, ks=[3])
    with pytest.raises(InvalidValueError, match=r"there is none 'acc'; .* have rewards alone"):
        results_of_folder(tmp_path, column="acc")
    (tmp_path / "samples.jsonl").write_text('{"problem_id": "p", "sample": 0}\n')
    with pytest.raises(DataError, match=r"samples\.jsonl:1: .*missing field 'completion'"):
        results_of_folder(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"outcome": "great"}, r"score\.outcome: got 'great'; allowed: passed, wrong_answer"),
        ({"seconds": None}, "missing field 'seconds'"),
        ({"sample": 0}, "sample 0 of 'p' occurs twice"),
    ],
)
def test_a_bad_score_is_refused_with_its_line(tmp_path, changed, message):
    row = {**Score("p", 1, 1.0, 1, 1, Outcome.PASSED, 0.0).to_json(), **changed}
    bad = {name: value for name, value in row.items() if value is not None}
    rows = [Score("p", i, 1.0, 1, 1, Outcome.PASSED, 0.0).to_json() for i in (0, 2)]
    write_jsonl(tmp_path / "scores.jsonl", [*rows, bad])
    with pytest.raises(DataError, match=rf"scores\.jsonl:3: .*{message}"):
        results_of_folder(tmp_path)
