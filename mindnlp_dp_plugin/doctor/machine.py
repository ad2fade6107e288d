"""Cores, memory, shared memory, files, disks and ports: enough of each for two ranks?

Where a limit below is a number, it was measured; docs/doctor.md says how.
"""

import errno
import os
import resource
import shutil
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psutil

from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.job.hardware import CGROUP, SHARED_MEMORY, allowed_cores, cpu_quota, has_shared_memory_for, read
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.launch.ports import LOOPBACK

MB, GB = 2**20, 2**30
NUM_RANKS = 2

RANK_BYTES = 800 * MB  # a rank that has imported MindSpore and MindNLP, before its model
TRAINING_BYTES = 4 * GB  # BERT-base: parameters, gradients, Adam's two moments, and activations
NUM_FILES_NEEDED = 48
NUM_FILES_USUAL = 1024
DISK_BYTES_NEEDED = 100 * MB
DISK_BYTES_USUAL = 2 * GB
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
NUM_PORTS = 16  # two ranks and a scheduler, each listening and connected to the others

MORE_CORES = Message("allow more cores (taskset -c, docker --cpus), or train in one process: two are not faster")
MORE_MEMORY = Message("end other processes, or give the container more (docker --memory)")
MORE_SHARED = Message("start the container with --shm-size=2g or --ipc=host, or mount -o remount,size=2g /dev/shm")
OTHER_TEMPORARY = Message("export TMPDIR=<a folder with room that you may write to>")
MORE_PORTS = Message("sysctl -w net.ipv4.ip_local_port_range='32768 60999', or end what holds them")
MEND_LOOPBACK = Message("bring the loopback interface up (ip link set lo up), or let the firewall pass it")


def cores() -> Finding:
    """Cores the ranks may use, by affinity and by the container's quota."""
    allowed, quota = len(allowed_cores()), cpu_quota()
    found = tr("{allowed} of {all} allowed", allowed=allowed, all=os.cpu_count())
    if quota is not None:
        found = tr("{found}, quota of {quota:g}", found=found, quota=quota)
    usable = min(allowed, quota or allowed)
    known = {"found": found, "ranks": NUM_RANKS, "cores": allowed // NUM_RANKS}
    if usable < NUM_RANKS:
        return warning("{found}: {ranks} ranks would share one core", MORE_CORES, **known)
    return ok("{found}; mindnlp-dp run pins each of {ranks} ranks to {cores}", {"usable": usable}, **known)


def memory_left() -> int | None:
    """Bytes that the container's limit leaves; None without a limit.

    As for ``docker stats``, files in the kernel's cache that nobody has used for long count as free: it drops them.
    """
    limit, used = read(CGROUP / "memory.max"), read(CGROUP / "memory.current")  # version 2
    cached, statistics = "inactive_file", read(CGROUP / "memory.stat")
    if limit is None:
        group = CGROUP / "memory"
        limit, used = read(group / "memory.limit_in_bytes"), read(group / "memory.usage_in_bytes")
        cached, statistics = "total_inactive_file", read(group / "memory.stat")
    if limit in (None, "max") or int(limit) > psutil.virtual_memory().total:  # version 1 says "none" by a huge number
        return None
    bytes_of = dict(line.split() for line in (statistics or "").splitlines())
    return int(limit) - int(used or 0) + int(bytes_of.get(cached, 0))


def memory() -> Finding:
    """Memory available on the machine and in the container."""
    available, limit = psutil.virtual_memory().available, memory_left()
    found = tr("{gb:.1f} GB available", gb=available / GB)
    if limit is not None and limit < available:
        available, found = limit, tr("{gb:.1f} GB available, limited by the container", gb=limit / GB)
    if available < NUM_RANKS * RANK_BYTES:
        need = {"found": found, "ranks": NUM_RANKS, "mb": RANK_BYTES // MB}
        return failure("{found}; {ranks} ranks need {mb} MB each before any model", MORE_MEMORY, **need)
    if available < NUM_RANKS * TRAINING_BYTES:
        need = {"found": found, "gb": TRAINING_BYTES // GB}
        return warning("{found}; BERT-base takes about {gb} GB per rank", MORE_MEMORY, **need)
    return ok(found, {"available_bytes": available})


def shared_memory() -> Finding:
    """Room in /dev/shm. Too little does not end training: mindnlp-dp run then lets Open MPI send over TCP."""
    usage = shutil.disk_usage(SHARED_MEMORY)
    room = {"free": usage.free / MB, "total": usage.total / MB, "folder": SHARED_MEMORY}
    found = tr("{free:.0f} of {total:.0f} MB free in {folder}", **room)
    if not os.access(SHARED_MEMORY, os.W_OK):
        found = tr("{folder} cannot be written", folder=SHARED_MEMORY)
    if not has_shared_memory_for(NUM_RANKS):
        return warning(
            "{found}: mindnlp-dp run lets Open MPI send over TCP, data sets with python_multiprocessing fail",
            MORE_SHARED,
            found=found,
        )
    return ok(found, {"free_bytes": usage.free})


def open_files() -> Finding:
    """Files and sockets a process may open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    way_out = f"ulimit -n {NUM_FILES_USUAL}"
    if limit < NUM_FILES_NEEDED:
        return failure("{limit} per process; mpirun does not start with that few", way_out, limit=limit)
    if limit < NUM_FILES_USUAL:
        return warning("{limit} per process, few for data sets of many files", way_out, limit=limit)
    return ok("{limit} per process", limit=limit)


def working_directory() -> Finding:
    """Room for logs and checkpoints."""
    return disk(Path.cwd(), Message("change to a folder with room that you may write to"))


def temporary_folder() -> Finding:
    """Room for temporary files of Open MPI and MindNLP."""
    try:
        return disk(Path(tempfile.gettempdir()), OTHER_TEMPORARY)
    except FileNotFoundError as error:  # none of the usual places can be written
        return failure(error.strerror, OTHER_TEMPORARY)


def disk(folder: Path, way_out: str) -> Finding:
    """Whether a folder can be written, and the room on its disk."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))
            probe.flush()
    except OSError as error:
        return failure("{folder} cannot be written: {error}", way_out, folder=folder, error=error.strerror)
    free = shutil.disk_usage(folder).free
    if free < DISK_BYTES_NEEDED:
        return failure("only {mb} MB free in {folder}", way_out, mb=free // MB, folder=folder)
    found = tr("{gb:.1f} GB free in {folder}", gb=free / GB, folder=folder)
    if free < DISK_BYTES_USUAL:
        return warning("{found}; a checkpoint of BERT-base with its optimizer takes 1.3 GB", way_out, found=found)
    return ok(found)


def ports() -> Finding:
    """Whether enough ports are free on loopback, and a connection over it works."""
    known = {"count": NUM_PORTS, "address": LOOPBACK, "range": "-".join(PORT_RANGE.read_text().split())}
    try:
        with ExitStack() as opened:
            listeners = [opened.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(NUM_PORTS)]
            opened.enter_context(socket.create_connection(listeners[0].getsockname(), timeout=5))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
            return failure("no connection over {address}: {error}", MEND_LOOPBACK, address=LOOPBACK, error=error)
        found = Message("no {count} free ports on {address}: net.ipv4.ip_local_port_range is {range}")
        return failure(found, MORE_PORTS, **known)
    return ok("{count} ports at once on {address}, from {range}", **known)
