import dataclasses

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from maxatk import load_problems
from maxatk.errors import InvalidValueError
from maxatk.mini import MiniSettings, WarmStart, build_mini
from maxatk.mini.problems import Noise
from maxatk.writing import LOCK


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def times(folder):
    return {p: p.stat().st_mtime_ns for p in folder.rglob("*")}


def test_the_folder_holds_problems_and_a_model(built, tiny):
    train = load_problems(built / "train.jsonl")
    test = load_problems(built / "test.jsonl")
    assert (len(train), len(test)) == (tiny.train_problems, tiny.test_problems)
    assert {len(p.tests) for p in train + test} == {tiny.tests}
    assert not {p.prompt for p in train} & {p.prompt for p in test}
    assert len({p.id for p in train + test}) == len(train + test)
    model = AutoModelForCausalLM.from_pretrained(built / "base")
    assert len(AutoTokenizer.from_pretrained(built / "base")) == model.config.vocab_size


def test_the_same_settings_give_the_same_files(built, tiny, tmp_path):
    reports = []
    build_mini(tmp_path / "again", tiny, progress=lambda *report: reports.append(report))
    assert reports == [(step, 20) for step in range(1, 21)]
    assert contents(tmp_path / "again") == contents(built)


def test_a_second_call_does_no_work(built, tiny):
    before = times(built)
    reports = []
    build_mini(built, tiny, progress=lambda *report: reports.append(report))
    assert reports == []
    assert times(built) == before


def test_an_interrupted_build_is_built_again_and_other_settings_are_refused(tiny, tmp_path):
    small = dataclasses.replace(tiny, warm_start=dataclasses.replace(tiny.warm_start, problems=64))
    build_mini(tmp_path, small)
    first = contents(tmp_path)
    (tmp_path / "mini.json").unlink()  # as after a kill: the manifest is written last
    (tmp_path / LOCK).write_text("mini")
    (tmp_path / "base" / "model.safetensors").write_bytes(b"half")
    build_mini(tmp_path, small)
    assert contents(tmp_path) == first
    with pytest.raises(InvalidValueError, match=r"settings\.seed: \d+ in the folder, 4 now"):
        build_mini(tmp_path, dataclasses.replace(small, seed=4))
    assert contents(tmp_path) == first


@pytest.mark.parametrize("field", ["train_problems", "test_problems", "tests"])
def test_settings_that_make_no_sense_are_refused(field):
    with pytest.raises(InvalidValueError, match=f"{field}: must be at least 1, got 0"):
        MiniSettings(**{field: 0})


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (WarmStart, {"warmup_steps": -1}, "warmup_steps: must be at least 0, got -1"),
        (Noise, {"any_stage": 1.5}, "noise.any_stage: must be a chance from 0 to 1, got 1.5"),
        (MiniSettings, {"seed": -1}, "seed: must be from 0, below .*, got -1"),
        (MiniSettings, {"seed": 1 << 63}, "seed: must be from 0, below"),
    ],
)
def test_what_would_end_a_warm_start_or_turn_it_round_is_refused(kind, settings, message):
    with pytest.raises(InvalidValueError, match=message):
        kind(**settings)


def test_the_first_tests_may_be_visible(built, tiny, tmp_path):
    build_mini(tmp_path, dataclasses.replace(tiny, visible_tests=2))
    hidden = load_problems(built / "test.jsonl")
    shown = load_problems(tmp_path / "test.jsonl")
    assert [p.visible_tests for p in shown] == [p.tests[:2] for p in hidden]
    assert [dataclasses.replace(p, visible_tests=()) for p in shown] == hidden
    with pytest.raises(InvalidValueError, match="visible_tests: must be between 0 and tests"):
        MiniSettings(tests=2, visible_tests=3)
