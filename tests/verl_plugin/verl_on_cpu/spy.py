"""Writes what verl's PPO loss is given in each worker, one JSON line a micro-batch."""

import json
import os
from pathlib import Path


def watch(folder):
    """Put a writer in front of `ppo_loss`, before anything imports it by name."""
    from verl.workers.utils import losses
    from verl.workers.utils.padding import no_padding_2_padding

    real = losses.ppo_loss

    def ppo_loss(config, model_output, data, dp_group=None):
        now = no_padding_2_padding(model_output["log_probs"].detach(), data)
        lengths = data["responses"].offsets().diff().tolist()
        mask = data["response_mask"].to_padded_tensor(0)
        row = {
            "uids": [str(uid) for uid in data["uid"]],
            "sessions": [int(session) for session in data["session_id"]],
            "rewards": data["rm_scores"].to_padded_tensor(0).sum(-1).tolist(),
            "real": (mask.sum(-1) > 0).tolist(),
            "old": [tensor.tolist() for tensor in data["old_log_probs"].unbind()],
            "now": [tensor[:n].tolist() for tensor, n in zip(now, lengths, strict=True)],
            "advantages": [tensor.tolist() for tensor in data["advantages"].unbind()],
            "prompts": [tensor.tolist() for tensor in data["prompts"].unbind()],
            "responses": [tensor.tolist() for tensor in data["responses"].unbind()],
        }
        if "ref_log_prob" in data:
            row["reference"] = [tensor.tolist() for tensor in data["ref_log_prob"].unbind()]
        path = Path(folder) / f"rank-{os.environ['RANK']}.jsonl"
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return real(config, model_output, data, dp_group)

    losses.ppo_loss = ppo_loss
