import json
import random
import shutil
import threading
from dataclasses import replace

import pytest

from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.evaluation.results import read_results
from maxatk.evaluation.selection_gains import selection_gains
from maxatk.evaluation.submissions import program_key
from maxatk.jsonl import write_jsonl
from maxatk.objectives import pass_at_k
from maxatk.report.load_runs import load_comparison
from maxatk.report.problem_details import problem_details
from maxatk.sampling import ModelSettings, SamplingSettings
from maxatk.verifier import Verifier
from runs import evaluated, rows_of, scored

SETTINGS = SamplingSettings(max_new_tokens=4, samples=12)
UNSTEADY = ("seconds", "samples_found")


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1) as verifier:
        yield verifier


@pytest.fixture(scope="module")
def finished(tiny_model, problems, verifier, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    run(tiny_model, problems, out, verifier)
    return out


def run(model, problems, out, verifier, *, batch_size=5, **changes):
    defaults = {"settings": SETTINGS, "model_settings": ModelSettings(batch_size=batch_size)}
    return evaluated(model, problems, out, verifier=verifier, **{**defaults, **changes})


def steady_files(out):
    """The files of a run without what differs from run to run: times."""
    scores = rows_of(out / "scores.jsonl")
    results = read_results(out / "results.json")
    for row in scores:
        del row["seconds"]
    for name in UNSTEADY:
        results.manifest.pop(name, None)
    return (out / "samples.jsonl").read_bytes(), scores, results


def test_files_and_results_of_a_run(finished, problems):
    samples, scores, results = steady_files(finished)
    keys = [(p.id, i) for p in problems for i in range(12)]
    rows = [json.loads(line) for line in samples.splitlines()]
    assert [(r["problem_id"], r["sample"]) for r in rows] == keys
    assert [(r["problem_id"], r["sample"]) for r in scores] == keys
    assert results.counts.problems == 3
    assert results.counts.samples == sum(results.counts.outcomes.values()) == 36
    assert results.counts.unscored == 0
    assert results.per_problem.ids == ("p0", "p1", "p2")
    assert results.ks == [1, 2, 4, 8, 12]
    assert 0 < sum(results.per_problem.correct) < 36


def test_metrics_come_from_the_scores(finished):
    _, scores, results = steady_files(finished)
    passed = results.per_problem.correct
    for row, problem_id in enumerate(results.per_problem.ids):
        mine = [s["reward"] for s in scores if s["problem_id"] == problem_id]
        assert sum(r >= 1 for r in mine) == passed[row]
        for k in (1, 4, 12):
            expected = pass_at_k(12, passed[row], k)
            assert results.per_problem.values["pass@k"][k][row] == pytest.approx(expected, abs=1e-6)
    mean = sum(passed) / 36
    assert results.metrics["pass@k"][1].mean == pytest.approx(mean, abs=1e-6)


def test_entropy_and_diversity_come_from_the_samples(finished):
    samples, _, results = steady_files(finished)
    rows = [json.loads(line) for line in samples.splitlines()]
    sequence = [r["entropy"] * r["tokens"] for r in rows]
    entropy = results.entropy
    assert entropy.sequence.mean == pytest.approx(sum(sequence) / 36, abs=1e-5)
    assert entropy.token_mean == pytest.approx(sum(sequence) / sum(r["tokens"] for r in rows))
    assert sum(entropy.sequence.histogram.counts) == 36
    texts = [{r["completion"] for r in rows if r["problem_id"] == p} for p in ("p0", "p1", "p2")]
    assert results.per_problem.distinct == tuple(len(t) for t in texts)
    programs = [{program_key(text) for text in t} for t in texts]
    assert results.per_problem.programs == tuple(len(p) for p in programs)


def test_manifest_says_what_was_run(finished, tiny_model):
    manifest = json.loads((finished / "results.json").read_text())["manifest"]
    assert manifest["settings"]["sampling"] == SETTINGS.to_json()
    assert manifest["settings"]["model"]["model"] == str(tiny_model)
    assert manifest["settings"]["model"]["batch_size"] == 5
    assert manifest["settings"]["verifier"]["time_limit_s"] == 4.0
    assert manifest["settings"]["problems"]["count"] == 3
    assert {"maxatk", "python", "torch", "numpy", "cpu", "cores", "commit"} <= set(
        manifest["environment"]
    )
    assert manifest["isolation"]


def test_repeating_a_finished_run_changes_nothing(
    finished, tiny_model, problems, verifier, monkeypatch
):
    before = steady_files(finished)
    monkeypatch.setattr(Verifier, "verify_stream", None)
    results = run(tiny_model, problems, finished, verifier, batch_size=None)
    assert results.manifest["samples_found"] == 36
    assert steady_files(finished) == before


def test_resuming_from_any_pair_of_cut_files_gives_the_same(
    finished, tiny_model, problems, verifier, tmp_path
):
    samples = (finished / "samples.jsonl").read_bytes()
    scores = (finished / "scores.jsonl").read_bytes()
    draw = random.Random(0)
    for attempt in range(8):
        out = tmp_path / str(attempt)
        out.mkdir()
        (out / "manifest.json").write_bytes((finished / "manifest.json").read_bytes())
        cut_samples = samples[: draw.randrange(len(samples))]
        verified = draw.randint(0, cut_samples.count(b"\n"))
        lines = scores.splitlines(keepends=True)
        (out / "samples.jsonl").write_bytes(cut_samples)
        (out / "scores.jsonl").write_bytes(b"".join(lines[:verified]) + lines[verified][:9])
        run(tiny_model, problems, out, verifier)
        assert steady_files(out) == steady_files(finished)


def test_other_settings_are_refused_with_the_difference(finished, tiny_model, problems, verifier):
    changed = SamplingSettings(max_new_tokens=4, samples=12, temperature=0.5)
    with pytest.raises(InvalidValueError, match=r"sampling\.temperature: 1\.0 in the folder, 0\.5"):
        run(tiny_model, problems, finished, verifier, settings=changed)
    with pytest.raises(InvalidValueError, match=r"problems\.count: 3 in the folder, 2 now"):
        run(tiny_model, problems[:2], finished, verifier)
    with pytest.raises(InvalidValueError, match=r"model\.batch_size: 5 in the folder, 4 now"):
        run(tiny_model, problems, finished, verifier, batch_size=4)


def test_samples_without_a_manifest_are_refused(tiny_model, problems, verifier, tmp_path):
    (tmp_path / "samples.jsonl").write_text("{}\n")
    with pytest.raises(
        InvalidValueError, match=r"has samples\.jsonl, which `maxatk eval` did not write"
    ):
        run(tiny_model, problems, tmp_path, verifier)


def test_a_folder_in_which_nothing_was_drawn_takes_other_settings(
    tiny_model, problems, verifier, tmp_path
):
    described = {"sampling": {"temperature": 0.25}}  # as if killed while the model was loaded
    (tmp_path / "manifest.json").write_text(json.dumps({"settings": described, "environment": {}}))
    (tmp_path / "samples.jsonl").write_text("")
    run(tiny_model, problems, tmp_path, verifier)
    settings = json.loads((tmp_path / "manifest.json").read_text())["settings"]
    assert settings["sampling"]["temperature"] == 1.0


def test_bad_input_is_refused_before_work(tiny_model, problems, verifier, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(MissingFileError, match="no such file"):
        run(tiny_model, tmp_path / "none.jsonl", out, verifier)
    with pytest.raises(MissingFileError, match="there is no folder"):
        run(tmp_path / "none", problems, out, verifier)
    with pytest.raises(InvalidValueError, match="from 1 to the 12 samples of a problem, got 13"):
        run(tiny_model, problems, out, verifier, k=[13])
    with pytest.raises(DataError, match="no problems"):
        run(tiny_model, [], out, verifier)
    with pytest.raises(DataError, match="id 'p1' occurs twice"):
        run(tiny_model, [*problems, problems[1]], out, verifier)
    assert not out.exists()


def test_problems_from_a_file(tiny_model, problems, verifier, tmp_path, finished):
    write_jsonl(tmp_path / "problems.jsonl", (p.to_json() for p in problems))
    results = run(tiny_model, tmp_path / "problems.jsonl", tmp_path / "out", verifier, k=[3])
    assert results.manifest["problems_file"] == str(tmp_path / "problems.jsonl")
    assert results.ks == [1, 2, 3, 4, 8, 12]
    assert (tmp_path / "out/samples.jsonl").read_bytes() == (
        finished / "samples.jsonl"
    ).read_bytes()


def test_progress_reaches_the_totals(tiny_model, problems, verifier, tmp_path):
    calls = []
    run(tiny_model, problems, tmp_path / "out", verifier, progress=lambda *call: calls.append(call))
    for unit in ("samples", "scores"):
        done = [d for d, total, u in calls if u == unit]
        assert done == sorted(done)
        assert done[-1] == 36
    assert {total for _, total, _ in calls} == {36}


def test_a_model_trained_on_other_prompts_is_a_warning(
    tiny_model, problems, verifier, tmp_path, caplog
):
    model = tmp_path / "trained"
    shutil.copytree(tiny_model, model)
    recipe = {"prompt": {"template": "auto", "system": "Be brief.", "template_arguments": {}}}
    (model / "train.json").write_text(json.dumps({"recipe": recipe}))
    run(model, problems, tmp_path / "out", verifier)
    assert "was trained on other prompts: prompt.system: 'Be brief.' in its training" in caplog.text


class Waiting(Verifier):
    """A verifier that does not begin before three chunks have been sampled."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.sampled = threading.Event()

    def verify_stream(self, *args, **settings):
        assert self.sampled.wait(30), "sampling waited for the verifier"
        return super().verify_stream(*args, **settings)


def test_sampling_goes_on_while_programs_are_verified(tiny_model, problems, tmp_path):
    with Waiting(workers=1) as verifier:

        def progress(done, total, unit):
            if unit == "samples" and done >= 15:
                verifier.sampled.set()

        run(tiny_model, problems, tmp_path / "out", verifier, progress=progress)


class Broken(Verifier):
    """A verifier whose machinery fails after the first batch."""

    calls = 0

    def verify_stream(self, *args, **settings):
        self.calls += 1
        if self.calls > 1:
            raise RuntimeError("the sandbox is gone")
        return super().verify_stream(*args, **settings)


def test_a_failing_verifier_stops_the_run_and_the_run_can_be_resumed(
    tiny_model, problems, verifier, tmp_path, finished
):
    before = threading.active_count()
    with Broken(workers=1) as broken, pytest.raises(RuntimeError, match="sandbox is gone"):
        run(tiny_model, problems, tmp_path / "out", broken)
    assert threading.active_count() <= before
    run(tiny_model, problems, tmp_path / "out", verifier)
    assert steady_files(tmp_path / "out") == steady_files(finished)


def test_score_gives_the_same_results_from_the_samples_file(finished, problems, verifier, tmp_path):
    results = scored(finished / "samples.jsonl", problems, tmp_path / "s", verifier=verifier)
    _, _, expected = steady_files(finished)
    for part in ("metrics", "per_problem", "counts", "entropy", "diversity"):
        assert getattr(results, part) == getattr(expected, part)
    lines = (tmp_path / "s/scores.jsonl").read_text().splitlines()
    (tmp_path / "s/scores.jsonl").write_text("\n".join(lines[:7]) + '\n{"pro')
    again = scored(finished / "samples.jsonl", problems, tmp_path / "s", verifier=verifier)
    assert again.per_problem == results.per_problem
    assert (tmp_path / "s/samples.jsonl").read_bytes() == (finished / "samples.jsonl").read_bytes()
    assert len((tmp_path / "s/scores.jsonl").read_text().splitlines()) == 36


def test_a_scored_file_is_a_run_whose_completions_choose_and_are_shown(
    problems, tmp_path, verifier
):
    answers = [replace(p, tests=(), answer="2") for p in problems]
    rows = [
        {"problem_id": problem.id, "completion": text}
        for problem in answers
        for text in ("it is 2", "so 2", "or 3")
    ]
    write_jsonl(tmp_path / "given.jsonl", rows)
    run = tmp_path / "s"
    scored(tmp_path / "given.jsonl", answers, run, verifier=verifier, reward="answer")
    gains = selection_gains(run, ["majority"], ks=[3])
    assert gains.gains["majority"].mean.tolist() == [1.0]
    details = problem_details(load_comparison({"s": run}), samples=3)
    assert {sample.text for sample in details[0].runs[0].samples} == {r["completion"] for r in rows}
    # Before the first verdict another file is no other run.
    (run / "scores.jsonl").unlink()
    write_jsonl(tmp_path / "given.jsonl", [{**row, "completion": "2"} for row in rows])
    again = scored(tmp_path / "given.jsonl", answers, run, verifier=verifier, reward="answer")
    assert again.metrics["max@k"][1].mean == 1.0
    assert {row["completion"] for row in rows_of(run / "samples.jsonl")} == {"2"}


def test_score_reads_evalplus_files(problems, verifier, tmp_path):
    rows = [{"task_id": p.id, "solution": s} for p in problems for s in ("print(1)", "print(2)")]
    write_jsonl(tmp_path / "samples.jsonl", rows)
    results = scored(tmp_path / "samples.jsonl", problems, tmp_path / "s", verifier=verifier)
    assert results.per_problem.correct == (1, 1, 1)
    assert results.metrics["pass@k"][2].mean == 1.0
    assert results.entropy is None


def test_score_refuses_what_it_cannot_verify_fairly(problems, verifier, tmp_path):
    path = tmp_path / "samples.jsonl"
    write_jsonl(path, [{"task_id": "p0", "solution": "print(1)"}])
    with pytest.raises(DataError, match="no sample for 2 of 3 problems, the first 'p1'"):
        scored(path, problems, tmp_path / "s", verifier=verifier)
    with pytest.raises(InvalidValueError, match="the 1 sample of a problem, got 2"):
        scored(path, problems[:1], tmp_path / "s", verifier=verifier, k=[2])
    scored(path, problems[:1], tmp_path / "s", verifier=verifier)
    write_jsonl(path, [{"task_id": "p0", "solution": "print(2)"}])
    with pytest.raises(InvalidValueError, match=r"samples\.sha256"):
        scored(path, problems[:1], tmp_path / "s", verifier=verifier)
