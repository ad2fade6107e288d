#!/bin/bash
# As slurm_launcher.sh, but two minutes before its time is over the job writes a checkpoint, and is queued again to go on
# from there. sbatch examples/clusters/slurm_requeue.sh train.py ARGS. Run by `make slurm`.
#SBATCH --job-name=mindnlp-dp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm-%j.log
set -uo pipefail

logs="logs-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}"
srun mindnlp-dp run --nproc 2 --resume --grace 90 --log-dir "$logs" "$@"
status=$?
if [ $status = 138 ]; then # 128 + SIGUSR1
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $status
