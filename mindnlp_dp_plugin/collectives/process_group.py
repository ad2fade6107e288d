"""The ranks this process belongs to: joined when the plugin is installed, left when the script is done."""

import os
from collections.abc import Callable

from mindnlp_dp_plugin.collectives.base import Collective
from mindnlp_dp_plugin.collectives.engine_settings import choose_sum, set_backend_times
from mindnlp_dp_plugin.collectives.engines import ENGINES, Engine, engines_for
from mindnlp_dp_plugin.collectives.lifeline import End, Lifeline, tie
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.collectives.watchdog import Watchdog, Watched
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.cluster import scheduler_address
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.rank_status import JOINING, show_status
from mindnlp_dp_plugin.job.variables import JOB

compared_at_the_end: list[Callable[[], dict]] = []
"""What each returns must be the same on all ranks when the script is done, where they have the same keys."""

_group: Collective | None = None
_watchdog: Watchdog | None = None
_lifeline: Lifeline | None = None


def join(rank_info: RankInfo, backend: str, timeout: float) -> Collective:
    """Join the ranks that were started together with this process. All ranks must call it.

    Args:
        rank_info: Which rank this is, as its launcher said.
        backend: The name of an engine, or ``auto``.
        timeout: Seconds that a collective may wait.

    Returns:
        The collective. Later calls return the same one and only change the timeout.

    Raises:
        DataParallelError: If ``backend`` does not fit the launcher, the device, or what is installed.
    """
    global _group
    if _group is None:
        _group = SingleProcess() if rank_info.launcher == "none" else _join_others(rank_info, backend, timeout)
    if _watchdog:
        _watchdog.allow(timeout)
    return _group


def pretend(group: Collective) -> None:
    """Take ``group`` for the ranks that this process has joined; without others, ``join`` then joins nobody."""
    global _group
    _group = group


def current() -> Collective:
    """The collective of this process; a ``SingleProcess`` before ``join``."""
    return _group or SingleProcess()


def shutdown() -> None:
    """Wait until every rank is done with its last collective. All ranks must call it, last of all.

    If a rank left earlier, a collective in which its peers still are would fail.

    Raises:
        DataParallelError: If what ``compared_at_the_end`` tells differs between ranks.
    """
    if isinstance(_group, Watched):
        everyone = _group.end([tell() for tell in compared_at_the_end])
        if not all(_agree(*of_two) for other in everyone for of_two in zip(everyone[0], other)):
            raise DataParallelError(
                "Ranks have trained one model together, and end with different parameters. What this job has saved "
                "since they parted comes from one rank alone. Change the model, and its optimizer with its learning "
                "rate, alike on all ranks, and step equally often."
            )
        _say(End.DONE)


def _agree(one, other):
    return all(one[key] == other[key] for key in one.keys() & other.keys())


def see_off() -> None:
    """Call it before this process leaves by ``os._exit(0)``; the other ranks may go on, and need not do the same."""
    if isinstance(_group, Watched):
        _group.see_off()
        _say(End.DONE)


def tell_failure() -> None:
    """Call it before this process leaves with another status than 0, so that the other ranks end, too."""
    _say(End.FAILED)


def _say(end):
    if _lifeline:
        _lifeline.say(end)


def _join_others(rank_info, backend, timeout):
    global _watchdog, _lifeline
    status = show_status(rank_info.rank)
    _watchdog = Watchdog(rank_info, status, timeout)
    _watchdog.start()
    engine = _choose(rank_info.launcher, backend)
    status.enter(0, JOINING)
    if engine.forms_cluster:
        set_backend_times(engine.device, timeout)
    else:
        choose_sum()
    collective = _load(engine)()
    if collective.world_size != rank_info.world_size:
        raise DataParallelError(
            "{launcher} announced {announced} processes, but {joined} joined: is the script started with the mpirun or "
            "msrun of another environment?",
            launcher=rank_info.launcher,
            announced=rank_info.world_size,
            joined=collective.world_size,
        )
    scheduler = scheduler_address() if engine.forms_cluster else None
    on_several_nodes = rank_info.local_world_size not in (None, rank_info.world_size)
    if JOB not in os.environ and (scheduler or (on_several_nodes and not engine.forms_cluster)):
        _lifeline = tie(collective, scheduler)
        _watchdog.listen(_lifeline)
    status.leave()
    group = Watched(collective, engine, status, _watchdog)
    group.local_rank, group.local_world_size = rank_info.local_rank, rank_info.local_world_size
    return group


def _choose(launcher, backend) -> Engine:
    import mindspore

    device, by_mpirun = mindspore.get_context("device_target"), launcher == "mpirun"
    if backend == "auto":
        fitting = engines_for(device)
        return next((engine for engine in fitting if engine.forms_cluster != by_mpirun), fitting[0])
    engine = ENGINES[backend]
    if not (engine.forms_cluster or by_mpirun):
        raise DataParallelError(
            "backend={backend!r} needs mpirun, but this process was started by {launcher}.",
            backend=backend,
            launcher=launcher,
        )
    if device != engine.device:
        raise DataParallelError(
            "backend={backend!r} needs the device {device}, but MindSpore runs on {actual}: choose backend='auto', or "
            "set DEVICE_TARGET.",
            backend=backend,
            device=engine.device,
            actual=device,
        )
    if by_mpirun and device == "CPU" and engine.forms_cluster:
        raise DataParallelError(
            "backend={backend!r} cannot be started by mpirun: use msrun or mindnlp-dp run, or 'mpi'.", backend=backend
        )
    return engine


def _load(engine) -> type[Collective]:
    try:
        return engine.load()
    except ImportError as error:
        raise DataParallelError(
            "backend={name!r} cannot be used ({error}): pip install 'mindnlp-dp-plugin[mpi]'.",
            name=engine.name,
            error=error,
        ) from error
