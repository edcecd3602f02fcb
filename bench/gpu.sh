#!/bin/sh
# What to run first on a GPU, in two pieces of some ten minutes. Each says on standard output what it
# found, and a piece that was cut off is run again: studies resume.
#
#   bench/gpu.sh engines MODEL PROBLEMS.jsonl   # whether every engine is right here, and how fast
#   bench/gpu.sh training MODEL PROBLEMS.jsonl  # a step against TRL's, then smollm2/gpu.yaml to its table
#
# It needs maxatk[train,eval,report,peft] and, for the engine, vllm. MODEL and PROBLEMS.jsonl are those
# of `NAME=gpu SAMPLES=0 recipes/smollm2/prepare.sh hidden`: runs/smollm2/model and
# runs/smollm2/gpu/pool-train.jsonl. In the environment: PYTHON, the interpreter; LIMIT, the seconds of the
# study, 480 where not given; the next call goes on where it stopped.
set -eu
piece=${1:?engines or training} model=${2:?a model folder} problems=${3:?a problems.jsonl}
python=${PYTHON:-python}
maxatk="$python -m maxatk"
bench=$(dirname "$0")
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

case $piece in
engines)
    $maxatk doctor --engines
    $python "$bench/attention_gradients.py"
    $python "$bench/sampling.py" "$model" "$problems" rows=1,16,256 dtype=bfloat16 \
        engines=maxatk,generate,vllm
    ;;
training)
    $python "$bench/rollouts.py" --rounds 1 "$model" "$problems"
    study="$maxatk study smollm2/gpu.yaml model=$model"
    timeout --signal=INT "${LIMIT:-480}" $study || test $? = 124
    $study --dry-run
    ;;
*)
    echo "gpu.sh: no piece '$piece'; allowed: engines, training" >&2
    exit 2
    ;;
esac
