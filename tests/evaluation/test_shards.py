"""A run in shards, merged, is byte for byte the run of one machine."""

import json
import random
import shutil

import pytest

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation import merge
from maxatk.evaluation.results import read_results
from maxatk.records import Problem, Sample, TestCase
from maxatk.sampling import ModelSettings, SamplingSettings, load_backend
from runs import evaluated, rows_of, scored, write_records, write_samples

PROBLEMS = [
    Problem(
        f"p{i}",
        "print(1)\n" * (1 + i % 4),
        (TestCase(input="", output=f"{1 + i % 2}\n"),),
        meta={"level": i % 3} if i % 2 else {},
    )
    for i in range(7)
]
SETTINGS = SamplingSettings(samples=4, max_new_tokens=4, seed=1)
EXACT = ("samples.jsonl", "failures.jsonl", "prompts.jsonl")


@pytest.fixture(scope="module")
def run(tiny_model, verifier):
    running = ModelSettings(device="cpu", batch_size=4)
    backend = load_backend(str(tiny_model), running)

    def evaluate_into(out, problems=PROBLEMS, settings=SETTINGS, **keys):
        return evaluated(
            *(tiny_model, problems, out),
            settings=settings,
            verifier=verifier,
            model_settings=running,
            backend=backend,
            **keys,
        )

    return evaluate_into


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    run(out, by="level", k=(3,))
    return out


def in_shards(run, out, of, **keys):
    for number in random.Random(of).sample(range(1, of + 1), of):  # in any order
        run(out, shard=f"{number}/{of}", **keys)


def without_times(folder):
    """Return what else a run has, without measured times and the machine."""
    scores = rows_of(folder / "scores.jsonl")
    for row in scores:
        del row["seconds"]
    results = json.loads((folder / "results.json").read_text())
    for measured in ("seconds", "samples_found", "environment"):
        results["manifest"].pop(measured, None)
    manifest = json.loads((folder / "manifest.json").read_text())
    return scores, results, manifest["settings"]


def assert_same_run(folder, other):
    for name in EXACT:
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name
    assert without_times(folder) == without_times(other)


@pytest.mark.parametrize("of", [1, 2, 3, 5, 7])
def test_merged_shards_are_the_run_of_one_machine(run, whole, tmp_path, of):
    in_shards(run, tmp_path / "run", of, by="level", k=(3,))
    reports = []
    merge(tmp_path / "run", progress=lambda done, total: reports.append((done, total)))
    assert_same_run(tmp_path / "run", whole)
    assert reports[-1] == (28, 28)
    before = {name: (tmp_path / "run" / name).read_bytes() for name in (*EXACT, "results.json")}
    merge(tmp_path / "run")
    assert before == {name: (tmp_path / "run" / name).read_bytes() for name in before}


def test_shards_without_a_recorded_threshold_pass_from_1_as_one_run_does(run, whole, tmp_path):
    in_shards(run, tmp_path / "run", 2, by="level", k=(3,))
    for shard in ("1-of-2", "2-of-2"):
        path = tmp_path / "run" / shard / "results.json"
        row = json.loads(path.read_text())
        del row["threshold"]
        path.write_text(json.dumps(row))
    merged = merge(tmp_path / "run")
    assert merged.metrics == read_results(whole / "results.json").metrics


def test_a_merged_run_grows_like_that_of_one_machine(run, whole, tmp_path):
    in_shards(run, tmp_path / "run", 2, by="level", k=(3,))
    merge(tmp_path / "run")
    shutil.copytree(whole, tmp_path / "whole")
    more = SamplingSettings(samples=6, max_new_tokens=4, seed=1)
    for out in ("run", "whole"):
        run(tmp_path / out, settings=more, by="level", k=(3,))
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    with pytest.raises(InvalidValueError, match=r"samples.jsonl: has 14 lines that the shards"):
        merge(tmp_path / "run")


def test_shards_grow_by_samples_one_after_the_other(run, tmp_path):
    more = SamplingSettings(samples=6, max_new_tokens=4, seed=1)
    in_shards(run, tmp_path / "run", 2)
    run(tmp_path / "run", settings=more, shard="2/2")
    with pytest.raises(InvalidValueError, match=r"sampling.samples: 4 in the folder, 6 now"):
        merge(tmp_path / "run")
    run(tmp_path / "run", settings=more, shard="1/2")
    assert merge(tmp_path / "run").counts.samples == 42


def test_other_settings_are_refused_before_any_work(run, tmp_path):
    run(tmp_path / "run", shard="1/3")
    other = SamplingSettings(samples=4, max_new_tokens=4, seed=2)
    with pytest.raises(InvalidValueError, match=r"1-of-3: .*\n  sampling.seed: 1 in"):
        run(tmp_path / "run", settings=other, shard="2/3")
    with pytest.raises(InvalidValueError, match="shards of 3"):
        run(tmp_path / "run", shard="1/2")
    with pytest.raises(InvalidValueError, match=r"problems.count: 7 in"):
        run(tmp_path / "run", problems=PROBLEMS[:6], shard="2/3")
    with pytest.raises(InvalidValueError, match="shard: '1/3' in the folder, None now"):
        run(tmp_path / "run" / "1-of-3")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["1-of-3"]


def test_shards_that_were_changed_afterwards_are_refused(run, tmp_path):
    in_shards(run, tmp_path / "run", 2)
    manifest = tmp_path / "run/2-of-2/manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 1', '"seed": 2'))
    with pytest.raises(InvalidValueError, match=r"sampling.seed"):
        merge(tmp_path / "run")
    assert not (tmp_path / "run/samples.jsonl").exists()


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ("0/3", "shard: must be a number of"),
        ("4/3", "shard: must be a number of"),
        ("1", "shard: must be a number of"),
        ("1/3/5", "shard: must be a number of"),
        ("-1/3", "shard: must be a number of"),
        ("1/8", "one of 7 at most"),
    ],
)
def test_a_shard_that_cannot_be_is_refused(run, tmp_path, shard, message):
    with pytest.raises(InvalidValueError, match=message):
        run(tmp_path / "run", shard=shard)
    assert not (tmp_path / "run").exists()


def test_what_lacks_is_counted_and_nothing_written(run, tmp_path):
    with pytest.raises(MissingFileError, match="holds no shard"):
        merge(tmp_path / "run")
    run(tmp_path / "run", shard="1/4")
    run(tmp_path / "run", shard="3/4")
    run(tmp_path / "run", shard="4/4")
    scores = tmp_path / "run/3-of-4/scores.jsonl"
    scores.write_text("".join(scores.read_text().splitlines(keepends=True)[:5]))
    (tmp_path / "run/4-of-4/results.json").unlink()
    with pytest.raises(DataError) as refusal:
        merge(tmp_path / "run")
    assert str(refusal.value).splitlines()[1:] == [
        "  2/4: not begun",
        "  3/4: 3 of 8 samples without a score",
        "  4/4: the results are not written",
    ]
    assert not (tmp_path / "run/scores.jsonl").exists()


def test_a_corrupt_line_of_a_shard_is_named(run, tmp_path):
    in_shards(run, tmp_path / "run", 2)
    path = tmp_path / "run/2-of-2/samples.jsonl"
    path.write_text(path.read_text().replace('"sample": 1', '"sample": "x"', 1))
    with pytest.raises(DataError, match=r"2-of-2/samples.jsonl:2"):
        merge(tmp_path / "run")
    assert not (tmp_path / "run/scores.jsonl").exists()


def programs(problem, count):
    draw = random.Random(problem.id)
    return [f"print({draw.randint(1, 2)})" for _ in range(count)]


@pytest.mark.parametrize("order", ["by problem", "by sample", "shuffled"])
def test_shards_of_a_file_are_merged_in_the_order_of_the_file(tmp_path, verifier, order):
    samples = [
        Sample(problem.id, i, text, tokens=3, finish_reason="stop", entropy=0.1 * i + 0.03)
        for problem in PROBLEMS
        for i, text in enumerate(programs(problem, 5))
    ]
    if order == "by sample":
        samples.sort(key=lambda sample: sample.sample)
    elif order == "shuffled":
        random.Random(0).shuffle(samples)
    file = write_records(tmp_path / "given.jsonl", samples)
    scored(file, PROBLEMS, tmp_path / "whole", verifier=verifier, by="level")
    for number in (3, 1, 2):
        out = tmp_path / "run"
        scored(file, PROBLEMS, out, verifier=verifier, by="level", shard=f"{number}/3")
    merge(tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    assert (tmp_path / "run/samples.jsonl").read_bytes() == file.read_bytes()


def test_the_k_of_a_shard_is_bounded_by_all_problems(tmp_path, verifier):
    texts = {problem.id: programs(problem, 2 if i else 1) for i, problem in enumerate(PROBLEMS)}
    file = write_samples(tmp_path / "given.jsonl", texts)
    with pytest.raises(InvalidValueError, match="k"):
        scored(file, PROBLEMS, tmp_path / "run", verifier=verifier, k=(2,), shard="2/2")
    for number in (1, 2):
        scored(file, PROBLEMS, tmp_path / "run", verifier=verifier, shard=f"{number}/2")
    scored(file, PROBLEMS, tmp_path / "whole", verifier=verifier)
    merge(tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("name", ["manifest.json", "results.json", "prompts.jsonl"])
def test_no_file_of_others_beside_the_shards_is_lost(tmp_path, verifier, name):
    file = write_samples(tmp_path / "given.jsonl", {p.id: programs(p, 2) for p in PROBLEMS})
    for number in (1, 2):
        scored(file, PROBLEMS, tmp_path / "run", verifier=verifier, shard=f"{number}/2")
    (tmp_path / "run" / name).write_text('{"name": "a page"}\n')
    with pytest.raises(InvalidValueError, match=f"out: .* has {name} beside the shards"):
        merge(tmp_path / "run")
    assert (tmp_path / "run" / name).read_text() == '{"name": "a page"}\n'
    (tmp_path / "run" / name).unlink()
    assert merge(tmp_path / "run").counts.samples == 14
    assert merge(tmp_path / "run").counts.samples == 14  # over its own files


def test_merging_computes_the_k_that_it_is_asked_for(maxatk, tmp_path, verifier):
    file = write_samples(tmp_path / "given.jsonl", {p.id: programs(p, 4) for p in PROBLEMS})
    for number in (1, 2):
        scored(file, PROBLEMS, tmp_path / "run", verifier=verifier, shard=f"{number}/2")
    refused = maxatk("merge", "run", "--k", "5")
    assert refused.stderr.endswith(
        "k: must be an integer from 1 to the 4 samples of a problem, got 5\n"
    )
    assert not (tmp_path / "run" / "results.json").exists()
    merged = maxatk("merge", "run", "--k", "3", "--format", "json")
    assert merged.returncode == 0, merged.stderr
    assert {row["k"] for row in json.loads(merged.stdout)["metrics"]} == {3}
    scored(file, PROBLEMS, tmp_path / "whole", verifier=verifier, k=(3,))
    assert_same_run(tmp_path / "run", tmp_path / "whole")
