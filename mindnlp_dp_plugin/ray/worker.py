"""What runs in each worker of Ray beside the training function: before it, in the main thread, and around it."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import ray
from ray.exceptions import RayActorError
from ray.train import get_context
from ray.train.v2._internal.exceptions import UserExceptionWithTraceback
from ray.train.v2._internal.execution.context import get_train_context

from mindnlp_dp_plugin.compat import has_mindnlp05
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import Preempted
from mindnlp_dp_plugin.job.hardware import allowed_cores
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.rank_process import become_rank
from mindnlp_dp_plugin.job.variables import DEFERRED, GOES_ON, JOB, RESTART
from mindnlp_dp_plugin.launch.ports import free_port
from mindnlp_dp_plugin.ray.devices import choose_device
from mindnlp_dp_plugin.runtime import cpu_affinity, dynamic_cluster

TRAINING_THREAD = "TrainingThread"  # how Ray names it
joined_with: DataParallelConfig | None = None  # the settings of this rank
ENDED_WITHIN_S = 30  # Ray asks each rank every two seconds, and ends all when one has failed


def address_and_port() -> tuple[str, int]:
    """This node's address, and a port that is free here, for the scheduler of MindSpore's cluster."""
    return ray.util.get_node_ip_address(), free_port()


def join(address: str, port: int, restart: int, job: str, settings: DataParallelConfig) -> None:
    """Become a rank. All workers must call it, in their main threads.

    Args:
        address: Where rank 0 runs.
        port: Where its scheduler is to listen.
        restart: How often Ray has started the workers again.
        job: The run of Ray Train.
        settings: The plugin's.

    Raises:
        DataParallelError: If this worker has no device, or the workers cannot join.
    """
    context = get_context()
    rank_info = RankInfo(
        rank=context.get_world_rank(),
        world_size=context.get_world_size(),
        local_rank=context.get_local_rank(),
        local_world_size=context.get_local_world_size(),
        launcher="Ray",
        scheduler=(address, port),
    )
    # A run that its script starts once more under the same name goes on, too: Ray then has a checkpoint of before.
    goes_on = restart > 0 or ray.train.get_checkpoint() is not None
    os.environ.update(rank_info.for_scripts(), MASTER_ADDR=address, MASTER_PORT=str(port))
    os.environ.update({JOB: job, GOES_ON: "1", RESTART: str(int(goes_on))})
    os.environ.setdefault("GLOG_v", "3")
    become_rank(has_joined=False)
    device = choose_device(ray.get_runtime_context().get_accelerator_ids(), settings)
    if cpu_affinity.is_wanted(settings) and device is None:
        _pin(rank_info)
    if rank_info.world_size > 1:
        dynamic_cluster.form(rank_info, settings.timeout)
    if device is not None:
        os.environ["DEVICE_ID"] = str(device)
    os.environ.pop(DEFERRED, None)
    if goes_on and has_mindnlp05():
        settings = replace(settings, resume=True)  # its checkpoints name no job
    _install(settings)


def _install(settings):
    """Only now may MindSpore be imported, as this does."""
    import mindnlp_dp_plugin
    from mindnlp_dp_plugin.checkpoint import elsewhere
    from mindnlp_dp_plugin.collectives import watchdog
    from mindnlp_dp_plugin.ray import checkpoints
    from mindnlp_dp_plugin.step import preemption

    global joined_with
    mindnlp_dp_plugin.install(settings)
    joined_with = settings
    elsewhere.keep(checkpoints.bring_back)
    preemption.hear_for_other_threads()
    preemption.ask(_node_is_drained)
    watchdog.tell_by(_tell_ray)


def _pin(rank_info):
    """To a share of the cores, if this run's workers are the only ones that the node has cores for."""
    cores = allowed_cores()
    wanted = ray.get_runtime_context().get_assigned_resources().get("CPU", 1) * rank_info.local_world_size
    if wanted >= len(cores):
        cpu_affinity.pin(rank_info, cores, os.environ)


def _node_is_drained():
    """Whether Ray is about to take one of the run's nodes away. ``ray.train.get_preemption_info`` waits for all ranks,
    which would cost each step a round trip to Ray; the ranks compare what they know by themselves.
    """
    return get_train_context().preemption_context.preemption_info is not None


class NodeDrained(RayActorError):
    """Training has stopped, with a checkpoint, because Ray takes a node away; no failure of the training function.

    Args:
        words: What was done.
    """

    def __init__(self, words: str):
        super().__init__(error_msg=words, preempted=True)
        self._words = words

    def __reduce__(self):
        return type(self), (self._words,)


@contextmanager
def around_training() -> Iterator[None]:
    """Let Ray tell a node that it takes away itself from a failure, of which a run may have only so many."""
    try:
        yield
    except Preempted as error:
        if _node_is_drained():
            raise NodeDrained(str(error)) from error
        raise


def _tell_ray(error):
    """Give the error of a rank that gives up to Ray, as if its function had raised it, and wait for the end."""
    runner = get_train_context().execution_context.training_thread_runner
    if not runner.is_running():
        return
    stacks = sys._current_frames()
    training = next(thread for thread in threading.enumerate() if thread.name.startswith(TRAINING_THREAD))
    stack = "".join(traceback.format_stack(stacks[training.ident]))
    runner.get_exception_queue().put(UserExceptionWithTraceback(error, f"{stack}\n{type(error).__name__}: {error}"))
    time.sleep(ENDED_WITHIN_S)
