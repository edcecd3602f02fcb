"""One value of a file or of a server's answer is damaged: a named error, or right without it."""

import contextlib
import csv
import io
import json
import random
import shutil

import pyarrow
import pytest
import yaml
from pyarrow import parquet

from maxatk.cli.main import main
from maxatk.errors import MaxAtKError
from maxatk.folders import write_json
from maxatk.jsonl import write_jsonl
from maxatk.records import Problem, Sample, TestCase
from maxatk.studies.check import refusal_of, trainings_of
from maxatk.studies.recipe import load_study
from maxatk.studies.schedule import planned, seeded_models
from maxatk.training.group_log import GROUPS
from sampling.servers import serving

CASES = 500
VALUES = (
    *(None, True, -1, 0, 1.5, 10**400, 1e308, float("nan"), float("inf"), "", "x", "\x1b[2J"),
    *("9" * 5000, "\ud800", [], [None], {}, {"x": []}, [[1]], ["a", 1], "\u2028", -(10**18)),
)
TESTS = (TestCase(input="", output="1\n"),)
BYTES = (b"\xff", b"\0", b"\n", b"[" * 10**5)
YAML = (
    *("&a [*a]", "<<: {}", "!!python/name:os.system", "extends: eval.yaml", "- - - x", "%TAG ! x"),
    *("x: 2001-01-01", "!!set {a}", "\t", "a: [" + "&b [" * 500, "k: " + "9" * 5000, "x: 1e400"),
)
MBPP = [
    {
        "task_id": i,
        "text": "Add.",
        "code": "def add(a, b):\n    return a + b\n",
        "test_list": ["assert add(1, 2) == 3"],
        "test_setup_code": "",
    }
    for i in range(11, 14)
]
RECIPES = {
    "eval.yaml": {
        "problems": "p.jsonl",
        "model": "m",
        "out": "new",
        "reward": [{"reward": "continuous", "weight": 0.5}, {"reward": "binary"}],
        "k": [1, 2],
        "sampling": {"samples": 4, "temperature": 1.0},
        "verifier": {"memory_limit_mb": 512, "time_limit": 2.0},
    },
    "train.yaml": {
        "model": "m",
        "problems": "p.jsonl",
        "out": "new",
        "reward": {"reward": "continuous"},
        "verifier": {"time_limit": 1.0},
        "peft": {"r": 4, "target_modules": ["q_proj"]},
        "trainer": {
            "method": {"credit": {"cvar": 0.5, "of": 4}, "baseline": "remove_one"},
            "num_generations": 8,
            "per_device_train_batch_size": 8,
            "learning_rate": 1.0e-4,
            "max_steps": 2,
            "bf16": False,
            "use_cpu": True,
        },
    },
    "study.yaml": {
        "title": "t",
        "out": "new",
        "seeds": [1, 2],
        "mini": {"train_problems": 8, "test_problems": 4},
        "train": {
            "verifier": {"workers": 1},
            "trainer": {
                "num_generations": 8,
                "per_device_train_batch_size": 8,
                "max_steps": 1,
                "bf16": False,
                "use_cpu": True,
            },
            "distill": {"trainer": {"bf16": False, "use_cpu": True}},
        },
        "eval": {"sampling": {"samples": 4}},
        "pairs": [["a", "b"]],
        "grids": [{"way": {"a": {"trainer.k": 2}, "b": {"distill.k": 4}}}],
    },
    "sets.yaml": {
        "seed": 1,
        "sets": {"a": {"benchmark": "mbpp", "file": "mbpp.parquet", "parts": {"x": 1, "y": 2}}},
    },
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a folder with a finished run, its problems and samples, and rewards from outside."""
    folder = tmp_path_factory.mktemp("whole")
    problems = [Problem(f"p{i}", "x", TESTS, meta={"level": i % 2}) for i in range(3)]
    programs = ("print(1)", "print(2)", "raise ValueError")
    samples = [
        Sample(p.id, s, program, 5, "stop", -1.5, 0.2)
        for p in problems
        for s, program in enumerate(programs)
    ]
    write_jsonl(folder / "p.jsonl", [problem.to_json() for problem in problems])
    write_jsonl(folder / "s.jsonl", [sample.to_json() for sample in samples])
    rewards = [{"problem_id": s.problem_id, "sample": s.sample, "reward": 0.5} for s in samples]
    write_jsonl(folder / "r.jsonl", rewards)
    (folder / "r.csv").write_text(as_csv(rewards))
    parquet.write_table(pyarrow.Table.from_pylist(rewards), folder / "r.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(MBPP), folder / "mbpp.parquet")
    for name, recipe in RECIPES.items():
        (folder / name).write_text(yaml.safe_dump(recipe))
    flags = ("--problems", folder / "p.jsonl", "--samples", folder / "s.jsonl")
    more = ("--out", folder / "run", "--verifier.workers", 1, "--progress", "none")
    assert main([str(part) for part in ("score", *flags, *more)]) == 0
    shutil.copy(folder / "s.jsonl", folder / "run" / "samples.jsonl")
    log = [{"step": n, "loss": 0.1, "reward": 0.5, "entropy": 1.0, "epoch": 0.1} for n in (1, 2)]
    (folder / "trained").mkdir()
    write_json(folder / "trained" / "train.json", {"recipe": {}, "log_history": log})
    (folder / "logged").mkdir()
    lines = [{"step": row["step"], "log": row} for row in log]
    write_jsonl(folder / "logged" / GROUPS, [{"step": 0, "training": {"k": 2}}, *lines])
    return folder


def damaged(value, number, chance):
    """Return a JSON value in which the place of this number, and the number of its places."""
    if number == 0:
        return chance.choice(VALUES), 1
    places = 1
    if isinstance(value, dict):
        changed = {}
        for key, inner in value.items():
            changed[key], count = damaged(inner, number - places, chance)
            places += count
        return changed, places
    if isinstance(value, list):
        parts = []
        for inner in value:
            part, count = damaged(inner, number - places, chance)
            parts.append(part)
            places += count
        return parts, places
    return value, places


def as_csv(rows):
    """Return rows as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def one_damaged(value, chance):
    """Return a JSON value with another one at one of its places."""
    _, places = damaged(value, -1, chance)
    return damaged(value, chance.randrange(places), chance)[0]


def in_lines(data, chance):
    lines = data.decode().splitlines()
    at = chance.randrange(len(lines))
    lines[at] = json.dumps(one_damaged(json.loads(lines[at]), chance))
    return "\n".join([*lines, ""]).encode()


def in_json(data, chance):
    return json.dumps(one_damaged(json.loads(data), chance)).encode()


def in_yaml(data, chance):
    if chance.random() < 0.3:
        lines = data.decode().splitlines()
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(YAML))
        return "\n".join(lines).encode()
    return yaml.safe_dump(one_damaged(yaml.safe_load(data), chance)).encode()


def in_csv(data, chance):
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    row = chance.choice(rows)
    row[chance.choice(list(row))] = chance.choice(VALUES)
    return as_csv(rows).encode("utf-8", "surrogatepass")


def in_parquet(data, chance):
    """Give one column other values, of a type that Arrow has."""
    rows = parquet.read_table(pyarrow.BufferReader(data)).to_pylist()
    name = chance.choice(list(rows[0]))
    value = chance.choice(VALUES)
    out = io.BytesIO()
    try:
        changed = [{**row, name: value} for row in rows]
        parquet.write_table(pyarrow.Table.from_pylist(changed), out)
    except (pyarrow.ArrowException, OverflowError, UnicodeEncodeError):
        return in_bytes(data, chance)
    return out.getvalue()


def in_bytes(data, chance):
    place = chance.randrange(len(data))
    return data[:place] + chance.choice(BYTES) + data[place + chance.randrange(2) :]


KINDS = {
    ".jsonl": in_lines,
    ".json": in_json,
    ".yaml": in_yaml,
    ".csv": in_csv,
    ".parquet": in_parquet,
}


def damage(path, chance):
    """Damage one value of a file, or one byte of it."""
    damaging = in_bytes if chance.random() < 0.1 else KINDS[path.suffix]
    path.write_bytes(damaging(path.read_bytes(), chance))


COMMANDS = {
    "run/scores.jsonl": ("compare", "select", "export", "page", "diagnose"),
    "run/samples.jsonl": ("compare", "select", "export", "page"),
    "run/results.json": ("compare", "page", "diagnose"),
    "run/manifest.json": ("compare", "page"),
    "run/failures.jsonl": ("page",),
    "p.jsonl": ("export", "score", "problems"),
    "s.jsonl": ("score",),
    "r.jsonl": ("rewards", "compare rewards"),
    "r.csv": ("rewards of csv",),
    "r.parquet": ("rewards of parquet",),
    "mbpp.parquet": ("prepare",),
    "eval.yaml": ("show",),
    "train.yaml": ("show training",),
    "logged/groups.jsonl": ("diagnose groups",),
    "trained/train.json": ("diagnose training",),
    "sets.yaml": ("sets",),
}
ARGUMENTS = {
    "compare": "compare a=run b=copy --k 1",
    "select": "select run --by majority likelihood",
    "diagnose": "diagnose run --n 2 --best-of 2",
    "export": "export run --to jsonl --problems p.jsonl --out e.jsonl",
    "page": "report a=run b=copy --out page.html",
    "score": "score --problems p.jsonl --samples s.jsonl --out new --dry-run --verifier.workers 1",
    "problems": "problems select run --problems p.jsonl --out q.jsonl",
    "rewards": "score --rewards r.jsonl --out judged --problems p.jsonl",
    "rewards of csv": "score --rewards r.csv --out judged --problems p.jsonl",
    "rewards of parquet": "score --rewards r.parquet --out judged --problems p.jsonl",
    "prepare": "problems prepare mbpp --file mbpp.parquet --out q.jsonl --progress none",
    "show": "eval eval.yaml --show-config",
    "show training": "train train.yaml --show-config",
    "diagnose training": "diagnose trained",
    "diagnose groups": "diagnose logged",
    "sets": "problems prepare sets.yaml --out made --progress none",
    "compare rewards": "compare a=r.jsonl b=run --allow-other-problems",
}


@pytest.mark.long
def test_a_damaged_value_anywhere_ends_in_a_named_error_or_a_right_result(
    whole, tmp_path, monkeypatch, capsys
):
    chance = random.Random(20)
    monkeypatch.chdir(tmp_path)
    names = list(COMMANDS)
    for case in range(CASES):
        name = names[case % len(names)]
        commands = COMMANDS[name]
        command = chance.choice([c for c in commands if c != "page"] or commands)
        if "page" in commands and case % 200 < len(names):  # a page takes a second
            command = "page"
        for old in tmp_path.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
            else:
                old.unlink()
        shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
        shutil.copytree(whole / "run", tmp_path / "copy")
        damage(tmp_path / name, chance)
        status = main(ARGUMENTS[command].split())
        printed = capsys.readouterr()
        where = (case, name, command, printed.err[-300:])
        assert status in (0, 2), where
        assert "\x1b" not in printed.out + printed.err, where
        assert status == 0 or printed.err.startswith(("maxatk: ", "note: ", "warning: ")), where


def test_a_damaged_recipe_of_a_study_is_refused_with_a_name_or_gives_its_stages(whole, tmp_path):
    pytest.importorskip("trl", reason="the trainer checks the settings of a study")
    chance = random.Random(21)
    path = tmp_path / "study.yaml"
    whole_recipe = (whole / "study.yaml").read_bytes()
    accepted = 0
    for _ in range(60):
        path.write_bytes(whole_recipe)
        damage(path, chance)
        with contextlib.suppress(MaxAtKError):
            study = load_study(path)
            all_models = seeded_models(study)
            assert planned(study, all_models, cores=2, jobs=1)
            refusal = refusal_of(trainings_of(study, all_models))
            assert refusal is None or isinstance(refusal, str)
            accepted += 1
    assert 0 < accepted < 60


ANSWER = {
    "choices": [
        {
            "text": "print(1)",
            "message": {"content": "print(1)"},
            "finish_reason": "stop",
            "logprobs": {"token_logprobs": [-1.0], "content": [{"logprob": -1.0}]},
        }
    ],
    "usage": {"completion_tokens": 3},
}
ASKING = {
    "eval": "eval --model m --problems p.jsonl --out asked --samples 2 --max-new-tokens 4",
    "solve": "solve --problems p.jsonl --id p0 --model m -n 2 --max-new-tokens 4",
}


def hostile(chance):
    """Return an answer of a server in which one value, or one byte, is another."""
    if chance.random() < 0.2:
        return in_bytes(json.dumps(ANSWER).encode(), chance)
    return json.dumps(one_damaged(ANSWER, chance)).encode()


@pytest.mark.long
@pytest.mark.parametrize("command", ASKING)
def test_a_hostile_answer_of_a_server_ends_in_a_named_error_or_a_right_result(
    whole, tmp_path, monkeypatch, capsys, command
):
    chance = random.Random(21)
    monkeypatch.chdir(tmp_path)
    shutil.copy(whole / "p.jsonl", tmp_path)
    for case in range(25):
        shutil.rmtree(tmp_path / "asked", ignore_errors=True)
        flags = "--backend openai --server.retries 0 --server.concurrency 1 --verifier.workers 1"
        with serving([hostile(chance)]) as server:
            arguments = [*ASKING[command].split(), *flags.split(), "--server.url", server.url]
            status = main(arguments)
            printed = capsys.readouterr()
            where = (case, status, printed.err[-500:])
            assert status in (0, 1, 2) if command == "solve" else status in (0, 2), where
            assert "Traceback" not in printed.err, where
            assert "\x1b[2J" not in printed.out + printed.err, where
            if command == "eval":  # the answers that follow are right, and so is what is stored
                assert main(arguments) == 0, where
                assert "samples" in capsys.readouterr().out
                stored = (tmp_path / "asked" / "samples.jsonl").read_text().splitlines()
                assert len(stored) == 6, where
                assert all(Sample.from_json(json.loads(line)) for line in stored), where
