"""What each system leaves in the environment, as recorded or as its documentation shows, and who a process then is."""

import pytest

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import VARIABLES, detect, detect_nodes
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.several_nodes import Nodes

# Recorded on Slurm 22.05: task 3 of `srun -N2 -n4`.
SRUN = {
    "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "2", "SLURM_STEPID": "2", "SLURM_PROCID": "3", "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_NNODES": "2", "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_NODELIST": "n[1-2]", "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
}  # fmt: skip
SLURM_PORT = 15000 + 17 * 64 + 2 * 2
# Recorded: the batch step of `sbatch -N2 -n4`, and a shell within `salloc -N2 -n4`.
SALLOC = {
    "SLURM_JOB_ID": "4", "SLURM_NTASKS": "4", "SLURM_NPROCS": "4", "SLURM_NNODES": "2", "SLURM_NODELIST": "n[1-2]",
    "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_JOB_NUM_NODES": "2",
}  # fmt: skip
SBATCH = {**SALLOC, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_GTIDS": "0"}
# https://slurm.schedmd.com/salloc.html (LaunchParameters=use_interactive_step)
INTERACTIVE = {**SALLOC, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
# https://pytorch.org/docs/stable/elastic/run.html#environment-variables
TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "ROLE_RANK": "3",
    "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}  # fmt: skip
# https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch, worker 1 of a master and a worker
PYTORCH_JOB = {
    "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "PYTHONUNBUFFERED": "1",
    "PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "job-master-0", "PET_MASTER_PORT": "23456",
}  # fmt: skip
# The same with nprocPerNode: 4, and https://www.kubeflow.org/docs/components/trainer, which sets PET_* alone
PET = {
    "PET_NNODES": "2", "PET_NPROC_PER_NODE": "4", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29400",
}  # fmt: skip
# https://help.aliyun.com/zh/pai/user-guide/general-environment-variables: WORLD_SIZE counts nodes
PAI = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "dlc1-master-0", "MASTER_PORT": "23456"}
# https://www.hiascend.com/document (MindCluster, AscendJob for MindSpore): worker 1 of two pods with 8 cards
ASCEND_JOB = {
    "MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "16", "MS_LOCAL_WORKER": "8", "MS_SCHED_HOST": "10.2.3.4",
    "MS_SCHED_PORT": "2222", "MS_NODE_RANK": "1",
}  # fmt: skip
# https://support.huaweicloud.com/develop-modelarts (environment variables of a training container)
MODEL_ARTS = {
    "MA_NUM_HOSTS": "2", "MA_NUM_GPUS": "8", "MA_CURRENT_IP": "10.1.0.6", "VC_TASK_INDEX": "1", "VC_WORKER_NUM": "2",
    "VC_WORKER_HOSTS": "modelarts-job-worker-0.modelarts-job,modelarts-job-worker-1.modelarts-job",
}  # fmt: skip
# https://volcano.sh/en/docs/plugins (env and svc)
VOLCANO = {
    "VC_TASK_INDEX": "1", "VK_TASK_INDEX": "1", "VC_PS_HOSTS": "job-ps-0.job", "VC_PS_NUM": "1", "VC_WORKER_NUM": "2",
    "VC_WORKER_HOSTS": "job-worker-0.job,job-worker-1.job", "HOSTNAME": "job-worker-1",
}  # fmt: skip
# https://docs.skypilot.co/en/latest/running-jobs/distributed-jobs.html
SKYPILOT = {
    "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
    "SKYPILOT_NUM_GPUS_PER_NODE": "4",
}  # fmt: skip

RANKS = {
    "srun": (SRUN, RankInfo(3, 4, 1, 2, "srun", scheduler=("n1", SLURM_PORT))),
    "torchrun": (TORCHRUN, RankInfo(3, 4, 1, 2, "torchrun", scheduler=("10.0.0.1", 29501))),
    "PyTorchJob": (PYTORCH_JOB, RankInfo(1, 2, 0, 1, "PyTorchJob", scheduler=("job-master-0", 23456))),
    "Alibaba PAI": (PAI, RankInfo(1, 2, 0, 1, "PyTorchJob", scheduler=("dlc1-master-0", 23456))),
}
KUBEFLOW = Nodes("Kubeflow (2 nodes)", 2, "msrun", "$PET_NODE_RANK", "$PET_MASTER_ADDR", "$PET_MASTER_PORT")
OF_TORCH = Nodes("PyTorchJob (2 nodes)", 2, "msrun", "$RANK", "$MASTER_ADDR", "$MASTER_PORT")
NODES = {
    "srun": (SRUN, Nodes("Slurm (2 nodes)", 2, "srun")),
    "srun on a node": ({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "4"}, Nodes("srun (4 tasks)", 1, "srun")),
    "sbatch": (SBATCH, Nodes("Slurm (2 nodes)", 2, "srun")),
    "interactive step": (INTERACTIVE, Nodes("Slurm (2 nodes)", 2, "srun")),
    "PyTorchJob": (PYTORCH_JOB, OF_TORCH),
    "Alibaba PAI": (PAI, OF_TORCH),
    "Kubeflow": (PET, KUBEFLOW),
    "PyTorchJob of 4": ({**PYTORCH_JOB, **PET, "WORLD_SIZE": "8"}, KUBEFLOW),
    "AscendJob": (
        ASCEND_JOB, Nodes("AscendJob (2 nodes)", 2, "msrun", "$MS_NODE_RANK", "$MS_SCHED_HOST", "$MS_SCHED_PORT"),
    ),
    "ModelArts": (MODEL_ARTS, Nodes("ModelArts (2 nodes)", 2, "msrun", "$VC_TASK_INDEX", "${VC_WORKER_HOSTS%%,*}")),
    "Volcano": (VOLCANO, Nodes("Volcano (2 nodes)", 2, "msrun", "$VC_TASK_INDEX", "${VC_WORKER_HOSTS%%,*}")),
    "SkyPilot": (
        SKYPILOT, Nodes("SkyPilot (2 nodes)", 2, "msrun", "$SKYPILOT_NODE_RANK", "${SKYPILOT_NODE_IPS%%[[:space:]]*}"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("system", RANKS)
def test_a_process_that_is_a_rank_joins(system):
    environ, expected = RANKS[system]
    assert detect(environ) == expected


@pytest.mark.parametrize("system", NODES)
def test_several_nodes_are_told_apart_from_ranks(system):
    environ, expected = NODES[system]
    assert detect_nodes(environ) == expected
    its_own = {name: value for name, value in environ.items() if name not in VARIABLES}
    assert detect({**its_own, "MINDNLP_DP_JOB": "1"}) == RankInfo(), "a rank of mindnlp-dp run believes that alone"


@pytest.mark.parametrize("system", ["Kubeflow", "PyTorchJob of 4", "AscendJob", "ModelArts", "Volcano", "SkyPilot"])
def test_a_script_on_each_node_does_not_train_alone(system):
    with pytest.raises(DataParallelError, match="would train alone. .* first in the script, .*: msrun --worker_num="):
        detect(NODES[system][0])


def test_a_script_on_a_node_with_several_ranks_does_not_train_alone():
    for environ in ({**ASCEND_JOB, "MS_WORKER_NUM": "8"}, {**PET, "PET_NNODES": "1"}):
        with pytest.raises(DataParallelError, match="mindnlp-dp run --nproc auto <script>"):
            detect(environ)
        assert detect_nodes(environ) is None


def test_what_msrun_starts_in_a_pod_of_an_ascend_job_is_a_rank_or_the_scheduler():
    ours = {**ASCEND_JOB, "MS_NODE_ID": "9", "DEVICE_ID": "1"}
    assert detect(ours) == RankInfo(9, 16, 1, None, "msrun")
    assert detect({**ASCEND_JOB, "MS_ROLE": "MS_SCHED"}).is_scheduler


def test_pmix_alone_does_not_say_how_many_there_are():
    with pytest.raises(DataParallelError, match="PMIX_RANK='1' says that this is one of several processes"):
        detect({"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-host-1@1"})


ALONE = {
    "sbatch": SBATCH,
    "interactive step": INTERACTIVE,
    "srun -n1": {**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_PROCID": "0"},
    "torchrun": {**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
    "PyTorchJob": {**PYTORCH_JOB, "RANK": "0", "WORLD_SIZE": "1", "PET_NNODES": "1"},
    "Kubeflow": {"PET_NNODES": "1", "PET_NODE_RANK": "0", "PET_NPROC_PER_NODE": "auto"},
    "AscendJob": {**ASCEND_JOB, "MS_WORKER_NUM": "1", "MS_LOCAL_WORKER": "1", "MS_NODE_RANK": "0"},
    "ModelArts": {"MA_NUM_HOSTS": "1", "VC_TASK_INDEX": "5", "MA_NUM_GPUS": "1"},
    "Volcano": {"VC_TASK_INDEX": "0", "VC_MAIN_HOSTS": "job-main-0.job", "VC_MAIN_NUM": "1"},
    "a task index alone": {"VC_TASK_INDEX": "0"},
    "SkyPilot": {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NUM_NODES": "1", "SKYPILOT_NODE_IPS": "10.0.0.1"},
}


@pytest.mark.parametrize("system", ALONE)
def test_a_single_process_is_alone(system):
    assert detect(ALONE[system]) == RankInfo()
    if system not in NODES:  # an allocation of several nodes: one process, and yet `mindnlp-dp run` is not enough
        assert detect_nodes(ALONE[system]) is None


@pytest.mark.parametrize(
    ("nodes", "tasks", "first"),
    [
        ("gpu07,gpu[09-11]", "2,1(x3)", "gpu07"),
        ("rack[2-3]node[007-010],other", "2(x8),3", "rack2node007"),
        ("n[3,5-6].site", "1(x2),3", "n3.site"),
    ],
)
def test_slurms_lists_of_nodes_and_tasks(nodes, tasks, first):
    num_tasks = {"2,1(x3)": 5, "2(x8),3": 19, "1(x2),3": 5}[tasks]
    environ = {**SRUN, "SLURM_STEP_NODELIST": nodes, "SLURM_STEP_TASKS_PER_NODE": tasks}
    found = detect({**environ, "SLURM_STEP_NUM_TASKS": str(num_tasks), "SLURM_LOCALID": "0"})
    assert found.scheduler[0] == first and found.world_size == num_tasks


def test_the_launcher_nearest_to_a_process_wins():
    mpirun = {f"OMPI_COMM_WORLD_{what}": "2" for what in ("SIZE", "LOCAL_SIZE")}
    mpirun |= {f"OMPI_COMM_WORLD_{what}": "1" for what in ("RANK", "LOCAL_RANK")}
    assert detect({**SRUN, **SKYPILOT, "PMIX_RANK": "1", **mpirun}) == RankInfo(1, 2, 1, 2, "mpirun")
    assert detect({**SRUN, **TORCHRUN}).launcher == "torchrun"
    assert detect({**SRUN, "PMI_RANK": "3", "PMI_SIZE": "4"}).launcher == "srun", "srun --mpi=pmi2"
    assert detect({**SRUN, "PMIX_RANK": "3"}).launcher == "srun", "srun --mpi=pmix"
    assert detect({**SRUN, **PAI, "RANK": "0"}).launcher == "srun", "what an sbatch script exports for torch"


@pytest.mark.parametrize(
    ("base", "change", "words"),
    [
        (SRUN, {"SLURM_STEP_NUM_TASKS": "many"}, "SLURM_STEP_NUM_TASKS='many'"),
        (SRUN, {"SLURM_PROCID": "4"}, "SLURM_PROCID='4' is not a whole number from 0 to 3: srun sets it"),
        (SRUN, {"SLURM_STEP_TASKS_PER_NODE": "2(x"}, "SLURM_STEP_TASKS_PER_NODE='2[(]x'"),
        (SRUN, {"SLURM_STEP_TASKS_PER_NODE": "2(x3)"}, "does not fit SLURM_STEP_NUM_TASKS=4"),
        (SRUN, {"SLURM_STEP_NODELIST": ""}, "SLURM_STEP_NODELIST='' names no node"),
        (TORCHRUN, {"MASTER_ADDR": None}, "WORLD_SIZE=4 asks for several ranks, but MASTER_ADDR is not set"),
        (TORCHRUN, {"MASTER_PORT": "99999"}, "MASTER_PORT='99999' is not a whole number from 1 to 65534"),
        (TORCHRUN, {"LOCAL_RANK": "2"}, "LOCAL_RANK='2' is not a whole number from 0 to 1"),
        (PAI, {"RANK": "2"}, "RANK='2' is not a whole number from 0 to 1"),
        (PAI, {"MASTER_PORT": None}, "MASTER_PORT is not set"),
        (SKYPILOT, {"SKYPILOT_NUM_NODES": "-1"}, "SKYPILOT_NUM_NODES='-1'"),
        (MODEL_ARTS, {"MA_NUM_HOSTS": "0"}, "MA_NUM_HOSTS='0' is not a whole number from 1: ModelArts sets it"),
    ],
)
def test_variables_that_make_no_sense_are_named(base, change, words):
    environ = {name: value for name, value in {**base, **change}.items() if value is not None}
    with pytest.raises(DataParallelError, match=words) as caught:
        detect(environ)
    assert "\n" not in str(caught.value)


def test_a_line_for_very_many_nodes_names_the_first():
    line = Nodes("a variable", 10**6, "mpirun", master_addr="HEAD").line(8, "train.py", {})
    assert "HEAD:8,NODE1:8," in line and ",...," not in line and ",... " in line and len(line) < 500
