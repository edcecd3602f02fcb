import csv
import io
import json

import pytest
import yaml

from maxatk.cli.main import main
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from sampling.servers import serving


@pytest.fixture
def evaluating(maxatk, tmp_path):
    tests = (TestCase(input="", output="1\n"),)
    write_jsonl(tmp_path / "p.jsonl", [Problem(f"p{i}", "x", tests).to_json() for i in range(5)])
    files = ("--model", "m", "--problems", "p.jsonl", "--out", "run", "--backend", "openai")
    return lambda *more: maxatk("eval", *files, "--samples", "10", "--max-new-tokens", "7", *more)


def test_a_dry_run_prints_the_plan_and_writes_nothing(evaluating, tmp_path):
    with serving(delay=0.02) as server:
        flags = ("--server.url", server.url, "--verifier.workers", "1", "--dry-run")
        done = evaluating(*flags)
        assert done.returncode == 0, done.stderr
        assert not server.requests
        limited = evaluating(*flags, "--limit", "2")
        assert not (tmp_path / "run").exists()
        assert evaluating(*flags[:-1]).returncode == 0
        samples = tmp_path / "run" / "samples.jsonl"
        samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:4]))
        resumed = evaluating(*flags)
        other = evaluating(*flags, "--temperature", "0.5")

    def plan(done):
        return dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())

    fresh = {"problems": "5", "samples": "50", "found": "0", "most tokens": "350"}
    assert plan(done) == fresh
    assert plan(limited)["samples"] == "20"
    assert plan(resumed) == {**fresh, "found": "4", "most tokens": "322"}
    assert other.returncode == 2
    assert "temperature" in other.stderr
    assert "0.5" in other.stderr


def test_a_folder_says_where_its_problems_are(evaluating, maxatk):
    with serving() as server:
        flags = ("--server.url", server.url, "--verifier.workers", "1", "--limit", "2")
        assert evaluating(*flags).returncode == 0
    selected = maxatk("problems", "select", "run", "--out", "some.jsonl")
    assert selected.stdout == "some.jsonl: 2 problems\n", selected.stderr


def test_all_settings_are_shown_and_nothing_is_read(evaluating, tmp_path):
    (tmp_path / "p.jsonl").unlink()
    done = evaluating("--server.url", "http://nowhere/v1", "--show-config")
    shown = yaml.safe_load(done.stdout)
    assert shown["problems"] == "p.jsonl"
    assert shown["sampling"] == {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "max_new_tokens": 7,
        "stop": [],
        "stop_at_fence": False,
        "seed": 0,
        "samples": 10,
    }
    assert shown["server"]["url"] == "http://nowhere/v1"
    assert shown["verifier"]["time_limit"] == 4.0
    assert not (tmp_path / "run").exists()


RECIPE = """\
model: m
problems: p.jsonl
sampling: {samples: 64, temperature: 1}
verifier: {workers: 2}
"""


@pytest.fixture
def shown(tmp_path, monkeypatch, capsys):
    """Return a function that gives the settings which `eval` with these arguments would use."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(RECIPE)

    def show(*arguments):
        assert main(["eval", *arguments, "--show-config"]) == 0
        return capsys.readouterr().out

    return show


def test_flags_win_over_overrides_over_the_file_over_the_defaults(shown):
    def sampling(*more):
        settings = yaml.safe_load(shown("recipe.yaml", *more, "--out", "o"))
        return settings["sampling"]["samples"], settings["sampling"]["top_p"]

    assert sampling() == (64, 1.0)
    assert sampling("sampling.samples=32") == (32, 1.0)
    assert sampling("sampling.samples=32", "sampling.top_p=0.5", "--samples", "8") == (8, 0.5)
    assert sampling("sampling.samples=32", "--samples", "256") == (256, 1.0), "256 is the default"


def test_what_is_shown_is_a_recipe_of_the_same_settings(shown, tmp_path):
    flags = ("--backend", "openai", "--server.url", "http://x/v1", "--limit", "3", "--dtype")
    first = shown(
        "recipe.yaml", "out=o", "verifier.time_limit=1.5", *flags, "bfloat16", "--seed", "7"
    )
    (tmp_path / "again.yaml").write_text(first)
    assert shown("again.yaml") == first
    recipe = yaml.safe_load(first)
    assert (recipe["out"], recipe["limit"], recipe["dtype"]) == ("o", 3, "bfloat16")
    assert (recipe["sampling"]["samples"], recipe["sampling"]["seed"]) == (64, 7)
    assert (recipe["server"]["url"], recipe["verifier"]["time_limit"]) == ("http://x/v1", 1.5)


def test_a_recipe_is_evaluated(maxatk, tmp_path):
    tests = (TestCase(input="", output="1\n"),)
    write_jsonl(tmp_path / "p.jsonl", [Problem("p", "x", tests).to_json()])
    with serving() as server:
        (tmp_path / "recipe.yaml").write_text(
            f"{{model: m, problems: p.jsonl, backend: openai, server: {{url: '{server.url}'}}}}"
        )
        done = maxatk("eval", "recipe.yaml", "sampling.samples=3", "--out", "run")
        other = maxatk("eval", "recipe.yaml", "--samples=3", "--out", "b")
    assert done.returncode == 0, done.stderr
    assert other.returncode == 0, other.stderr
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["settings"]["sampling"]["samples"] == 3
    assert len((tmp_path / "run" / "scores.jsonl").read_text().splitlines()) == 3
    compared = maxatk("compare", "run", "GRPO, 2 epochs=b", "--format", "csv")
    assert list(csv.DictReader(io.StringIO(compared.stdout)))[1]["model"] == "GRPO, 2 epochs"
    assert compared.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recipe.yaml", "--by", "level", "problems=p.jsonl"], "by: 'level': the problems have no"),
        (["recipe.yaml", "threshold=.inf", "problems=p.jsonl"], "threshold: must be a finite"),
        (["nowhere.yaml"], "recipe: 'nowhere.yaml' does not exist"),
        (["recipe.yaml", "modle=m"], "recipe: unknown key 'modle'; did you mean 'model'?"),
        (["recipe.yaml", "sampling.sampels=3"], "sampling: unknown key 'sampels'; did you mean"),
        (["recipe.yaml", "backend=vlm"], "recipe.backend: got 'vlm'; allowed: auto, hf, openai"),
        (["recipe.yaml", "sampling.top_p=2"], "top_p: must be in (0, 1], got 2"),
        (["recipe.yaml", "--top-p", "2"], "top_p: must be in (0, 1], got 2"),
    ],
)
def test_bad_recipes_are_refused_and_nothing_written(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    write_jsonl(tmp_path / "p.jsonl", [Problem("p", "x").to_json()])
    assert main(["eval", *arguments, "--out", "o"]) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.jsonl", "recipe.yaml"]


def test_what_neither_the_recipe_nor_a_flag_gives_is_named(tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    with pytest.raises(SystemExit) as ended:
        main(["eval", str(tmp_path / "recipe.yaml")])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "--out" in message
    assert "--model" not in message


def test_settings_without_a_recipe_are_overrides(evaluating):
    changed = ("engine.max_model_len=4096", "prompt.template_arguments.enable_thinking=false")
    done = evaluating(*changed, "--stop", "END", "--prompt.system", "Be brief.", "--show-config")
    assert done.returncode == 0, done.stderr
    shown = yaml.safe_load(done.stdout)
    assert shown["engine"] == {"max_model_len": 4096}
    assert shown["prompt"] == {
        "template": "auto",
        "system": "Be brief.",
        "template_arguments": {"enable_thinking": False},
    }
    assert shown["sampling"]["stop"] == ["END"]


def test_many_samples_cut_off_by_length_are_a_warning(evaluating):
    cut = {"choices": [{"text": "print(", "finish_reason": "length"}]}
    with serving([cut] * 20) as server:
        address = ("--server.url", server.url, "--verifier.workers", "1")
        done = evaluating(*address)
        again = evaluating(*address, "--progress", "json")
    assert "eval: 50 of 50 samples drawn, 50 of 50 verified\n" in done.stderr
    assert json.loads(again.stdout.splitlines()[-1]) == {"done": 50, "total": 50}
    assert "run: 40.0% of the samples cut off by max_new_tokens" in done.stdout
    assert "warning: run: 40% of the samples were cut off before their end" in done.stderr
