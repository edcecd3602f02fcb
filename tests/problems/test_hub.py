"""The hub's download is replaced by local files; everything behind it is the real library."""

import json

import datasets
import huggingface_hub
import pytest

from maxatk import load_problems
from maxatk.errors import DataError
from maxatk.problems import BENCHMARKS, PrepareSettings, prepare
from maxatk.problems.overlap import Overlap
from problems.rows import ROWS, contest_row, lcb_row, mbpp_row
from problems.test_files import write_parquet

LOAD = datasets.load_dataset


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Return a function that puts rows on the hub, and the list of what was asked of it."""
    requests = []
    held = []

    def load_dataset(*names, **how):
        requests.append((names, dict(how)))
        how.pop("revision", None)
        if how.pop("data_files", None):
            path = tmp_path / "rows.jsonl"
            path.write_text("\n".join(map(json.dumps, held)))
            return LOAD("json", data_files=str(path), cache_dir=str(tmp_path), **how)
        path = write_parquet(tmp_path / "rows.parquet", held)
        how["split"] = "train"
        return LOAD("parquet", data_files=str(path), cache_dir=str(tmp_path), **how)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr("maxatk.problems.source.why_missing", lambda *_, **__: None)
    return held.extend, requests


def test_a_split_and_the_pinned_revision_are_asked_for(hub):
    put, requests = hub
    put([mbpp_row(1), mbpp_row(2)])
    assert [problem.id for problem in load_problems("mbpp")] == ["mbpp/1", "mbpp/2"]
    ((names, how),) = requests
    assert names == ("google-research-datasets/mbpp", "full")
    assert (how["split"], how["streaming"]) == ("test", True)
    assert how["revision"] == BENCHMARKS["mbpp"].revision


def test_a_table_of_the_hub_is_the_one_that_its_options_name(hub):
    put, requests = hub
    put([{"q": "1 + 1?", "a": "2"}])
    options = {"hub": "me/sums", "config": "easy", "prompt": "q", "answer": "a"}
    (problem,) = load_problems("table", revision="abc", options=options)
    assert (problem.prompt, problem.answer, problem.source) == ("1 + 1?", "2", "me/sums")
    ((names, how),) = requests
    assert (names, how["split"]) == (("me/sums", "easy"), "train")


def test_a_data_set_without_a_loader_is_read_by_its_files(hub):
    put, requests = hub
    put([lcb_row("a"), lcb_row("b")])
    problems = load_problems("livecodebench", revision="abc", options={"release": "release_v2"})
    assert [problem.id for problem in problems] == ["livecodebench/a", "livecodebench/b"]
    ((names, how),) = requests
    assert names == ("json",)
    assert how["data_files"] == [
        "hf://datasets/livecodebench/code_generation_lite@abc/test.jsonl",
        "hf://datasets/livecodebench/code_generation_lite@abc/test2.jsonl",
    ]


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if BENCHMARKS[name].hub])
def test_rows_that_went_through_arrow_make_the_same_problem(hub, rows_file, name):
    put, _ = hub
    row = ROWS[name]()
    put([row])
    # An interval column of one row may come back as another type: dates do.
    (arrow,) = load_problems(name, revision="abc")
    (local,) = load_problems(name, file=rows_file(row, name="local.jsonl"))
    assert arrow == local


def test_the_newest_revision_is_looked_up_where_none_is_pinned(hub, monkeypatch, tmp_path):
    put, requests = hub
    put([ROWS["cure"]()])

    class Api:
        def dataset_info(self, name):
            return huggingface_hub.hf_api.DatasetInfo(
                id=name,
                sha="0" * 39 + "1",
                siblings=[],
                tags=[],
                downloads=0,
                likes=0,
                private=False,
            )

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    manifest = prepare(PrepareSettings("cure"), tmp_path / "out.jsonl")
    assert manifest["source"]["revision"] == "0" * 39 + "1"
    assert manifest["source"]["hub"] == "Gen-Verse/CodeContests_train"
    assert requests[0][1]["data_files"][0].endswith(f"@{'0' * 39}1/train/CodeContests_train.json")


def test_the_overlap_reads_every_split_and_nothing_but_the_keys(hub):
    put, requests = hub
    put([contest_row("7_B. Sum", cf_contest_id=7, cf_index="B")])
    assert Overlap().keys() == {("7", "B")}
    assert [how["split"] for _, how in requests] == ["train", "valid", "test"]
    assert requests[0][1]["columns"] == ["name", "cf_contest_id", "cf_index"]


def test_without_a_network_the_data_set_and_the_remedy_are_named(monkeypatch):
    def unreachable(*names, **how):
        raise ConnectionError("no route\nto the hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    monkeypatch.setattr("maxatk.problems.source.why_missing", lambda *_, **__: None)
    with pytest.raises(DataError) as refused:
        load_problems("code_contests", limit=1)
    message = str(refused.value)
    assert message.startswith("deepmind/code_contests: cannot be loaded from the hub (no route to")
    assert "maxatk problems prepare NAME --file FILE" in message


def test_a_data_set_that_the_hub_does_not_give_is_not_asked_for_with_retries(monkeypatch):
    monkeypatch.setattr("maxatk.problems.source.why_missing", lambda *_, **__: "no such name")
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("asked for"))
    with pytest.raises(DataError, match=r"mbpp: cannot be loaded from the hub \(no such name\)"):
        load_problems("mbpp", limit=1)


def test_a_connection_lost_in_the_middle_is_named_and_the_same_call_goes_on(
    hub, monkeypatch, tmp_path
):
    put, _ = hub
    put([mbpp_row(n) for n in range(7)])
    whole = datasets.load_dataset

    class Breaks:
        def __init__(self, rows):
            self.rows = rows

        def skip(self, start):
            return Breaks(self.rows.skip(start))

        def __iter__(self):
            for number, row in enumerate(self.rows):
                if number == 3:
                    raise ConnectionError("gone")
                yield row

    monkeypatch.setattr(datasets, "load_dataset", lambda *n, **how: Breaks(whole(*n, **how)))
    out = tmp_path / "out.jsonl"
    with pytest.raises(DataError, match=r"mbpp: cannot be loaded from the hub \(gone\)"):
        prepare(PrepareSettings("mbpp"), out)
    assert not out.exists()
    with pytest.raises(DataError, match="gone"):  # three rows more
        prepare(PrepareSettings("mbpp"), out)
    monkeypatch.setattr(datasets, "load_dataset", whole)
    assert prepare(PrepareSettings("mbpp"), out)["counts"]["kept"] == 7
    assert [problem.id for problem in load_problems(out)] == [f"mbpp/{n}" for n in range(7)]
