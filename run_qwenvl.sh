#!/usr/bin/env bash
# Evaluates Qwen2.5-VL on a data set. What is set here can also be given from outside: DATA_PATH=shapes:4 bash run_qwenvl.sh
set -euo pipefail
cd "$(dirname "$0")"

TARGET_PATH=${TARGET_PATH:-Qwen/Qwen2.5-VL-7B-Instruct}   # target model: a hub name or a folder
DRAFT_PATH=${DRAFT_PATH:-Qwen/Qwen2.5-VL-3B-Instruct}    # draft model; the target's own name: it drafts for itself
DATA_PATH=${DATA_PATH:-data/VideoDetailCaption}           # the data set's folder, a folder of clips, a table, or shapes:N
TASK=${TASK-VideoDetailCaption}                           # how the folder lies: see python -m lvspec_core evaluate --help; empty for the others
PRUNING_RATIO=${PRUNING_RATIO:-0.9}                       # share of the video tokens that the drafts of SpecVLM and LVSpec do not see
FRAME_NUM=${FRAME_NUM:-64}                                # frames sampled from each video
EVAL_NUM=${EVAL_NUM:-100}                                 # samples
MAX_NEW_TOKENS=${MAX_NEW_TOKENS:-256}
GPUS=${GPUS:-1}                                           # processes, one on each GPU; the samples are shared out
SAVE_PATH=${SAVE_PATH:-runs/qwen2.5-vl}
PYTHON=${PYTHON:-.venv/bin/python}

LAUNCH=("$PYTHON")
if [ "$GPUS" -gt 1 ]; then LAUNCH=("$PYTHON" -m accelerate.commands.launch --multi_gpu --num_processes "$GPUS"); fi

# --resume: started again after whatever ended it, it goes on where it was
"${LAUNCH[@]}" -m lvspec_core evaluate --target "$TARGET_PATH" --draft "$DRAFT_PATH" --data "$DATA_PATH" --task "$TASK" \
    --pruning-ratio "$PRUNING_RATIO" --frames "$FRAME_NUM" --num "$EVAL_NUM" --max-new-tokens "$MAX_NEW_TOKENS" \
    --save-path "$SAVE_PATH" --resume "$@"
