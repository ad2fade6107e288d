#!/bin/bash
# As slurm.sh, but two minutes before its time is over the job writes a checkpoint, and is queued again to go on from
# there. sbatch examples/clusters/slurm_requeue.sh train.py ARGS. Run by `make slurm`.
#SBATCH --job-name=mindnlp-dp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%j.log
set -uo pipefail

# Slurm sends SIGUSR1 to the ranks; after a node was lost, the newest checkpoint is there, too.
export MINDNLP_DP_RESUME=1
srun --label python "$@"
status=$?
if [ $status = 138 ]; then # 128 + SIGUSR1
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $status
