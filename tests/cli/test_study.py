"""Studies as commands: plans, refusals, and one end to end, killed and started again."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from maxatk.cli.main import main
from maxatk.folders import write_json
from maxatk.jsonl import write_jsonl
from maxatk.report.table_formats import format_table
from maxatk.studies.findings import Study
from maxatk.studies.findings_tables import study_rows, study_tables
from maxatk.studies.recipe import load_study
from maxatk.studies.schedule import seeded_models
from maxatk.writing import OutFolder
from processes import family, patience, still_alive, wait_for
from studies.conftest import UNTRAINED


def test_the_trainer_refuses_before_any_work(recipe, tmp_path, capsys):
    grids = [{"k": {"k=9": {"trainer.method": "grpo", "trainer.k": 9}}}]
    assert main(["study", str(recipe(grids=grids))]) == 2
    message = capsys.readouterr().err
    assert "k=9: train.trainer.k: must be a whole number from 1 to num_generations (4)" in message
    assert not (tmp_path / "work").exists()


def test_a_dry_run_says_what_is_left_writes_nothing_and_imports_neither_torch_nor_matplotlib(
    recipe, tmp_path
):
    training = next(
        p.training.name for p in seeded_models(load_study(recipe())) if p.training is not None
    )
    finished = tmp_path / "work" / "stages" / f"{training}.json"
    finished.parent.mkdir(parents=True)
    write_json(finished, {"seconds": 12.0})
    (tmp_path / "work" / training).mkdir()
    (tmp_path / "work" / "maxatk.lock").write_text("study")  # as the study has left it
    files = sorted(path for path in (tmp_path / "work").rglob("*") if path.is_file())
    probe = (
        "import sys; from maxatk.cli.main import main; status = main(sys.argv[1:]); "
        "print(status, {'torch', 'matplotlib'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", probe, "study", str(recipe()), "--dry-run", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(120))
    assert done.stdout.splitlines()[-1] == "0 set()", done.stderr
    for line in (
        "4 x 2 seeds",
        "stages  16, 1 of them finished",
        "train   5 left, finished ones took 12 s each",
        "eval    8 left\n",
    ):
        assert line in done.stdout
    assert sorted(path for path in (tmp_path / "work").rglob("*") if path.is_file()) == files


def test_a_plan_as_json_has_a_row_a_stage(recipe, capsys):
    assert main(["study", str(recipe(grids=UNTRAINED)), "--dry-run", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["plan"]
    assert sorted(row["kind"] for row in rows) == ["eval", "eval", "mini", "mini"]


def test_no_process_outlives_a_study_that_is_killed_while_it_asks_the_trainer(recipe, started):
    study = started(sys.executable, "-m", "maxatk", "study", str(recipe()), "--dry-run")
    end = time.monotonic() + patience(60)
    members = family(study.pid)
    while len(members) < 2:
        assert time.monotonic() < end, "the trainer was never asked"
        time.sleep(0.01)
        members = family(study.pid)
    study.send_signal(signal.SIGKILL)
    assert still_alive(members) == []


def test_two_studies_at_once_in_one_folder_are_refused(recipe, tmp_path, capsys):
    with OutFolder(tmp_path / "work", "study", ()).alone():
        assert main(["study", str(recipe(grids=UNTRAINED))]) == 2
    assert "work/maxatk.lock: another process is writing there" in capsys.readouterr().err


def test_a_dry_run_says_what_is_left_of_a_study_that_runs(recipe, tmp_path, capsys):
    arguments = ["study", str(recipe(grids=UNTRAINED)), "--dry-run"]
    assert main(arguments) == 0
    before = capsys.readouterr().out
    with OutFolder(tmp_path / "work", "study", ()).alone():
        assert main(arguments) == 0
        assert main(["study", str(recipe(grids=UNTRAINED))]) == 2  # the lock is still held
    assert capsys.readouterr().out == before


def start(recipe, *flags):
    return subprocess.Popen(
        [sys.executable, "-m", "maxatk", "study", str(recipe), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )


def killed_after_a_stage(study, work):
    """Kill a study as soon as a stage has finished; return when each finished one did."""
    wait_for(work / "stages", "*.json")
    study.send_signal(signal.SIGKILL)
    study.communicate()
    return {path: path.stat().st_mtime_ns for path in (work / "stages").glob("*.json")}


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        (None, {"model": "./nowhere"}, "model: there is no folder './nowhere'"),
        ("eval", {"problems": "no.jsonl"}, "no.jsonl: no such file"),
        ("eval", {"problems": "mbbp"}, "did you mean 'mbpp'"),
    ],
)
def test_an_outside_model_that_is_not_there_is_refused(
    recipe, of_a_llama, capsys, section, change, message
):
    changes = change if section is None else {section: {**of_a_llama[section], **change}}
    assert main(["study", str(recipe(**{**of_a_llama, **changes})), "--dry-run"]) == 2
    assert message in capsys.readouterr().err


def test_a_study_may_be_evaluated_on_a_table_of_any_other_form(
    recipe, of_a_llama, tmp_path, capsys
):
    table = tmp_path / "table.jsonl"
    write_jsonl(table, [{"name": "a", "task": "print(1)", "cases": [{"input": "", "output": "1"}]}])
    columns = ["id=name", "prompt=task", "tests=cases"]
    levels = {"cold": {"eval.sampling.temperature": 0.5}}
    for problems, status in ((table, 0), (tmp_path / "none.jsonl", 2)):
        section = {**of_a_llama["eval"], "problems": str(problems), "map": columns}
        changes = {"train": None, "eval": section, "grids": [{"temperature": levels}]}
        path = recipe(**{**of_a_llama, **changes})
        assert main(["study", str(path), "--dry-run"]) == status, capsys.readouterr().err
    assert "none.jsonl" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.timeout(patience(120))
def test_a_study_of_temperatures_alone_evaluates_one_model_at_each(recipe, of_a_llama, tmp_path):
    levels = {
        "cold": {"eval.sampling.temperature": 0.5},
        "hot": {"eval.sampling.temperature": 1.5},
    }
    changes = {"train": None, "seeds": [1], "ks": [1, 8], "grids": [{"temperature": levels}]}
    assert main(["study", str(recipe(**{**of_a_llama, **changes}))]) == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(results["models"]) == ["base", "cold", "hot"]
    manifests = (tmp_path / "work").glob("eval-*/manifest.json")
    settings = [json.loads(path.read_text())["settings"]["sampling"] for path in manifests]
    assert sorted(sampling["temperature"] for sampling in settings) == [0.5, 1.0, 1.5]


@pytest.mark.long
@pytest.mark.timeout(patience(280))
def test_a_killed_study_of_two_seeds_goes_on_and_writes_what_it_found(recipe, of_a_llama, tmp_path):
    out = tmp_path / "out"
    work = tmp_path / "work"
    del of_a_llama["grids"][0]["method"]["grpo"]
    path = recipe(**of_a_llama)
    finished = killed_after_a_stage(start(path, "--jobs", "3"), work)
    process = start(path, "--jobs", "3")
    output, _ = process.communicate(timeout=patience(240))
    assert process.returncode == 0, output
    for marker, written in finished.items():
        assert marker.stat().st_mtime_ns == written, "a finished stage ran again"
    results = json.loads((out / "results.json").read_text())
    assert list(results["models"]) == ["base", "low rank"]
    for model in results["models"].values():
        assert model["counts"]["samples"] == 2 * 2 * 8  # seeds, problems, samples
        assert model["counts"]["problems"] == 2  # both seeds have the same
        for seed in ("1", "2"):
            assert model["by_seed"][seed]["max@k"].keys() == {"1", "2", "4", "8"}
    assert results["models"]["low rank"]["training"]["seconds"] > 0
    check_stages(load_study(path), work)
    check_tables(results, out)


def check_stages(study, work):
    """Every stage has the seed of its model and the model of the study."""
    for seeded_model in seeded_models(study):
        settings = json.loads((work / seeded_model.chain["eval"] / "manifest.json").read_text())[
            "settings"
        ]
        assert settings["sampling"]["seed"] == seeded_model.seed
        if seeded_model.training is None:
            assert settings["model"]["model"] == study.model
            continue
        config = json.loads((seeded_model.training / "config.json").read_text())
        assert config["model_type"] == "llama"
        assert (seeded_model.training / "adapter" / "adapter_config.json").is_file()
    completions = {
        (work / seeded_model.chain["eval"] / "samples.jsonl").read_text()
        for seeded_model in seeded_models(study)
        if seeded_model.training is None
    }
    assert len(completions) == 2, "the base is sampled once for every seed"


def check_tables(results, out):
    """Tables, figures and page of a study show what is in its results."""
    study = Study.from_json(results)
    assert json.loads(json.dumps(study.to_json())) == results
    for name, table in study_tables(study).items():
        for table_format, suffix in (("md", "md"), ("csv", "csv"), ("latex", "tex")):
            written = (out / "tables" / f"{name}.{suffix}").read_text()
            assert written == format_table(table, table_format), name
    assert {p.name for p in (out / "figures").iterdir()} >= {"metric.svg", "metric.pdf"}
    page = (out / "report.html").read_text()
    assert "A small study" in page
    assert "low rank" in page
    best = results["models"]["low rank"]["metrics"]["max@k"]["8"]["mean"]
    rows = study_rows(study)
    shown = {(row["model"], row["metric"], row["k"]): row["mean"] for row in rows["scores"]}
    assert shown["low rank", "max@k", 8] == best
    compared = {(row["first"], row["second"], row["seeds"]) for row in rows["differences"]}
    assert compared == {("low rank", "base", 2)}
