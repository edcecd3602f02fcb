import json
import multiprocessing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxatk.errors import DataError, InvalidValueError
from maxatk.evaluation.folder import MANIFEST, check_folder, recorded_batch_size
from maxatk.evaluation.store import Store
from maxatk.records import Outcome, Sample, Score

SAMPLES = [Sample("p", i, f"print({i})\n# é\u2028") for i in range(4)]


def fill(path, samples=SAMPLES):
    with Store(path, Sample) as store:
        store.append(samples)
    return path.read_bytes()


def test_round_trip_keeps_order_and_records(tmp_path):
    path = tmp_path / "new" / "samples.jsonl"
    fill(path, SAMPLES[:2])
    with Store(path, Sample) as store:
        store.append(SAMPLES[2:])
        assert list(store.records.values()) == SAMPLES
    with Store(path, Sample) as store:
        assert list(store.records) == [("p", i) for i in range(4)]


def test_scores_round_trip(tmp_path):
    unscored = Score("p", 0, None, 0, 2, Outcome.INFRA_ERROR, 0.1)
    with Store(tmp_path / "s.jsonl", Score) as store:
        store.append([unscored])
    with Store(tmp_path / "s.jsonl", Score) as store:
        assert store.records["p", 0] == unscored


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 400))
def test_any_torn_tail_is_cut_and_can_be_written_again(tmp_path, cut):
    path = tmp_path / "samples.jsonl"
    path.unlink(missing_ok=True)
    whole = fill(path)
    path.write_bytes(whole[: max(0, len(whole) - cut)])
    with Store(path, Sample) as store:
        kept = len(store.records)
        assert list(store.records.values()) == SAMPLES[:kept]
        store.append(SAMPLES[kept:])
    assert path.read_bytes() == whole


def test_a_torn_line_longer_than_a_block_is_cut(tmp_path):
    path = tmp_path / "samples.jsonl"
    whole = fill(path)
    path.write_bytes(whole + b'{"problem_id": "' + b"x" * 200_000)
    with Store(path, Sample) as store:
        assert len(store.records) == 4
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "tail", [b"\0" * 100 + b"\n", b'{"problem_id": "p\0\0\n\0\n\0', b"\0" * 200_000]
)
def test_zero_bytes_at_the_end_are_cut(tmp_path, tail):
    path = tmp_path / "samples.jsonl"
    whole = fill(path)
    path.write_bytes(whole + tail)
    with Store(path, Sample) as store:
        assert list(store.records.values()) == SAMPLES
    assert path.read_bytes() == whole
    path.write_bytes(b"\0\n" + whole)  # not at the end: an error
    with pytest.raises(DataError, match=r"samples\.jsonl:1: "):
        Store(path, Sample)


@pytest.mark.parametrize("reward", ["high", True, [1], {}])
def test_a_reward_that_is_no_number_is_named_by_its_line(tmp_path, reward):
    path = tmp_path / "scores.jsonl"
    row = Score("p", 0, 0.5, 1, 2, Outcome.WRONG_ANSWER, 0.1).to_json()
    path.write_text(json.dumps({**row, "reward": reward}) + "\n")
    with pytest.raises(DataError, match=r"scores\.jsonl:1: score\.reward: must be float, got"):
        Store(path, Score)


@pytest.mark.parametrize("text", ["{}", '{"settings": 3}', "[" * 100_000])
def test_a_manifest_of_another_form_is_named(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)
    (tmp_path / "scores.jsonl").write_text("{}\n")
    for read in (lambda: check_folder(tmp_path, {}), lambda: recorded_batch_size(tmp_path)):
        with pytest.raises(DataError, match=r"manifest\.json: "):
            read()


def test_a_corrupt_line_elsewhere_is_an_error_with_its_place(tmp_path):
    path = tmp_path / "samples.jsonl"
    lines = fill(path).splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"problem_id": "p"\n' + lines[2])
    with pytest.raises(DataError, match=r"samples\.jsonl:2: "):
        Store(path, Sample)
    path.write_bytes(lines[0] + b"\xff\n")
    with pytest.raises(DataError, match=r"samples\.jsonl:2: not UTF-8"):
        Store(path, Sample)


def test_duplicates_are_refused(tmp_path):
    path = tmp_path / "samples.jsonl"
    whole = fill(path)
    with (
        Store(path, Sample) as store,
        pytest.raises(DataError, match="sample 2 of 'p' is already there"),
    ):
        store.append([Sample("q", 0, ""), SAMPLES[2]])
    assert path.read_bytes() == whole
    path.write_bytes(whole + whole)
    with pytest.raises(DataError, match=r"samples\.jsonl:5: sample 0 of 'p' occurs twice"):
        Store(path, Sample)


def test_duplicates_within_one_append_are_refused(tmp_path):
    with (
        Store(tmp_path / "s.jsonl", Sample) as store,
        pytest.raises(DataError, match="sample 0 of 'p' is already there"),
    ):
        store.append([SAMPLES[0], SAMPLES[0]])


def hold(path, held, release):
    with Store(path, Sample):
        held.set()
        release.wait(30)


def test_a_second_process_is_refused(tmp_path):
    context = multiprocessing.get_context("fork")
    held = context.Event()
    release = context.Event()
    holder = context.Process(target=hold, args=(tmp_path / "s.jsonl", held, release))
    holder.start()
    assert held.wait(30)
    with pytest.raises(InvalidValueError, match="another process is writing"):
        Store(tmp_path / "s.jsonl", Sample)
    release.set()
    holder.join()
    Store(tmp_path / "s.jsonl", Sample).close()


def test_a_link_under_the_name_of_a_file_is_not_written_through(tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / "samples.jsonl").symlink_to(other)
    with pytest.raises(InvalidValueError, match=r"samples\.jsonl: is a link"):
        Store(tmp_path / "samples.jsonl", Sample)
    assert other.read_text() == "mine"
