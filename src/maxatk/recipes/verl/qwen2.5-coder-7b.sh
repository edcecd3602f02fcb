#!/usr/bin/env bash
# The paper's method on Qwen2.5-Coder-7B-Instruct with verl 0.9: FSDP2 and vLLM rollouts.
#   recipes/verl/qwen2.5-coder-7b.sh            one node of 8 GPUs
#   NODES=2 recipes/verl/qwen2.5-coder-7b.sh    2 x 8 GPUs, on the Ray cluster of this machine
# Arguments are overrides that win. [paper] marks what the paper states (sec. 4).
# The data: maxatk problems prepare recipes/paper/data.yaml --only code_contests --out runs/data
#           maxatk problems export runs/data/code_contests-train.jsonl --for verl --out ...parquet
set -euo pipefail

settings=(
  # --- what is trained for ---
  algorithm.adv_estimator=maxatk
  +algorithm.maxatk.method=bon_off_policy # [paper] its own method
  +algorithm.maxatk.k=4                   # the paper does not give the k of training
  trainer.v1.trainer_mode=maxatk_sync     # the correction at every optimizer step
  actor_rollout_ref.rollout.n=8           # [paper] samples a prompt
  algorithm.use_kl_in_reward=False        # max@k of the reward itself

  # --- rewards: the tests of the problems, in sandboxes ---
  reward.custom_reward_function.path=pkg://maxatk.verifier
  reward.custom_reward_function.name=compute_score
  reward.num_workers="${NODES:-1}" # one process a node, with one pool of sandboxes
  +reward.custom_reward_function.reward_kwargs.workers="${WORKERS:-32}" # programs at a time in each

  # --- data ---
  data.train_files="${TRAIN:-runs/data/code_contests-train.parquet}"
  data.val_files="${TEST:-runs/data/code_contests-test.parquet}"
  data.max_prompt_length=512   # [paper]
  data.max_response_length=256 # [paper]
  data.train_batch_size=32     # 256 completions a rollout batch
  data.return_raw_chat=True

  # --- the update ---
  actor_rollout_ref.model.path=Qwen/Qwen2.5-Coder-7B-Instruct # [paper]
  actor_rollout_ref.model.enable_gradient_checkpointing=True
  actor_rollout_ref.model.use_remove_padding=True
  actor_rollout_ref.actor.strategy=fsdp2
  actor_rollout_ref.actor.ppo_mini_batch_size=32 # all prompts of the batch in one optimizer step
  actor_rollout_ref.actor.ppo_epochs=3           # [paper] optimizer steps per rollout batch
  # A whole group, so that the loss itself knows all importance ratios. With less memory take a
  # divisor of 8: the ratios then cost a forward pass before the second and the third step.
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8
  actor_rollout_ref.actor.optim.lr=5e-6          # [paper]
  actor_rollout_ref.actor.optim.weight_decay=0.0 # [paper] "Adam"
  actor_rollout_ref.actor.clip_ratio=0.2         # [paper]
  actor_rollout_ref.actor.clip_ratio_low=0.2
  actor_rollout_ref.actor.clip_ratio_high=0.2
  actor_rollout_ref.actor.clip_ratio_c=1000.0    # verl's dual clip, which the paper does not have: off
  actor_rollout_ref.actor.loss_agg_mode=token-mean
  actor_rollout_ref.actor.use_kl_loss=True
  actor_rollout_ref.actor.kl_loss_coef=0.01 # [paper]
  actor_rollout_ref.actor.kl_loss_type=low_var_kl
  actor_rollout_ref.actor.entropy_coeff=0.0
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16

  # --- rollouts ---
  actor_rollout_ref.rollout.name=vllm
  actor_rollout_ref.rollout.tensor_model_parallel_size=1
  actor_rollout_ref.rollout.gpu_memory_utilization=0.5 # the rest is for the update on the same GPU
  actor_rollout_ref.rollout.temperature=1.0            # [paper]
  actor_rollout_ref.rollout.top_p=1.0                  # [paper]
  actor_rollout_ref.rollout.calculate_log_probs=True   # logs how far vLLM's log-probabilities are off
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16
  actor_rollout_ref.rollout.val_kwargs.n=8
  actor_rollout_ref.rollout.val_kwargs.do_sample=True
  actor_rollout_ref.rollout.val_kwargs.temperature=1.0

  # --- the run ---
  trainer.nnodes="${NODES:-1}"
  trainer.n_gpus_per_node=8
  trainer.total_epochs=1 # [paper]
  trainer.save_freq=30
  trainer.test_freq=30
  trainer.val_before_train=True
  trainer.resume_mode=auto
  trainer.project_name=maxatk
  trainer.experiment_name=qwen2.5-coder-7b
  trainer.logger='["console"]'
)

exec "${PYTHON:-python}" -m verl.trainer.main_ppo "${settings[@]}" "$@"
