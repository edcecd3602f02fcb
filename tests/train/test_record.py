"""What a training writes to groups.jsonl, also where it is killed and resumed."""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest
import yaml
from datasets import Dataset

from maxatk import advantages
from maxatk.cli.main import main
from maxatk.errors import InvalidValueError
from maxatk.rewards import load_reward
from maxatk.train import MaxAtKTrainer
from maxatk.verifier import Verifier
from maxatk.verifier.extract import Extracted
from maxatk.view.server import View
from maxatk.view.watched_training import WatchedTraining

from .conftest import GROUP, PROMPTS, config

TESTS = [{"input": "", "output": text} for text in ("0", "0\n", "1")]


class OfLengths(Verifier):
    """A verifier to which any completion is a program, so that an untrained model has rewards."""

    def program_of(self, completion, entry_point, language):
        return Extracted(f"print({len(completion) % 4})")


def recorded(folder, kind):
    lines = (folder / "groups.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if kind in row]


@pytest.mark.parametrize("changes", [{}, {"groups_with_signal": True}])
def test_a_group_has_texts_rewards_advantages_and_the_first_failed_test(
    model_folder, tmp_path, changes
):
    rows = [
        {"prompt": prompt, "problem_id": f"p{n}", "tests": TESTS}
        for n, prompt in enumerate(PROMPTS)
    ]
    with OfLengths(workers=1) as verifier:
        trainer = MaxAtKTrainer(
            model=str(model_folder),
            reward_funcs=[load_reward("continuous", verifier=verifier)],
            args=config(tmp_path, method="bon_loo1", logging_steps=1, **changes),
            train_dataset=Dataset.from_list(rows),
        )
        trainer.train()
    groups = recorded(tmp_path, "group")
    assert [group["step"] for group in groups] == [1, 1, 2, 2, 3, 3]
    for group in groups:
        assert group["prompt"] == PROMPTS[int(group["id"][1:])]
        rewards = [sample["reward"] for sample in group["samples"]]
        sample_advantages = [sample["advantage"] for sample in group["samples"]]
        expected = GROUP * advantages([rewards], "bon_loo1", 2)[0]  # for a mean over samples
        np.testing.assert_allclose(sample_advantages, expected, atol=1e-6)
        for sample in group["samples"]:
            printed = str(len(sample["text"]) % 4)
            passed = {"0": 2, "1": 1}.get(printed, 0)
            assert (sample["passed"], sample["tests"]) == (passed, 3)
            assert sample["reward"] == pytest.approx(passed / 3)
            failure = sample["failure"]
            assert failure["test"] == (2 if printed == "0" else 0)
            assert failure["expected"] == ("1" if printed == "0" else "0")
            assert failure["got"].strip() == printed
            assert 0 < sample["tokens"] <= 6
    log = [row["log"] for row in recorded(tmp_path, "log")]
    assert [row.get("reward") for row in log] == [
        row.get("reward") for row in trainer.state.log_history
    ]
    assert log[0]["verifier/time_limit"] == 0
    (about,) = recorded(tmp_path, "training")
    assert (about["training"]["method"], about["training"]["max_steps"]) == ("bon_loo1", 3)


@pytest.mark.parametrize(("most", "kept"), [(0, None), (1, 1), (3, 3), (8, 4)])
def test_a_step_has_no_more_groups_than_asked_for(make_trainer, tmp_path, most, kept):
    # A step of two rollout batches of two groups each.
    changes = {"steps_per_generation": 1, "gradient_accumulation_steps": 2, "max_steps": 2}
    trainer = make_trainer(cls=MaxAtKTrainer, log_groups=most, **changes)
    trainer.train()
    if kept is None:
        assert not (tmp_path / "groups.jsonl").exists()
    else:
        steps = [group["step"] for group in recorded(tmp_path, "group")]
        assert steps == [1] * kept + [2] * kept


def test_a_completion_that_is_masked_because_it_was_cut_off_keeps_its_length(
    make_trainer, tmp_path
):
    lengths = []
    for masks in (False, True):  # the first step draws the same
        folder = tmp_path / str(masks)
        changes = {"output_dir": str(folder), "mask_truncated_completions": masks, "max_steps": 1}
        make_trainer(cls=MaxAtKTrainer, max_completion_length=40, **changes).train()
        samples = [sample for group in recorded(folder, "group") for sample in group["samples"]]
        lengths.append([sample["tokens"] for sample in samples])
    assert lengths[0] == lengths[1]
    assert 40 in lengths[0]  # one is cut off


def test_a_number_of_groups_that_is_not_allowed_is_refused(tmp_path):
    with pytest.raises(InvalidValueError, match="log_groups: must be an integer of 0 or more"):
        config(tmp_path, log_groups=-1)


def test_texts_that_no_file_can_hold_are_kept_as_far_as_they_go(tmp_path):
    from maxatk.training.group_log import GroupLog, head_of

    log = GroupLog(tmp_path / "groups.jsonl", step=0, about={})
    log.append([{"step": 1, "group": "ab", "text": "a\ud800b\n\u2028"}])
    last = (tmp_path / "groups.jsonl").read_bytes().splitlines(keepends=True)[-1]
    assert head_of(last) == (1, "group", "ab")
    assert json.loads(last)["text"] == "a?b\n\u2028"


SETTINGS = {
    "max_completion_length": 40, "max_steps": 8, "save_strategy": "steps", "save_steps": 3,
    "optim": "adamw_torch",
}  # fmt: skip


@pytest.mark.long
def test_a_killed_and_resumed_training_has_one_history(tmp_path, started, toy_recipe):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(toy_recipe(**SETTINGS)))
    killed = tmp_path / "killed"
    whole = tmp_path / "whole"
    command = [sys.executable, "-m", "maxatk", "train", str(recipe), f"out={killed}"]
    process = started(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    file = killed / "groups.jsonl"
    while process.poll() is None and not (file.exists() and b'"step":5' in file.read_bytes()):
        time.sleep(0.002)  # beyond checkpoint 3
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with file.open("ab") as torn:
        torn.write(b'{"step":6,"group":"ab')
    assert main(["train", str(recipe), f"out={killed}"]) == 0
    assert main(["train", str(recipe), f"out={whole}"]) == 0
    assert recorded(killed, "group") == recorded(whole, "group")
    steps = [row["step"] for row in recorded(killed, "log")]
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert [row["step"] for row in recorded(killed, "training")] in ([0, 3], [0, 6])


def test_a_real_training_can_be_looked_into(tmp_path, toy_recipe):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump({**toy_recipe(), "reward": "continuous"}))
    assert main(["train", str(recipe)]) == 0
    training = WatchedTraining(tmp_path / "out")
    with View({"out": training}) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"{server.address}api/state") as answer:
            (run,) = json.load(answer)["runs"]
        with urllib.request.urlopen(f"{server.address}api/group?run=0&step=2&place=1") as answer:
            group = json.load(answer)
        server.shutdown()
    assert (run["progress"], run["steps"]) == ("step 2 of 2, ended", [1, 2])
    assert len(group["samples"]) == GROUP
    assert all(sample["failure"]["expected"] for sample in group["samples"])
