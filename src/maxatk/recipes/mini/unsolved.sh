#!/bin/sh
# Models and problems of unsolved.yaml, in runs/unsolved: a folder for each seed that is named, such
# as `recipes/mini/unsolved.sh 11 12`. Run it again after a kill: every line resumes or is done.
#
# A set that is called unsolved has the problems of which the model before training solved none in
# 16 samples. MAXATK is the command.
set -eu
maxatk=${MAXATK:-maxatk}
for seed in "$@"; do
    folder=runs/unsolved/$seed
    $maxatk mini "$folder" --seed "$seed" --train-problems 2000 --test-problems 150 --tests 6
    for part in train test; do
        $maxatk eval mini/unsolved_base.yaml "model=$folder/base" \
            "problems=$folder/$part.jsonl" "out=$folder/base-$part"
        $maxatk problems select "$folder/base-$part" --out "$folder/$part-unsolved.jsonl" \
            --min-max-at-k None --max-max-at-k 0.0625
    done
done
