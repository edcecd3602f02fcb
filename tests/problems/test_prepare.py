import json
import multiprocessing
import os
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxatk import load_problems
from maxatk.errors import DataError, InvalidValueError, MissingFileError
from maxatk.jsonl import read_jsonl
from maxatk.problems import PrepareSettings, prepare, read_sets
from maxatk.problems.prepare import split_ids
from maxatk.records import Sample
from maxatk.settings import from_mapping
from problems.rows import codeforces_row, contest_row, mbpp_row
from processes import patience

ODD = mbpp_row(99, tests=["assert f(x) == 1"])


def settings(benchmark, path, **more):
    recipe = {"benchmark": benchmark, "file": str(path), **more}
    return from_mapping(PrepareSettings, recipe, where="settings")


def ids(path):
    return [problem.id for problem in load_problems(path)]


def contests(count):
    return [contest_row(f"{n}_A. Sum", difficulty=n % 5) for n in range(1, count + 1)]


def test_every_row_is_kept_or_left_out_for_a_counted_reason(rows_file, tmp_path):
    path = rows_file(
        mbpp_row(1), ODD, mbpp_row(2), mbpp_row(1), mbpp_row(3, tests=["assert f(1) == 1"] * 3)
    )
    out = tmp_path / "out" / "mbpp.jsonl"
    manifest = prepare(settings("mbpp", path), out)
    assert ids(out) == ["mbpp/1", "mbpp/2", "mbpp/3"]
    counts = manifest["counts"]
    assert counts["left_out"] == {
        "an assert is not of the form: f(literals) == literal": 1,
        "an earlier row has its id": 1,
    }
    assert counts["rows"] == counts["kept"] + sum(counts["left_out"].values()) == 5
    assert (counts["tests"], counts["duplicates"], counts["with_duplicates"]) == (5, 2, 1)
    listed = [json.loads(line) for line in (out.parent / "mbpp.left_out.jsonl").open()]
    assert [row["row_id"] for row in listed] == ["mbpp/99", "mbpp/1"]
    samples = list(read_jsonl(out.parent / "mbpp.solutions.jsonl", Sample.from_json))
    assert [sample.problem_id for sample in samples] == ids(out)
    assert not (out.parent / "mbpp.work").exists()


def test_difficulty_and_length_are_counted_one_after_the_other(rows_file, tmp_path):
    long = contest_row("100_A. Sum", difficulty=1, description="long " * 200)
    path = rows_file(*contests(10), long)
    manifest = prepare(
        settings(
            "code_contests",
            path,
            options={"max_difficulty": 3},
            tokenizer="none",
            max_prompt_tokens=100,
        ),
        tmp_path / "out.jsonl",
        count_tokens=lambda prompt: len(prompt.split()),
    )
    assert manifest["counts"]["left_out"] == {
        "its difficulty is above 3": 2,
        "its prompt is longer than 100 tokens": 1,
    }
    assert manifest["counts"]["kept"] == 8


def test_problems_with_long_solutions_or_none_are_left_out_and_counted(rows_file, tmp_path):
    codes = {7: "def add_all(xs, n): return 1", 8: "def add_all(xs, n): return 12", 9: ""}
    rows = [mbpp_row(number, code=code) for number, code in codes.items()]
    manifest = prepare(
        settings("mbpp", rows_file(*rows), options={"form": "asserts"}, max_solution_length=28),
        tmp_path / "out.jsonl",
    )
    assert ids(tmp_path / "out.jsonl") == ["mbpp/7"]
    assert manifest["counts"]["left_out"] == {
        "has no solution of at most 28 characters": 1,
        "the asserts do not call exactly one function of its code": 1,
    }


def test_the_same_settings_give_the_same_bytes(rows_file, tmp_path):
    path = rows_file(*contests(40))
    chosen = settings("code_contests", path, parts={"train": 9, "test": 1}, seed=3)
    made = []
    for name in ("a", "b"):
        prepare(chosen, tmp_path / name / "out.jsonl")
        made.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert made[0] == made[1]
    assert set(made[0]) == {
        *("out-train.jsonl", "out-test.jsonl", "out.manifest.json", "out.left_out.jsonl"),
        *("out-train.solutions.jsonl", "out-test.solutions.jsonl"),
    }
    other = settings("code_contests", path, parts={"train": 9, "test": 1}, seed=4)
    prepare(other, tmp_path / "c" / "out.jsonl")
    assert ids(tmp_path / "c" / "out-test.jsonl") != ids(tmp_path / "a" / "out-test.jsonl")


IDS = st.lists(st.text(min_size=1), min_size=20, max_size=200, unique=True)


@given(IDS, st.integers(0, 99), st.randoms())
def test_a_split_is_exact_in_proportion_and_blind_to_the_order(names, seed, random):
    parts = {"train": 2490, "test": 276}
    split = split_ids(names, parts, seed=seed)
    assert set(split) == set(names)
    train = sum(part == "train" for part in split.values())
    assert train == round(len(names) * 2490 / 2766)
    random.shuffle(names)
    assert split_ids(names, parts, seed=seed) == split


def test_the_papers_total_gives_the_papers_parts():
    parts = list(split_ids(map(str, range(2766)), {"train": 2490, "test": 276}, seed=0).values())
    assert (parts.count("train"), parts.count("test")) == (2490, 276)


def test_a_part_that_would_be_empty_is_refused():
    with pytest.raises(InvalidValueError, match="parts: 'test' would get none of 2 problems"):
        split_ids(["a", "b"], {"train": 9, "test": 1}, seed=0)


def test_problems_of_another_data_set_are_left_out_by_id_and_alias(rows_file, tmp_path):
    taken = [
        contest_row("2050_A. Two", cf_contest_id=0, cf_index=""),
        contest_row("x", cf_contest_id=2049, cf_index="D"),
    ]
    path = rows_file(
        codeforces_row("2050/A"),
        codeforces_row("2051/F", aliases=["2049/D"]),
        codeforces_row("2060/A"),
        name="cf.jsonl",
    )
    overlap = {"file": str(rows_file(*taken, name="taken.jsonl"))}
    manifest = prepare(settings("codeforces", path, overlap=overlap), tmp_path / "out.jsonl")
    assert manifest["counts"]["left_out"] == {"is in code_contests too": 2}
    assert ids(tmp_path / "out.jsonl") == ["codeforces/2060/A"]
    (described,) = manifest["overlap"]
    assert described["files"][0]["name"] == "taken.jsonl"
    prepare(settings("code_contests", overlap["file"]), tmp_path / "taken-prepared.jsonl")
    again = {"file": str(tmp_path / "taken-prepared.jsonl")}
    manifest = prepare(settings("codeforces", path, overlap=again), tmp_path / "again.jsonl")
    assert manifest["counts"]["left_out"] == {"is in code_contests too": 1}  # an id keeps no column


def test_bad_rows_stop_the_work_or_are_left_out_with_their_place(rows_file, tmp_path):
    path = rows_file(mbpp_row(1), {"task_id": 2}, mbpp_row(3))
    with pytest.raises(DataError, match="row 1: missing column 'test_list'"):
        prepare(settings("mbpp", path), tmp_path / "out.jsonl")
    manifest = prepare(settings("mbpp", path, bad_rows="leave_out"), tmp_path / "out.jsonl")
    assert manifest["counts"]["left_out"] == {"bad row: KeyError('test_list')": 1}
    (listed,) = map(json.loads, (tmp_path / "out.left_out.jsonl").open())
    assert listed["row_id"].endswith("rows.jsonl, row 1")


def test_the_first_row_is_checked_before_work(rows_file, tmp_path):
    with pytest.raises(DataError, match="row 0: missing column"):
        prepare(
            settings("mbpp", rows_file({"id": 1}), bad_rows="leave_out"), tmp_path / "out.jsonl"
        )
    assert list(tmp_path.glob("out*")) == []


def test_a_finished_file_is_left_alone_and_other_settings_make_it_anew(rows_file, tmp_path):
    path = rows_file(*[mbpp_row(n) for n in range(5)])
    out = tmp_path / "out.jsonl"
    first = prepare(settings("mbpp", path), out)
    os.utime(out, (1, 1))
    assert prepare(settings("mbpp", path), out) == first
    assert out.stat().st_mtime == 1
    prepare(settings("mbpp", path, limit=2), out)
    assert ids(out) == ["mbpp/0", "mbpp/1"]
    out.unlink()
    prepare(settings("mbpp", path, limit=2), out)
    assert ids(out) == ["mbpp/0", "mbpp/1"]
    prepare(settings("mbpp", rows_file(mbpp_row(7))), out)
    assert ids(out) == ["mbpp/7"]


def _prepare_slowly(path, out):
    def slow(_done, _total):
        time.sleep(0.01)

    prepare(settings("code_contests", path), out, progress=slow)


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_killed_preparation_goes_on_and_gives_the_same_bytes(rows_file, tmp_path, cut):
    path = rows_file(*contests(200))
    out = tmp_path / "out.jsonl"
    prepare(settings("code_contests", path), tmp_path / "whole" / "out.jsonl")
    process = multiprocessing.get_context("fork").Process(target=_prepare_slowly, args=(path, out))
    process.start()
    work = tmp_path / "out.work"
    deadline = time.monotonic() + patience(30)
    while not (work.is_file() and work.stat().st_size > 20_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not out.exists()
    with work.open("r+b") as torn:  # the kernel keeps what was written; a crash may lose the end
        torn.truncate(work.stat().st_size - cut)
    rows = []
    prepare(settings("code_contests", path), out, progress=lambda done, _total: rows.append(done))
    assert 1 < rows[0] < 200
    for name in ("out.jsonl", "out.solutions.jsonl", "out.manifest.json"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_nothing_kept_is_no_error_of_the_library(rows_file, tmp_path):
    manifest = prepare(settings("mbpp", rows_file(ODD)), tmp_path / "out.jsonl")
    assert (manifest["counts"]["kept"], (tmp_path / "out.jsonl").read_text()) == (0, "")


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"benchmark": "mbpp", "max_prompt_tokens": 5}, "tokenizer: is needed to count"),
        ({"benchmark": "mbpp", "overlap": {}}, "overlap: is for codeforces"),
        ({"benchmark": "mbpp", "limit": 0}, "limit: must be at least 1"),
        ({"benchmark": "mbpp", "parts": {"a": 1}}, "parts: must be two or more"),
        ({"benchmark": "mbpp", "parts": {"a": 1, "b": 0}}, "parts.b: must be a positive number"),
        ({"benchmark": "mbpp", "parts": {"a": 1, "../b": 1}}, "must be a word"),
        (
            {"benchmark": "codeforces", "overlap": {"benchmark": "mbpp"}},
            "overlap.benchmark: got 'mbpp'",
        ),
        ({"benchmark": "mbpp", "limmit": 3}, "did you mean 'limit'"),
    ],
)
def test_settings_that_are_not_allowed_are_refused(recipe, message):
    with pytest.raises(InvalidValueError) as refused:
        from_mapping(PrepareSettings, recipe, where="settings")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"benchmark": "mbbp"}, InvalidValueError, "did you mean 'mbpp'"),
        ({"file": "no.jsonl"}, MissingFileError, "'no.jsonl' does not exist"),
        ({"options": {"form": "x"}}, InvalidValueError, "options of mbpp.form"),
        ({"revision": "abc"}, InvalidValueError, "revision: is for the hub"),
    ],
)
def test_sources_that_do_not_exist_are_refused(rows_file, tmp_path, changed, error, message):
    recipe = {"benchmark": "mbpp", "file": str(rows_file(mbpp_row())), **changed}
    with pytest.raises(error) as refused:
        prepare(from_mapping(PrepareSettings, recipe, where="settings"), tmp_path / "out.jsonl")
    assert message in str(refused.value)


def test_outputs_need_a_name_that_ends_right(rows_file, tmp_path):
    path = rows_file(mbpp_row())
    with pytest.raises(InvalidValueError, match=r"out: .* must end in \.jsonl"):
        prepare(settings("mbpp", path), tmp_path / "out")


@pytest.mark.parametrize("name", ["out.jsonl", "out.solutions.jsonl", "out.left_out.jsonl"])
def test_no_file_that_another_has_written_is_lost(rows_file, tmp_path, name):
    prepare_settings = settings("mbpp", rows_file(mbpp_row()))
    (tmp_path / name).write_text("mine\n")
    with pytest.raises(InvalidValueError, match="did not write it"):
        prepare(prepare_settings, tmp_path / "out.jsonl")
    assert (tmp_path / name).read_text() == "mine\n"


@pytest.mark.parametrize("text", ["", "mine\n", '{"settings": {}}\n'])
def test_no_working_file_of_another_is_lost_nor_makes_others_ours(rows_file, tmp_path, text):
    prepare_settings = settings("mbpp", rows_file(mbpp_row()))
    (tmp_path / "out.work").write_text(text)
    (tmp_path / "out.jsonl").write_text("mine\n")
    with pytest.raises(InvalidValueError, match=r"out.work' exists, .* did not write it"):
        prepare(prepare_settings, tmp_path / "out.jsonl")
    assert (tmp_path / "out.work").read_text() == text
    assert (tmp_path / "out.jsonl").read_text() == "mine\n"


def test_a_folder_in_place_of_the_working_file_is_named(rows_file, tmp_path):
    (tmp_path / "out.work").mkdir()
    with pytest.raises(InvalidValueError, match=r"out: .*out.work' is a folder"):
        prepare(settings("mbpp", rows_file(mbpp_row())), tmp_path / "out.jsonl")


@pytest.mark.parametrize("text", ["", "{}", '{"files": 1}', '{"name": "a page"}'])
def test_no_manifest_of_another_is_lost(rows_file, tmp_path, text):
    prepare_settings = settings("mbpp", rows_file(mbpp_row()))
    (tmp_path / "out.manifest.json").write_text(text)
    with pytest.raises(InvalidValueError, match=r"out.manifest.json' exists, .* did not write it"):
        prepare(prepare_settings, tmp_path / "out.jsonl")
    assert (tmp_path / "out.manifest.json").read_text() == text
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("name", ["out.jsonl", "out.solutions.jsonl", "out.left_out.jsonl"])
def test_no_file_that_was_changed_by_hand_is_lost(rows_file, tmp_path, name):
    prepare(settings("mbpp", rows_file(mbpp_row())), tmp_path / "out.jsonl")
    (tmp_path / name).write_text("mine\n")
    prepare_settings = settings("mbpp", rows_file(mbpp_row(1), mbpp_row(2)))
    with pytest.raises(InvalidValueError, match=f"{name}' has changed since"):
        prepare(prepare_settings, tmp_path / "out.jsonl")
    assert (tmp_path / name).read_text() == "mine\n"


def test_a_preparation_of_more_rows_takes_the_place_of_its_own_files(rows_file, tmp_path):
    prepare(settings("mbpp", rows_file(mbpp_row())), tmp_path / "out.jsonl")
    prepare(settings("mbpp", rows_file(mbpp_row(1), mbpp_row(2))), tmp_path / "out.jsonl")
    assert len(ids(tmp_path / "out.jsonl")) == 2


@pytest.mark.parametrize("name", ["out.jsonl", "out.solutions.jsonl", "out.left_out.jsonl"])
def test_no_file_that_is_read_is_lost(rows_file, tmp_path, name):
    prepare(settings("mbpp", rows_file(mbpp_row())), tmp_path / "out.jsonl")
    before = rows_file(mbpp_row(1), mbpp_row(2)).rename(tmp_path / name).read_text()
    with pytest.raises(InvalidValueError, match="is read, and would be lost"):
        prepare(settings("mbpp", tmp_path / name), tmp_path / "out.jsonl")
    assert (tmp_path / name).read_text() == before


def test_the_other_data_set_whose_problems_are_left_out_is_not_lost(rows_file, tmp_path):
    other_set = tmp_path / "others.jsonl"
    prepare(settings("code_contests", rows_file(contest_row("1_A. Sum"))), other_set)
    before = other_set.read_text()
    rows = rows_file(codeforces_row("2/B"), name="cf.jsonl")
    with pytest.raises(InvalidValueError, match="is read, and would be lost"):
        prepare(settings("codeforces", rows, overlap={"file": str(other_set)}), other_set)
    assert other_set.read_text() == before


def test_sets_of_a_recipe_share_seed_and_tokenizer():
    sets = read_sets(
        {
            "seed": 7,
            "tokenizer": "t",
            "sets": {"a": {"benchmark": "mbpp"}, "b": {"benchmark": "apps", "seed": 8}},
        }
    )
    assert [(dataset.seed, dataset.tokenizer) for dataset in sets.values()] == [(7, "t"), (8, "t")]
    for recipe, message in (
        ({"sets": {}}, "recipe.sets: must name at least one"),
        ({"sets": {"a": "mbpp"}}, "recipe.sets.a: must be a mapping"),
        ({"sets": {"a": {"benchmark": "mbpp", "splt": 1}}}, "recipe.sets.a: unknown key 'splt'"),
        ({}, "recipe: the key 'sets' is required"),
    ):
        with pytest.raises(InvalidValueError) as refused:
            read_sets(recipe)
        assert message in str(refused.value)


def test_the_papers_recipe_is_valid_and_says_what_the_paper_says():
    from pathlib import Path

    import yaml

    import maxatk

    recipe = Path(maxatk.__file__).parent / "recipes" / "paper" / "data.yaml"
    sets = read_sets(yaml.safe_load(recipe.read_text()))
    assert set(sets) == {"code_contests", "livecodebench", "livebench", "codeforces", "mbpp"}
    contests_set = sets["code_contests"]
    assert contests_set.options["max_difficulty"] == 3
    assert contests_set.max_prompt_tokens == 512
    assert contests_set.parts == {"train": 2490, "test": 276}
    assert sets["codeforces"].split == "test"
    assert [source.split for source in sets["codeforces"].overlap.sources()] == [
        "train",
        "valid",
        "test",
    ]


def test_real_overlap(real_data, tmp_path):
    path = real_data("codeforces/codeforces_schema_24.jsonl")
    overlap = {"file": str(real_data("codecontests/code_contests_300.jsonl"))}
    manifest = prepare(settings("codeforces", path, overlap=overlap), tmp_path / "out.jsonl")
    assert manifest["counts"]["left_out"] == {"is in code_contests too": 24}
    rows = list(map(json.loads, path.open()))
    renamed = tmp_path / "renamed.jsonl"
    renamed.write_text(
        "\n".join(
            json.dumps(
                {
                    **row,
                    "id": f"9999/{n}",
                    "contest_id": "9999",
                    "index": str(n),
                    "aliases": [row["id"]],
                }
            )
            for n, row in enumerate(rows)
        )
    )
    manifest = prepare(settings("codeforces", renamed, overlap=overlap), tmp_path / "out.jsonl")
    assert manifest["counts"]["left_out"] == {"is in code_contests too": 24}
