"""The parts of TRL that the trainer overrides or reads, checked before they are relied on."""

from __future__ import annotations

import inspect

import trl
from trl import GRPOTrainer

from maxatk.errors import MissingDependencyError

VERSIONS = "1.8 to 1.16"
"""The versions of TRL that were tried."""

# Method -> parameters that this package passes or receives by these names.
_USED: dict[str, tuple[str, ...]] = {
    "_prepare_inputs": ("generation_batch",),
    "_generate_and_score_completions": ("inputs",),
    "_generate": ("prompts",),
    "_generate_single_turn": ("prompt_ids",),
    "_calculate_rewards": ("inputs", "prompts", "completions"),
    "_compute_loss": ("model", "inputs"),
    "_get_per_token_logps_and_entropies": (
        "model",
        "input_ids",
        "attention_mask",
        "logits_to_keep",
        "batch_size",
    ),
    "_save_checkpoint": ("model", "trial"),
    "_load_optimizer_and_scheduler": ("checkpoint",),
    "create_model_card": ("model_name",),
}
# Attributes that the trainer sets up for itself, found by name in its source.
_ATTRIBUTES = ("_buffered_inputs", "_step", "_metrics", "_logs", "_tokenizer", "reward_weights")


def check_surface() -> None:
    """Raise MissingDependencyError where the installed TRL is not one that the trainer fits."""
    missing = [name for name in _USED if not _has(name)]
    source = inspect.getsource(GRPOTrainer)
    if "_compute_loss" not in missing and not _loss_reads_advantages_late():
        missing.append("_compute_loss that reads advantages after log-probabilities")
    missing += [name for name in _ATTRIBUTES if f"self.{name}" not in source]
    if missing:
        raise MissingDependencyError(
            f"trl {trl.__version__}: its GRPOTrainer lacks {', '.join(missing)}, which this "
            f"trainer needs; versions {VERSIONS} are known to work: pip install 'trl>=1.8,<2'"
        )


def liger_hides_logps() -> bool:
    """Say whether TRL computes its loss inside liger, where no log-probabilities can be read.

    Later versions use liger for the layers of the model only.
    """
    return hasattr(GRPOTrainer, "compute_liger_loss")


def check_token_advantages() -> None:
    """Raise MissingDependencyError where TRL's loss does not take advantages of shape (B, T)."""
    if "advantages.dim() == 1" not in inspect.getsource(GRPOTrainer._compute_loss):
        raise MissingDependencyError(
            f"own_ratio: 'sequence' needs a TRL whose loss takes one advantage a token, and trl "
            f"{trl.__version__} does not; allowed with it: 'token'"
        )


def check_generated_rows() -> None:
    """Raise MissingDependencyError where TRL generates anything but rows, which can be replaced."""
    if "num_items_in_batch" in inspect.getsource(GRPOTrainer._generate):
        raise MissingDependencyError(
            f"groups_with_signal: True needs a TRL that counts the tokens of a rollout batch after "
            f"it is generated, and trl {trl.__version__} does not; allowed with it: False"
        )


def _loss_reads_advantages_late() -> bool:
    """Say whether TRL's loss reads the advantages after its forward pass, which may set them."""
    source = inspect.getsource(GRPOTrainer._compute_loss)
    forward = source.find("._get_per_token_logps_and_entropies(")
    return 0 <= forward < source.find('inputs["advantages"]')


def _has(name: str) -> bool:
    method = getattr(GRPOTrainer, name, None)
    if method is None:
        return False
    found = inspect.signature(method).parameters
    return all(parameter in found for parameter in _USED[name])
