#!/usr/bin/env bash
# max@4 of 8 programs on MBPP with execution rewards, on one GPU. Arguments are overrides that win:
#   run_qwen2.5_coder_1.5b.sh algorithm.maxatk.method=grpo    # the comparison: plain GRPO
set -euo pipefail

settings=(
  # --- the objective: the best of k of the n programs of a prompt ---
  algorithm.adv_estimator=maxatk
  +algorithm.maxatk.method=bon_loo1
  +algorithm.maxatk.k=4
  trainer.v1.trainer_mode=maxatk_sync
  actor_rollout_ref.rollout.n=8
  algorithm.use_kl_in_reward=False # the reward itself is what the best of k is taken of

  # --- rewards: the share of a problem's tests that pass, each program in a sandbox ---
  reward.custom_reward_function.path=pkg://maxatk.verifier
  reward.custom_reward_function.name=compute_score
  reward.num_workers=1 # one process with one pool of sandboxes
  +reward.custom_reward_function.reward_kwargs.workers="${WORKERS:-8}" # programs at a time

  # --- data ---
  data.train_files="${DATA:-data/maxatk}/train.parquet"
  data.val_files="${DATA:-data/maxatk}/test.parquet"
  data.train_batch_size=32
  data.max_prompt_length=512
  data.max_response_length=512
  data.return_raw_chat=True

  # --- the update: on-policy, one optimizer step for each rollout batch ---
  actor_rollout_ref.model.path="${MODEL:-Qwen/Qwen2.5-Coder-1.5B-Instruct}"
  actor_rollout_ref.model.enable_gradient_checkpointing=True
  actor_rollout_ref.model.use_remove_padding=True
  actor_rollout_ref.actor.strategy=fsdp2
  actor_rollout_ref.actor.ppo_mini_batch_size=32
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 # a whole group
  actor_rollout_ref.actor.optim.lr=1e-6
  actor_rollout_ref.actor.clip_ratio_c=1000.0 # verl's dual clip: off
  actor_rollout_ref.actor.use_kl_loss=False
  actor_rollout_ref.actor.entropy_coeff=0.0

  # --- rollouts ---
  actor_rollout_ref.rollout.name=vllm
  actor_rollout_ref.rollout.tensor_model_parallel_size=1
  actor_rollout_ref.rollout.gpu_memory_utilization=0.5 # the rest is for the update
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16
  actor_rollout_ref.rollout.val_kwargs.n=8
  actor_rollout_ref.rollout.val_kwargs.do_sample=True
  actor_rollout_ref.rollout.val_kwargs.temperature=1.0

  # --- the run ---
  trainer.nnodes=1
  trainer.n_gpus_per_node=1
  trainer.total_epochs=10
  trainer.val_before_train=True
  trainer.test_freq=10
  trainer.save_freq=20
  trainer.resume_mode=auto
  trainer.project_name=maxatk
  trainer.experiment_name=qwen2.5-coder-1.5b-mbpp
  trainer.logger='["console"]'
)

exec "${PYTHON:-python}" -m verl.trainer.main_ppo "${settings[@]}" "$@"
