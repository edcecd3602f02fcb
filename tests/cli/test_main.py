import json
import os
import socket
import subprocess
import sys

import pytest

import maxatk as package
from maxatk.cli.commands import COMMANDS
from maxatk.cli.flags import set_threads
from maxatk.cli.main import main
from processes import ENDLESS, patience, wait_for_busy_family


def test_help_lists_every_verb(maxatk):
    for done in (maxatk("--help"), maxatk()):
        assert done.returncode == 0
        for command, row in COMMANDS.items():
            assert f"  {command}" in done.stdout
            assert row.summary in done.stdout


def test_the_version(maxatk):
    assert maxatk("--version").stdout == f"{package.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_verb_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"Example: maxatk {command}" in capsys.readouterr().out


def test_the_example_of_eval_needs_no_other_limit_for_the_built_in_model(capsys):
    with pytest.raises(SystemExit):
        main(["eval", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "Example: maxatk eval --model runs/base --problems test.jsonl --out" in shown
    assert "runs/mini" not in shown  # whose context is shorter than the default completion


def refused(done):
    """Return the message of a command that refused its input."""
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_an_unknown_verb_is_refused_with_a_suggestion(maxatk):
    message = refused(maxatk("tain", "recipe.yaml"))
    assert message == "maxatk: unknown command 'tain'; did you mean 'train'?; see maxatk --help\n"


def test_an_unknown_flag_is_refused_with_a_suggestion(maxatk):
    message = refused(maxatk("score", "--out", "o", "--sampels", "x"))
    assert "--sampels" in message
    assert "--samples" in message


REFUSED = [
    (["train", "nowhere.yaml"], "recipe: 'nowhere.yaml' does not exist"),
    (["demo", "--recipe", "nowhere.yaml"], "recipe: 'nowhere.yaml' does not exist"),
    (["demo", "out"], "override 'out': must have the form key=value or a.b=value"),
    (["demo", "out=x", "oot=y"], "recipe: unknown key 'oot'; did you mean 'out'?"),
    (["demo", "out=x", "grids=grpo"], "recipe.grids: must be list, got 'grpo'"),
    (["demo", "out=x", "seeds=[1"], "'[1' is not a YAML value"),
    (
        ["demo", "out=x", "eval.sampling.sampels=3"],
        "unknown key 'sampels'; did you mean 'samples'?",
    ),
    (["demo", "out=x", "eval.sampling.top_p=2"], "top_p: must be in (0, 1], got 2"),
    (["demo", "out=x", "mini.warm_start.noise.drp=0"], "recipe.mini.warm_start.noise: unknown key"),
    (["demo", "out=x", "eval.verifier.workers=0"], "workers: must be an integer of 1"),
    (["demo", "out=x", "--jobs", "0"], "--jobs: must be at least 1, got 0"),
    (["mini", "x", "--tests", "0"], "tests: must be at least 1, got 0"),
    (["problems", "prepare", "mbbp", "--out", "x.jsonl"], "unknown value 'mbbp'"),
    (
        ["problems", "prepare", "mbpp", "--out", "x.jsonl", "limit=0"],
        "limit: must be at least 1, got 0",
    ),
    (
        ["problems", "prepare", "mbpp", "--out", "x.jsonl", "split=al"],
        "split: unknown value 'al'",
    ),
    (
        ["problems", "prepare", "mbpp", "--out", "x.jsonl", "--file", "no.json"],
        "'no.json' does not exist",
    ),
    (["problems", "check", "no.jsonl"], "no.jsonl: no such file"),
    (["problems", "show", "mbpp", "1", "--file", "no.json"], "'no.json' does not exist"),
    (["score", "--samples", "s", "--problems", "p.jsonl", "--out", "x"], "p.jsonl: no such file"),
    (["eval", "--model", "m", "--problems", "p.jsonl", "--out", "x"], "p.jsonl: no such file"),
    (["view", "nowhere"], "folder: 'nowhere' does not exist"),
    (["select", "nowhere", "--by", "likelihood"], "run: 'nowhere' does not exist"),
    (["study", "."], "recipe: '.' is a folder; name a YAML file"),
    (["methods", "bon_loo"], "unknown value 'bon_loo'; allowed: any_k, bon_centred, bon_loo1"),
    (["report", "nowhere", "--out", "x.html"], "nowhere: no such results file"),
    (["report", "a", "b/a", "--out", "x.html"], "every run needs a name of its own"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_bad_input_is_refused_and_nothing_written(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("recipe", "flags", "message"),
    [
        ("tests: 0", [], "tests: must be at least 1, got 0"),
        ("tests: 3", ["--tests", "-1"], "tests: must be at least 1, got -1"),
        ("tests: 3", ["--tests", "4"], "mini: give either --recipe or settings as flags"),
        ("test: 3", [], "recipe: unknown key 'test'; did you mean 'tests'?"),
    ],
)
def test_the_built_in_model_takes_a_recipe_or_flags(
    recipe, flags, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mini.yaml").write_text(recipe)
    assert main(["mini", "out", "--recipe", "mini.yaml", *flags]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mini.yaml"]


def test_an_unknown_key_of_a_recipe_is_refused_before_any_work(maxatk, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("{model: m, problems: p.jsonl, out: run, trainer: {kk: 4}}")
    message = refused(maxatk("train", recipe))
    assert "trainer: unknown key 'kk'" in message
    assert "did you mean 'k'?" in message
    assert list(tmp_path.iterdir()) == [recipe]


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        ("{problems: p, out: run}", [], "the key 'model' is required"),
        ("{model: m, problems: p, out: run}", ["rewrad=binary"], "did you mean 'reward'?"),
        ("{model: m, problems: p, out: run}", ["reward=binry"], "did you mean 'binary'?"),
        ("{model: m, problems: p, out: run}", ["lr=1e-4"], "`learning_rate` of the section"),
        ("{model: m, problems: p, out: run}", ["k=4"], "`k` of the section `trainer`"),
        ("{model: m, problems: p, out: run}", ["trainer.lr=1"], "did you mean 'learning_rate'?"),
        ("", [], "recipe.yaml: is empty"),
        ("{model: m, problems: p, out: run}", ["trainer.k=9"], "k: must be a whole number from 1"),
        ("{model: m, problems: p, out: run}", ["trainer.k=two"], "trainer.k: must be int"),
        ("{model: m, problems: p, out: run}", ["trainer.method=bon"], "method: unknown value"),
        (
            "{model: m, problems: p, out: run}",
            ["trainer.save_strategy=nope"],
            "trainer: nope is not a valid SaveStrategy",
        ),
        (
            "{model: m, problems: p, out: run}",
            ["trainer.use_cpu=yes"],
            "trainer.use_cpu: must be bool, got 'yes'",
        ),
        (
            "{model: m, problems: p, out: run, verifier: }",
            [],
            "verifier: must be a mapping",
        ),
        ("{model: m, problems: p, out: run, trainer: 3}", [], "recipe.trainer: must be dict"),
        ("[model]", [], "must be a mapping of settings, got list"),
        ("{model: ", [], "recipe.yaml, line 1, column 9: not a YAML file: expected the node"),
    ],
)
def test_bad_training_recipes(recipe, overrides, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe)
    assert main(["train", str(path), *overrides]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_light_verbs_do_not_import_torch():
    names = [command for command in COMMANDS if command != "train"]
    probe = (
        f"import sys; from maxatk.cli.main import entry; [entry(name) for name in {names}]; "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_doctor_shows_every_layer(maxatk):
    done = maxatk("doctor")
    assert done.returncode == 0
    rows = [line.split("│") for line in done.stdout.splitlines() if line.startswith("│")]
    layers = {name.strip(): holds.strip() for _, name, holds, *_ in rows}
    assert layers["seccomp"] == "yes"
    assert {"yes", "no"} >= set(layers.values())


def test_progress_as_json_lines_and_nothing_else(scoring, started):
    done = started(
        *(sys.executable, "-m", "maxatk", *scoring("print(4)", "print(6)"), "--progress", "json"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    lines = [json.loads(line) for line in done.stdout]
    assert done.wait(timeout=patience(60)) == 0
    assert lines[-1] == {"done": 2, "total": 2}
    assert all(line.keys() == {"done", "total"} for line in lines)


def test_progress_as_json_lines_goes_on_where_no_parent_holds_standard_input(
    maxatk, tmp_path, scoring
):
    done = maxatk(*scoring("print(4)"), "--progress", "json")  # its standard input is /dev/null
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"done": 1, "total": 1}
    sizes = ("--train-problems", "16", "--test-problems", "2", "--warm-start.problems", "64")
    done = maxatk("mini", "mini", *sizes, "--progress", "json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mini" / "base").is_dir()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_progress_as_json_lines_ends_with_the_parent(scoring, started, kind):
    ours, theirs = socket.socketpair()
    process = started(
        *(sys.executable, "-m", "maxatk", *scoring(ENDLESS, time_limit=60)),
        *("--progress", "json"),
        stdin=subprocess.PIPE if kind == "pipe" else theirs,
        stdout=subprocess.PIPE,
    )
    theirs.close()
    wait_for_busy_family(process.pid)
    ours.close()
    if kind == "pipe":
        process.stdin.close()
    assert process.wait(timeout=patience(20)) == 1


def test_methods_lists_every_row(capsys):
    from maxatk.objectives import METHODS

    assert main(["methods"]) == 0
    shown = capsys.readouterr().out
    for name, method in METHODS.items():
        (line,) = [row for row in shown.splitlines() if f" {name} " in row.split("│")[0:2][-1]]
        assert (method.unbiased_for or "-") in line


def test_an_error_says_nothing_that_a_terminal_obeys(capsys):
    assert main(["train", "no\x1b]0;title\x07such\udcff.yaml"]) == 2
    message = capsys.readouterr().err
    assert "\\x1b" in message
    assert not {"\x1b", "\x07", "\udcff"} & set(message)


@pytest.mark.parametrize("variables", [{}, {"OMP_NUM_THREADS": "7", "OMP_WAIT_POLICY": "active"}])
def test_threads_of_a_small_model_are_set_unless_the_user_has_set_them(
    tmp_path, monkeypatch, variables
):
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    set_threads(str(tmp_path))  # of no known size
    assert os.environ.get("OMP_NUM_THREADS") == variables.get("OMP_NUM_THREADS")
    (tmp_path / "model.safetensors").write_bytes(b"0" * 100)
    set_threads(str(tmp_path))
    assert os.environ["OMP_NUM_THREADS"] == variables.get("OMP_NUM_THREADS", "1")
    assert os.environ["OMP_WAIT_POLICY"] == variables.get("OMP_WAIT_POLICY", "passive")


def test_threads_of_another_model_are_no_more_than_a_quota_allows(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    monkeypatch.setattr("maxatk.cli.flags.usable_cores", lambda: 4)
    set_threads(str(tmp_path))
    assert os.environ["OMP_NUM_THREADS"] == "4"
