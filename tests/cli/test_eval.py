import re

import pytest
import yaml

from evaluate.servers import serving
from maxatk.records import Problem, Sample, TestCase, write_jsonl


@pytest.fixture
def evaluating(maxatk, tmp_path):
    tests = (TestCase(input="", output="1\n"),)
    write_jsonl(tmp_path / "p.jsonl", [Problem(f"p{i}", "x", tests).to_json() for i in range(5)])
    files = ("--model", "m", "--problems", "p.jsonl", "--out", "run", "--backend", "openai")
    return lambda *more: maxatk("eval", *files, "--samples", "10", "--max-new-tokens", "7", *more)


def test_a_dry_run_prints_the_plan_and_writes_nothing(evaluating, tmp_path):
    with serving(delay=0.02) as server:
        flags = ("--server.url", server.url, "--judge.workers", "1", "--dry-run")
        done = evaluating(*flags)
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 10  # all samples of one problem
        limited = evaluating(*flags, "--limit", "2")
        assert not (tmp_path / "run").exists()
        found = (Sample("p0", i, "", tokens=1).to_json() for i in range(4))
        write_jsonl(tmp_path / "run" / "samples.jsonl", found)
        resumed = evaluating(*flags)
    plan = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[:3])
    assert plan["problems"] == "5"
    assert plan["samples"] == "50, 0 of them found"
    assert plan["tokens"] == "at most 350, about 400"  # the server's texts have 8 tokens
    assert re.search(r"about \d+ s, from a probe of 10 samples$", done.stdout.rstrip())
    assert "samples    20, 0 of them found" in limited.stdout
    assert "samples    50, 4 of them found" in resumed.stdout
    assert "at most 322, about 368" in resumed.stdout


def test_all_settings_are_shown_and_nothing_is_read(evaluating, tmp_path):
    done = evaluating("--server.url", "http://nowhere/v1", "--problems", "none", "--show-config")
    shown = yaml.safe_load(done.stdout)
    assert shown["problems"] == "none"
    assert shown["sampling"] == {
        "temperature": 1.0,
        "top_p": 1.0,
        "max_new_tokens": 7,
        "seed": 0,
        "samples": 10,
    }
    assert shown["server"]["url"] == "http://nowhere/v1"
    assert shown["judge"]["time_limit"] == 4.0
    assert not (tmp_path / "run").exists()
