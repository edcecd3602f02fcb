#!/usr/bin/env bash
# MBPP as problems with tests, in the parquet files that verl reads: data/maxatk/{train,test}.parquet.
#   prepare_data.sh           rows from the hub
#   prepare_data.sh FILE      rows of MBPP in a file
# Run it again after an interruption: what is done is left.
set -euo pipefail
out=${OUT:-data/maxatk}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
for part in train test; do
  maxatk problems prepare "$here/data.yaml" ${1:+"sets.$part.file=$1"} --only "$part" \
    --out "$out/$part.jsonl"
  maxatk problems export "$out/$part.jsonl" --for verl --out "$out/$part.parquet"
done
