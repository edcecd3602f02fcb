"""verl's own driver on a CPU: `main_ppo`, Ray actors, FSDP2 workers over gloo."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

from processes import patience

TESTS = Path(__file__).parent
N = 8
K = 4
LEARNING_RATE = 1e-3


@dataclasses.dataclass
class Run:
    """What a training left: its exit status, its log, verl's metrics and what the losses saw."""

    out: Path
    status: int
    log: str
    metrics: list[dict]
    seen: list[list[dict]]  # one list a rank: the micro-batches in the order of the losses


def variables(out, **changes):
    """The environment of every process of a training: verl on a CPU, and what the tests read."""
    return {
        "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(TESTS)]),
        "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu",
        "VERL_PLATFORM": "cpu",
        "VERL_ENGINE_DEVICE": "cuda",  # the FSDP engine is registered for cuda and npu only
        "VERL_ON_CPU_SPY": str(out / "spied"),
        "VERL_FILE_LOGGER_PATH": str(out / "metrics.jsonl"),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # by default workers starve beside anything else
        "RAY_prestart_worker_first_driver": "0",  # 16 idle processes on two cores
        **changes,
    }


def train(mini, out, *, overrides=(), environment=None, ray_address="local", seconds=800):
    """Run `main_ppo` with the settings of the tests; `overrides` win."""
    spied = out / "spied"
    spied.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "verl.trainer.main_ppo"]
    command += [*_settings(mini, out, ray_address), *overrides]
    with (out / "log.txt").open("w") as log:
        done = subprocess.run(
            command,
            env={**os.environ, **(environment or variables(out))},
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=patience(seconds),
            cwd=out,
        )
    files = sorted(spied.glob("rank-*.jsonl"))
    batches = [[json.loads(line) for line in path.open()] for path in files]
    path = out / "metrics.jsonl"
    metrics = [json.loads(line) for line in path.open()] if path.exists() else []
    return Run(out, done.returncode, (out / "log.txt").read_text(), metrics, batches)


def _settings(mini, out, ray_address):
    local = [
        "+ray_kwargs.ray_init.num_gpus=2",
        "ray_kwargs.ray_init.num_cpus=16",
        "+ray_kwargs.ray_init.include_dashboard=False",
        "+ray_kwargs.ray_init.object_store_memory=300000000",
    ]
    model, actor, rollout = (f"actor_rollout_ref.{part}" for part in ("model", "actor", "rollout"))
    return [
        f"+ray_kwargs.ray_init.address={ray_address}",
        *(local if ray_address == "local" else []),
        "trainer.device=cpu",
        "trainer.n_gpus_per_node=1",
        "trainer.nnodes=1",
        "trainer.v1.trainer_mode=maxatk_sync",
        "trainer.logger=[console,file]",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.total_training_steps=1",
        "trainer.total_epochs=10",
        "trainer.resume_mode=disable",
        "trainer.project_name=tests",
        "trainer.experiment_name=tests",
        f"trainer.default_local_dir={out}/checkpoints",
        f"data.train_files={mini}/problems.parquet",
        f"data.val_files={mini}/problems.parquet",
        "data.train_batch_size=4",
        "data.val_max_samples=4",
        "data.dataloader_num_workers=0",
        "data.max_prompt_length=64",
        "data.max_response_length=12",
        "data.return_raw_chat=True",
        "data.seed=1",
        "algorithm.adv_estimator=maxatk",
        "+algorithm.maxatk.method=bon_off_policy_exact",
        f"+algorithm.maxatk.k={K}",
        f"{model}.path={mini}/model",
        f"{model}.use_remove_padding=False",
        f"{model}.enable_gradient_checkpointing=False",
        f"+{model}.override_config.attn_implementation=sdpa",
        model + ".custom_chat_template='{% for m in messages %}{{ m.content }}{% endfor %}'",
        f"{actor}.strategy=fsdp2",
        f"{actor}.use_torch_compile=False",
        f"+{actor}.fsdp_config.mixed_precision.param_dtype=fp32",
        f"{actor}.ppo_mini_batch_size=2",
        f"{actor}.ppo_epochs=2",
        f"{actor}.ppo_micro_batch_size_per_gpu={N}",
        f"{actor}.optim.lr={LEARNING_RATE}",
        f"{rollout}.name=transformers",
        f"{rollout}.n={N}",
        f"{rollout}.seed=5",
        f"{rollout}.tensor_model_parallel_size=1",
        f"{rollout}.n_gpus_per_node=1",
        f"{rollout}.temperature=1.0",
        f"{rollout}.calculate_log_probs=True",
        f"{rollout}.log_prob_micro_batch_size_per_gpu=16",
        f"{rollout}.agent.num_workers=1",
        "reward.num_workers=1",
        "reward.custom_reward_function.path=pkg://verl_on_cpu.rewards",
        "reward.custom_reward_function.name=compute_score",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        f"hydra.run.dir={out}/hydra",
    ]
