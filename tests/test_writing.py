"""Nothing is lost: no file is written by two processes, and no folder that is somebody else's."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from maxatk.errors import InvalidValueError
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, TestCase
from maxatk.writing import LOCK, OutFolder, atomic_write, check_file, open_alone, write_text
from processes import patience
from tiny import one_thread, tiny_model  # noqa: F401

HOLD = """
import sys, time
from pathlib import Path
from maxatk.writing import OutFolder, atomic_write
path = Path(sys.argv[2])
kind, command = sys.argv[1], sys.argv[3]
held = OutFolder(path, command, ()).alone() if kind == "folder" else atomic_write(path)
with held:
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other_process():
    """Return a function that starts a process which writes a file or a folder for ever."""
    started = []

    def hold(kind, path, command="eval"):
        program = [sys.executable, "-c", HOLD, kind, str(path), command]
        process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()


def test_a_file_that_another_process_writes_is_refused_until_it_ends(tmp_path, other_process):
    path = tmp_path / "a.json"
    other = other_process("file", path)
    with pytest.raises(InvalidValueError, match="another process is writing there"):
        write_text(path, "mine")
    assert not path.exists()
    other.kill()
    other.wait()
    write_text(path, "mine")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.json", "mine")]


def test_a_folder_that_another_process_writes_is_refused_until_it_ends(tmp_path, other_process):
    out = OutFolder(tmp_path / "run", "eval", ())
    other = other_process("folder", out.path)
    with pytest.raises(InvalidValueError, match="another process is writing there"):
        out.check()
    with pytest.raises(InvalidValueError, match="another process"), out.alone():
        pass
    other.kill()
    other.wait()
    assert (out.path / LOCK).is_file()  # which says that the folder is ours
    with out.alone():
        write_text(out.path / "a.json", "1")
    assert [file.name for file in out.path.iterdir()] == ["a.json"]


def test_a_file_that_was_replaced_while_it_was_waited_for_is_not_written(tmp_path):
    path = tmp_path / "a"
    first = open_alone(path)
    path.unlink()
    second = open_alone(path)  # another file of the same name
    second.write(b"2")
    second.close()
    first.close()
    assert path.read_bytes() == b"2"


def write_half(path, error):
    with atomic_write(path) as partial:
        partial.write_text("half")
        raise error


def test_a_write_that_fails_leaves_what_was_there_and_no_part_of_itself(tmp_path):
    path = tmp_path / "a.json"
    write_text(path, "before")
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            write_half(path, error)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.json", "before")]


@pytest.mark.parametrize("planted", ["a.json", "a.json.partial"])
def test_no_link_is_followed_out_of_the_folder(tmp_path, planted):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / planted).symlink_to(outside)
    with atomic_write(folder / "a.json") as partial:
        partial.write_text("ours")
    assert outside.read_text() == "mine"
    assert (folder / "a.json").read_text() == "ours"
    assert not (folder / "a.json").is_symlink()


def test_a_home_that_no_shell_has_written_out_is_no_folder_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValueError, match=r"^out: '~/runs' begins with ~"):
        OutFolder(Path("~/runs"), "eval", ()).check()
    with pytest.raises(InvalidValueError, match=r"^--out: '~' begins with ~"):
        check_file("--out", Path("~/scores.jsonl"))
    (tmp_path / "~").mkdir()
    OutFolder(Path("~/runs"), "eval", ()).check()


def test_a_path_of_another_kind_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(InvalidValueError, match="must be a folder"):
        OutFolder(tmp_path / "file", "eval", ()).check()
    with pytest.raises(InvalidValueError, match=r"out: '.*/file' is a file, and must be a folder"):
        OutFolder(tmp_path / "file" / "a", "eval", ()).check()
    with pytest.raises(InvalidValueError, match=r"--out: '.*/file' is a file, and must be"):
        check_file("--out", tmp_path / "file" / "a")
    with pytest.raises(InvalidValueError, match="must be a file"):
        write_text(tmp_path / "folder", "")
    with pytest.raises(InvalidValueError, match="must be a folder"):
        write_text(tmp_path / "file" / "a" / "b", "")


@pytest.fixture
def here(tmp_path, tiny_model):  # noqa: F811
    """Return a folder with a model, problems, samples, rewards, and one of somebody else's."""
    (tmp_path / "m").symlink_to(tiny_model)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").write_text("years of work")
    problem = Problem("p0", "print(1)", (TestCase(input="", output="1\n"),))
    write_jsonl(tmp_path / "p.jsonl", [problem.to_json()])
    samples = [{"problem_id": "p0", "sample": n, "completion": "print(1)"} for n in range(2)]
    write_jsonl(tmp_path / "s.jsonl", samples)
    for step in (1, 2):
        rows = [{"problem_id": "p0", "sample": n, "reward": n} for n in range(2)]
        write_jsonl(tmp_path / f"r{step}.jsonl", rows)
    on_cpu = {"bf16": False, "use_cpu": True}
    trainer = {
        "num_generations": 2,
        "per_device_train_batch_size": 2,
        "max_steps": 1,
        **on_cpu,
        "max_completion_length": 4,
    }
    train = {"model": "m", "problems": "p.jsonl", "trainer": {**trainer, "k": 1}}
    sampling = {"samples": 2, "max_new_tokens": 4}
    drawn = {"eval": {"sampling": sampling}, "trainer": on_cpu}
    distill = {"model": "m", "problems": "p.jsonl", "k": 2, **drawn}
    study = {
        "title": "t",
        "seeds": [0],
        "model": "m",
        # Without a step no trainer is asked, in a process of its own that takes seconds to start.
        "train": {"problems": "p.jsonl", "trainer": {**trainer, "k": 1, "max_steps": 0}},
        "eval": {"problems": "p.jsonl", "sampling": sampling},
        "grids": [{"way": {"a": {}}}],
    }
    for name, recipe in (("train", train), ("distill", distill), ("study", study)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(recipe))
    return tmp_path


def contents(folder):
    """Return what every file of a folder holds, by its path."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SAMPLING = "--samples 2 --max-new-tokens 4 --problems p.jsonl --verifier.workers 1 --progress none"
SAMPLES = "--problems p.jsonl --samples s.jsonl --verifier.workers 1"
COMMANDS = {
    "train": "train train.yaml out={out}",
    "train, dry": "train train.yaml out={out} --dry-run",
    "distill": "distill distill.yaml out={out}",
    "distill, dry": "distill distill.yaml out={out} --dry-run",
    "eval": f"eval --model m --out {{out}} {SAMPLING}",
    "eval, dry": f"eval --model m --out {{out}} {SAMPLING} --dry-run",
    "study": "study study.yaml out={out}",
    "study, dry": "study study.yaml out={out} --dry-run",
    "score": f"score {SAMPLES} --out {{out}}",
    "score, dry": f"score {SAMPLES} --out {{out}} --dry-run",
    "rewards": "score --rewards r1.jsonl --out {out}",
    "steps": "score --rewards r1.jsonl r2.jsonl --out {out}",
    "mini": "mini {out}",
    "hub": "export judged --to hub --out {out}",
}
FILE_COMMANDS = {
    "prepare": "problems prepare table --file p.jsonl --map prompt=prompt --out {out}.jsonl",
    "check": "problems check p.jsonl --drop {out}.jsonl",
    "select": "problems select judged --problems p.jsonl --out {out}.jsonl",
    "problems export": "problems export p.jsonl --for verl --out {out}.parquet",
    "export": "export judged --to jsonl --out {out}.jsonl",
    "report": "report judged --out {out}.html",
}
READ_A_MODEL = [name for name in COMMANDS if name.startswith(("train", "distill", "eval", "study"))]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_this_package_did_not_write_is_refused(here, maxatk, name):
    assert maxatk("score", "--rewards", "r1.jsonl", "--out", "judged").returncode == 0
    before = contents(here)
    for out in ("theirs", "p.jsonl"):
        done = maxatk(*COMMANDS[name].format(out=out).split())
        assert done.returncode == 2, done.stdout + done.stderr
        assert "thesis.tex" in done.stderr or "must be a folder" in done.stderr
        assert contents(here) == before


FILES_OF_OTHERS = {
    "train.json": ("[1]", '{"data": []}', "{"),
    "manifest.json": ('{"name": "a page"}', '{"settings": 1}', ""),
    "results.json": ('{"format": 3, "models": 1}', "null"),
    "mini.json": ('{"name": "car"}',),
    "samples.jsonl": ('{"prompt": "a"}',),
    "README.md": ("# Mine",),
    "stages.json": ('{"a": "b"}', "{}"),
    "work/data.txt": ("mine",),
    "logs/a.log": ("mine",),
    "recipes/cake.txt": ("mine",),
}


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.endswith(", dry")])
def test_a_file_of_a_common_name_makes_no_folder_one_of_the_commands_own(here, maxatk, name):
    assert maxatk("score", "--rewards", "r1.jsonl", "--out", "judged").returncode == 0
    for file, (content, *_) in FILES_OF_OTHERS.items():
        path = here / "mine" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    before = contents(here)
    done = maxatk(*COMMANDS[name].format(out="mine").split())
    assert done.returncode == 2
    assert "did not write" in done.stderr or "holds one run" in done.stderr
    assert contents(here) == before


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("mini", "mini.json", FILES_OF_OTHERS["mini.json"]),
        ("hub", "README.md", FILES_OF_OTHERS["README.md"]),
        ("steps", "train.json", FILES_OF_OTHERS["train.json"]),
        ("rewards", "manifest.json", FILES_OF_OTHERS["manifest.json"]),
        ("study, dry", "results.json", FILES_OF_OTHERS["results.json"]),
    ],
)
def test_the_content_of_a_file_says_whose_the_folder_is(here, maxatk, name, file, content):
    assert maxatk("score", "--rewards", "r1.jsonl", "--out", "judged").returncode == 0
    (here / "mine").mkdir()
    for text in content:
        (here / "mine" / file).write_text(text)
        before = contents(here)
        done = maxatk(*COMMANDS[name].format(out="mine").split())
        assert done.returncode == 2
        assert f"has {file}, which `maxatk" in done.stderr
        assert contents(here) == before


def test_a_study_does_not_take_the_folder_of_an_evaluation(here, maxatk):
    assert maxatk("score", "--rewards", "r1.jsonl", "--out", "judged").returncode == 0
    done = maxatk("study", "study.yaml", "out=judged", "--dry-run")
    assert done.returncode == 2
    assert "which `maxatk study` did not write" in done.stderr


@pytest.mark.parametrize("name", ["steps", "rewards", "hub"])
def test_a_command_writes_its_own_folder_again(here, maxatk, name):
    assert maxatk("score", "--rewards", "r1.jsonl", "--out", "judged").returncode == 0
    for _ in range(2):
        done = maxatk(*COMMANDS[name].format(out="own").split())
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", READ_A_MODEL)
def test_the_models_own_folder_is_no_place_for_what_is_made_of_it(here, maxatk, tiny_model, name):  # noqa: F811
    before = contents(here) | contents(tiny_model)
    for out in ("m", "./theirs/../m", tiny_model, "m/inside", tiny_model.parent):
        done = maxatk(*COMMANDS[name].format(out=out).split())
        assert done.returncode == 2
        assert " model, 'm', which would be written over" in done.stderr
    assert contents(here) | contents(tiny_model) == before


# A plan is also for looking at a run that is under way, and the other process writes one of eval.
@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"eval, dry", "score, dry"}))
def test_no_command_writes_where_another_process_does(here, maxatk, other_process, name):
    assert maxatk("score", "--rewards", "r1.jsonl", "--out", "judged").returncode == 0
    other_process("folder", here / "taken")
    done = maxatk(*COMMANDS[name].format(out="taken").split())
    assert done.returncode == 2
    assert "did not write" in done.stderr or "another process is writing there" in done.stderr
    assert [file.name for file in (here / "taken").iterdir()] == [LOCK]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.endswith(", dry")])
def test_a_plan_is_made_while_the_same_run_is_under_way(here, maxatk, other_process, name):
    planned = maxatk(*COMMANDS[name].format(out="taken").split())
    assert planned.returncode == 0, planned.stderr
    command = "eval" if name == "score, dry" else name.removesuffix(", dry")
    other_process("folder", here / "taken", command)
    before = contents(here)
    again = maxatk(*COMMANDS[name].format(out="taken").split())
    assert again.returncode == 0, again.stderr
    assert again.stdout == planned.stdout
    assert contents(here) == before
    without_dry_run = maxatk(*COMMANDS[name].format(out="taken").split()[:-1])
    assert "another process is writing there" in without_dry_run.stderr


@pytest.mark.parametrize("name", [*COMMANDS, *FILE_COMMANDS])
def test_a_place_where_nothing_can_be_written_is_refused_before_any_work(here, maxatk, name):
    assert maxatk("score", "--rewards", "r1.jsonl", "--out", "judged").returncode == 0
    command = {**COMMANDS, **FILE_COMMANDS}[name]
    before = contents(here)
    for out in ("/proc/maxatk", "/proc/maxatk/a"):  # where root may not write either
        done = maxatk(*command.format(out=out).split())
        assert done.returncode == 2, done.stdout + done.stderr
        assert re.search(r"(out|drop): nothing can be written to '/proc", done.stderr), done.stderr
        assert "'/proc' takes no file" in done.stderr
        assert contents(here) == before


def test_no_device_is_replaced_by_a_file(here, maxatk):
    assert maxatk("score", "--rewards", "r1.jsonl", "--out", "judged").returncode == 0
    os.mkfifo(here / "pipe.jsonl")
    for arguments in (
        "export judged --to jsonl --out pipe.jsonl",
        "problems select judged --problems p.jsonl --out pipe.jsonl",
    ):
        done = maxatk(*arguments.split())
        assert done.returncode == 2
        assert "--out: 'pipe.jsonl' is a device or a pipe, and must be a file" in done.stderr
    assert (here / "pipe.jsonl").is_fifo()
    with pytest.raises(InvalidValueError, match="is a device or a pipe"):
        write_text(here / "pipe.jsonl", "")


def test_what_a_folder_holds_is_looked_at_without_the_right_to_write_there():
    out = OutFolder(Path("/proc/maxatk"), "mini", ())
    out.check_content()
    with pytest.raises(InvalidValueError, match="nothing can be written to '/proc/maxatk'"):
        out.check()


@pytest.mark.parametrize(
    "arguments",
    [
        "problems prepare table --file p.jsonl --map prompt=prompt --out p.jsonl",
        "problems prepare table --file p.jsonl --map prompt=prompt --out s.jsonl",
        "problems check p.jsonl --drop p.jsonl",
        "problems select judged --problems p.jsonl --out p.jsonl",
        "problems select judged --problems p.jsonl --out judged/scores.jsonl",
        "export judged --to jsonl --out judged/scores.jsonl",
        "report judged --out judged/results.json",
        "report judged --out page.pdf",
        "report judged --out .",
    ],
)
def test_no_file_is_lost_to_another(here, maxatk, arguments):
    assert maxatk("score", "--rewards", "r1.jsonl", "--out", "judged").returncode == 0
    before = contents(here)
    done = maxatk(*arguments.split())
    assert done.returncode == 2
    assert "Errno" not in done.stderr
    assert contents(here) == before


def test_two_preparations_of_one_file_leave_it_whole(tmp_path):
    rows = [{"id": f"q{n}", "question": f"What is {n}?", "answer": n} for n in range(3000)]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    command = "problems prepare table --file rows.jsonl --map prompt=question id=id --out o.jsonl"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "maxatk", *command.split()],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    printed = [process.communicate(timeout=patience(120))[1] for process in processes]
    assert min(process.returncode for process in processes) == 0
    for process, stderr in zip(processes, printed, strict=True):
        assert process.returncode == 0 or "o.work: another process is writing there" in stderr
    problems = [json.loads(line)["id"] for line in (tmp_path / "o.jsonl").open()]
    assert problems == [row["id"] for row in rows]
    assert not (tmp_path / "o.work").exists()


def test_an_evaluation_goes_on_with_its_model_under_another_name(here, maxatk):
    for model in ("m", "renamed"):
        if model == "renamed":
            (here / "renamed").symlink_to((here / "m").resolve())
        done = maxatk(*f"eval --model {model} --out run {SAMPLING}".split())
        assert done.returncode == 0, done.stderr


def test_a_finished_training_is_known_by_the_weights_it_started_from(here, maxatk):
    assert maxatk("train", "train.yaml", "out=run").returncode == 0
    (here / "renamed").symlink_to((here / "m").resolve())
    began = time.time()
    done = maxatk("train", "train.yaml", "out=run", "model=renamed")
    assert done.returncode == 0, done.stderr
    assert (here / "run" / "train.json").stat().st_mtime < began
