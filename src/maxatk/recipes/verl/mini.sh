#!/usr/bin/env bash
# verl's own training of the built-in model on the CPU of a laptop, for trying the plug-in out.
#   maxatk mini runs/mini
#   maxatk problems export runs/mini/train.jsonl --for verl --out runs/mini/train.parquet
#   maxatk problems export runs/mini/test.jsonl --for verl --out runs/mini/test.parquet
#   recipes/verl/mini.sh
# Run it from a checkout, in its .venv-verl (make test-verl): verl has no CPU platform of its own,
# and the one in tests/verl_plugin is made for tests. Arguments are overrides that win.
set -euo pipefail

export PYTHONPATH="$PWD/tests/verl_plugin${PYTHONPATH:+:$PYTHONPATH}"
export VERL_USE_EXTERNAL_MODULES=verl_on_cpu
export VERL_PLATFORM=cpu       # the platform of tests/verl_plugin/verl_on_cpu
export VERL_ENGINE_DEVICE=cuda # verl registers its FSDP engine under that name; nothing else reads it
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

settings=(
  # --- what is trained for ---
  algorithm.adv_estimator=maxatk
  +algorithm.maxatk.method=bon_loo1
  +algorithm.maxatk.k=8
  trainer.v1.trainer_mode=maxatk_sync
  actor_rollout_ref.rollout.n=16
  reward.custom_reward_function.path=pkg://maxatk.verifier
  reward.custom_reward_function.name=compute_score
  reward.num_workers=1

  # --- data and model ---
  data.train_files=runs/mini/train.parquet
  data.val_files=runs/mini/test.parquet
  data.train_batch_size=16
  data.max_prompt_length=64
  data.max_response_length=32
  data.return_raw_chat=True
  data.dataloader_num_workers=0
  actor_rollout_ref.model.path=runs/mini/base
  # The model knows no chat: its prompt is the text of the one message.
  "actor_rollout_ref.model.custom_chat_template='{% for m in messages %}{{ m.content }}{% endfor %}'"

  # --- the update ---
  actor_rollout_ref.actor.ppo_mini_batch_size=16
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64
  actor_rollout_ref.actor.optim.lr=1e-3
  actor_rollout_ref.actor.clip_ratio_c=1000.0 # verl's dual clip: off

  # --- rollouts ---
  actor_rollout_ref.rollout.name=transformers # of tests/verl_plugin/verl_on_cpu
  actor_rollout_ref.rollout.tensor_model_parallel_size=1
  actor_rollout_ref.rollout.n_gpus_per_node=1
  actor_rollout_ref.rollout.calculate_log_probs=True
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=64
  actor_rollout_ref.rollout.agent.num_workers=1
  actor_rollout_ref.rollout.val_kwargs.n=8
  actor_rollout_ref.rollout.val_kwargs.do_sample=True
  actor_rollout_ref.rollout.val_kwargs.temperature=1.0

  # --- a CPU instead of a GPU ---
  trainer.device=cpu
  +ray_kwargs.ray_init.address=local  # else Ray joins whatever cluster it finds
  +ray_kwargs.ray_init.num_gpus=1     # a slot to place the worker in, not a device
  ray_kwargs.ray_init.num_cpus=16     # as many actors as verl starts
  actor_rollout_ref.actor.strategy=fsdp2
  actor_rollout_ref.actor.use_torch_compile=False
  +actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32
  +actor_rollout_ref.model.override_config.attn_implementation=sdpa
  actor_rollout_ref.model.use_remove_padding=False
  actor_rollout_ref.model.enable_gradient_checkpointing=False
  transfer_queue.backend.SimpleStorage.num_data_storage_units=1

  # --- the run ---
  trainer.nnodes=1
  trainer.n_gpus_per_node=1
  trainer.total_epochs=1
  trainer.total_training_steps=60
  trainer.test_freq=20
  trainer.val_before_train=True
  trainer.save_freq=-1
  trainer.resume_mode=disable
  trainer.default_local_dir=runs/mini/verl
  trainer.project_name=maxatk
  trainer.experiment_name=mini
  'trainer.logger=["console"]'
)

exec "${PYTHON:-python}" -m verl.trainer.main_ppo "${settings[@]}" "$@"
