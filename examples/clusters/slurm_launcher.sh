#!/bin/bash
# The same with mindnlp-dp run, once on each node: one log per rank, the rank that failed first is named.
# sbatch examples/clusters/slurm_launcher.sh train.py ARGS. The script needs no line of the plugin. Run by `make slurm`.
#SBATCH --job-name=mindnlp-dp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --output=slurm-%j.log
set -euo pipefail

srun --kill-on-bad-exit=1 mindnlp-dp run --nproc 2 --log-dir "logs-$SLURM_JOB_ID" "$@"
