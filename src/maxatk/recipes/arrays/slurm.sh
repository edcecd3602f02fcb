#!/usr/bin/env bash
# An evaluation as a job array of Slurm: each task takes one shard, whose folder another can finish.
#   export SHARDS=16
#   sbatch --array=1-$SHARDS recipes/arrays/slurm.sh --model MODEL --problems test.jsonl --out runs/eval
#   maxatk merge runs/eval   # once the array has ended; it names the shards that have to start again
# Give partition, account and GPUs to sbatch. COMMAND=score takes the flags of `maxatk score`.
#SBATCH --job-name=maxatk
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

# Not SLURM_ARRAY_TASK_COUNT: where some tasks are started again, the others are not counted.
exec "${MAXATK:-maxatk}" "${COMMAND:-eval}" --shard "$SLURM_ARRAY_TASK_ID/${SHARDS:?}" "$@"
