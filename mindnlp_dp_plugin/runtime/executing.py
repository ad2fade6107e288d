"""What a rank does when its script calls ``os.exec...`` or ``os._exit``, of which Python tells nobody.

Scripts that must change variables before Python starts execute Python in their own place: with a script it stays a
rank, which begins as ranks do, pinned and with the plugin installed. Who leaves by ``os._exit(0)`` has succeeded.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.job.cluster import OF_THE_SCHEDULER, SCHEDULER
from mindnlp_dp_plugin.job.rank_process import is_child_of_rank
from mindnlp_dp_plugin.job.signals import ignore_preemption
from mindnlp_dp_plugin.job.variables import DEFERRED
from mindnlp_dp_plugin.launch.ports import free_port
from mindnlp_dp_plugin.runtime import dynamic_cluster

WORKER = "mindnlp_dp_plugin.runtime.worker"


def stay_rank() -> None:
    """From now on, let what this process executes by ``os.exec...`` be a rank."""
    execute = os.execve

    def execv(path, args):
        execve(path, args, os.environ)

    def execve(path, args, environ):
        if not is_child_of_rank() and is_this_python(path) and runs_a_script(args):
            args, environ = [args[0], "-m", WORKER, *args[1:]], {**environ, DEFERRED: "1"}
            environ |= leave_the_others(environ)
        execute(path, args, environ)

    os.execv, os.execve = execv, execve  # the others call these


def leave_the_others(environ: dict[str, str]) -> dict[str, str]:
    """Before another program joins in this one's place: leave. All ranks must execute one.

    Returns:
        Variables for that program: MindSpore's cluster, which its scheduler ends with, is formed anew at another port.
    """
    group = collectives.current()
    if group.world_size == 1:
        return {}
    port = group.all_gather_object(free_port())[0]
    group.leave()
    if not group.forms_cluster:
        return {}
    cluster = {"MS_SCHED_PORT": str(port)}
    if group.rank == 0:
        # It outlives this rank, as the others leave the cluster later; the launcher ends it.
        told = {**environ, **cluster, **OF_THE_SCHEDULER}
        subprocess.Popen(SCHEDULER, env=told, stdin=subprocess.DEVNULL, preexec_fn=ignore_preemption)
    timeout = DataParallelConfig.from_env().timeout
    dynamic_cluster.await_scheduler(environ["MS_SCHED_HOST"], port, timeout)
    return cluster


def leave_in_order() -> None:
    """From now on, let a rank that leaves by ``os._exit(0)`` wait until what it has sent has arrived.

    With another status it tells the others.
    """
    leave, process = os._exit, os.getpid()

    def _exit(status):
        if os.getpid() == process:
            collectives.tell_failure() if status else collectives.see_off()
        leave(status)

    os._exit = _exit


def is_this_python(path: str | bytes) -> bool:
    """Whether that is the interpreter that runs here."""
    return os.path.realpath(shutil.which(os.fsdecode(path)) or os.fsdecode(path)) == os.path.realpath(sys.executable)


def runs_a_script(args: Sequence[str | bytes]) -> bool:
    """Whether that is ``python [-m] script args...``, without further options of Python."""
    words = [os.fsdecode(word) for word in args]
    return len(words) > 1 and (words[1] == "-m" or not words[1].startswith("-")) and words[1:3] != ["-m", WORKER]
