"""Two processes over gloo see the weights of whole groups, though each holds half of the rows."""

from pathlib import Path

import numpy as np
import pytest
import torch

import maxatk
from maxatk.train.batch import GROUP_ROW

from .conftest import GROUP
from .expected import brute_force, sequence_logps
from .launching import TORCHRUN, launched

CPUS = Path(maxatk.__file__).parent / "recipes" / "accelerate" / "two_cpus.yaml"
ACCELERATE = ["accelerate.commands.launch", "--config_file", str(CPUS), "--main_process_port", "0"]


@pytest.mark.long
@pytest.mark.parametrize(
    "launch, rows, whole",
    [(TORCHRUN, GROUP, True), (ACCELERATE, GROUP // 2, False)],
    ids=["torchrun, whole groups", "accelerate launch, split groups"],
)
def test_off_policy_advantages_match_brute_force_in_two_processes(
    model_folder, tmp_path, launch, rows, whole
):
    launched(launch, "two_processes.py", model_folder, tmp_path, rows)
    check_ranks(model_folder, tmp_path, whole=whole)


def check_ranks(model_folder, folder, *, whole):
    """Compare what two ranks left in the folder with brute force over their groups."""
    ranks = [torch.load(folder / f"rank-{r}.pt", weights_only=False) for r in (0, 1)]
    assert all(len(rank["generations"]) == 1 for rank in ranks)
    assert [rank["whole_groups"] for rank in ranks] == [whole, whole]
    np.testing.assert_array_equal(*(rank["generations"][0][2].numpy() for rank in ranks))
    rewards = ranks[0]["generations"][0][2].double().numpy().reshape(-1, GROUP)
    assert rewards.shape == (4, GROUP)
    old = all_logps(model_folder, ranks, ranks[0]["generations"][0][0])
    on_policy = np.concatenate([rank["generations"][0][1]["advantages"] for rank in ranks])
    moved = 0.0
    for step in range(4):
        micro_batches = [next(s for s in rank["seen"] if s["step"] == step) for rank in ranks]
        for name, weight in micro_batches[0]["policy"].items():
            torch.testing.assert_close(
                micro_batches[1]["policy"][name], weight, msg=f"{name} differs"
            )
        log_ratios = all_logps(model_folder, ranks, micro_batches[0]["policy"]) - old
        expected = brute_force(
            "bon_off_policy_exact", rewards, log_ratios.reshape(-1, GROUP), k=2, form="ppo"
        ).reshape(-1)
        for micro_batch in micro_batches:
            rows = micro_batch["inputs"][GROUP_ROW].numpy()
            advantages = micro_batch["inputs"]["advantages"].numpy()
            np.testing.assert_allclose(advantages, expected[rows], atol=2e-5)
        if step > 0 and whole:  # what is logged is of the micro-batches of both processes
            places = np.concatenate([part["inputs"][GROUP_ROW].numpy() for part in micro_batches])
            deviation = np.abs(np.expm1(log_ratios[places])).mean()
            for rank in ranks:
                assert rank["log"][step]["ratio/mean_abs_delta"] == pytest.approx(
                    deviation, abs=1e-4
                )
        moved = max(moved, float(np.abs(expected - on_policy).max()))
    assert moved > 1e-3, "the policy did not move: this test would pass without any correction"


def all_logps(model_folder, ranks, policy):
    """log pi of the rows of all ranks, in the order of the rollout batch."""
    return np.concatenate(
        [sequence_logps(model_folder, policy, rank["generations"][0][1]) for rank in ranks]
    )
