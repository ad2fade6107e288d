#!/bin/bash
# Two nodes with two ranks each, started by srun: sbatch examples/clusters/slurm.sh train.py ARGS
# The script has `import mindnlp_dp_plugin` as its first import. Run by `make slurm`.
#SBATCH --job-name=mindnlp-dp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --output=slurm-%j.log
set -euo pipefail

# A rank that fails ends the step; its exit code is the job's.
srun --kill-on-bad-exit=1 --label python "$@"
