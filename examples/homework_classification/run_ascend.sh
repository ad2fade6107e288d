#!/usr/bin/env bash
# RoBERTa on a data set of your own, with 2 x Ascend 910, started by MindSpore's own launcher.
#
#     bash run_ascend.sh [--dataset <file>, and other arguments of homework_classification.py]
#
# Needs CANN and the MindSpore wheel that fits it. Never run on an NPU by the project: there is none to test on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

export HCCL_CONNECT_TIMEOUT=600   # seconds a rank waits for the others to start; the default of 120 is short
export HCCL_EXEC_TIMEOUT=1800     # seconds a collective may take; the others wait this long while rank 0 tokenises
unset MULTI_NPU                   # the plugin does what this switched on in MindNLP

exec msrun --worker_num=2 --local_worker_num=2 --master_port=8118 --join=True --log_dir=homework_classification_logs \
    homework_classification.py --model roberta-base "$@"
