"""Cores, memory, shared memory, files and disks: enough of each for two ranks?

Where a limit below is a number, it was measured; docs/doctor.md says how.
"""

import os
import resource
import shutil
import tempfile
from pathlib import Path

import psutil

from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.job.hardware import CGROUP, SHARED_MEMORY, allowed_cores, cpu_quota, has_shared_memory_for, read
from mindnlp_dp_plugin.language import Message, tr

MB = 2**20
GB = 2**30
NUM_RANKS = 2
WORKING_DIRECTORY, TEMPORARY_FOLDER = Message("working directory"), Message("temporary folder")

RANK_BYTES = 800 * MB  # a rank that has imported MindSpore and MindNLP, before its model
TRAINING_BYTES = 4 * GB  # BERT-base: parameters, gradients, Adam's two moments, and activations
NUM_FILES_NEEDED = 48
NUM_FILES_USUAL = 1024
DISK_BYTES_NEEDED = 100 * MB
DISK_BYTES_USUAL = 2 * GB


def cores() -> Finding:
    """Cores the ranks may use, by affinity and by the container's quota."""
    allowed, quota = len(allowed_cores()), cpu_quota()
    usable = allowed if quota is None else min(allowed, quota)
    if quota is None:
        found = tr("{allowed} of {all} allowed", allowed=allowed, all=os.cpu_count())
    else:
        found = tr("{allowed} of {all} allowed, quota of {quota:g}", allowed=allowed, all=os.cpu_count(), quota=quota)
    if usable < NUM_RANKS:
        way_out = tr("start with more (taskset -c, docker --cpus), or train in one process: two will not be faster")
        return warning(
            "cores", tr("{found}: {ranks} ranks would share one core", found=found, ranks=NUM_RANKS), way_out
        )
    return ok(
        "cores",
        tr("{found}; mindnlp-dp run pins each of 2 ranks to {cores}", found=found, cores=allowed // NUM_RANKS),
        usable=usable,
    )


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
    available = psutil.virtual_memory().available
    if (limit := memory_left()) is not None:
        available = min(available, limit)
    by_container = tr("{gb:.1f} GB available, limited by the container", gb=available / GB)
    found = by_container if limit == available else tr("{gb:.1f} GB available", gb=available / GB)
    way_out = tr("end other processes, or give the container more (docker --memory)")
    if available < NUM_RANKS * RANK_BYTES:
        return failure(
            "memory",
            tr(
                "{found}; {ranks} ranks need {mb} MB each before any model",
                found=found,
                ranks=NUM_RANKS,
                mb=RANK_BYTES // MB,
            ),
            way_out,
        )
    if available < NUM_RANKS * TRAINING_BYTES:
        return warning(
            "memory",
            tr("{found}; BERT-base takes about {gb} GB per rank", found=found, gb=TRAINING_BYTES // GB),
            way_out,
        )
    return ok("memory", found, available_bytes=available)


def shared_memory() -> Finding:
    """Room in /dev/shm. Too little does not end training: mindnlp-dp run then lets Open MPI send over TCP."""
    way_out = tr("start the container with --shm-size=2g or --ipc=host, or mount -o remount,size=2g /dev/shm")
    if not os.access(SHARED_MEMORY, os.W_OK):
        found = tr(
            "{folder} cannot be written: mindnlp-dp run lets Open MPI send over TCP, data sets with "
            "python_multiprocessing fail",
            folder=SHARED_MEMORY,
        )
        return warning("shared memory", found, way_out)
    usage = shutil.disk_usage(SHARED_MEMORY)
    found = tr(
        "{free:.0f} of {total:.0f} MB free in {folder}",
        free=usage.free / MB,
        total=usage.total / MB,
        folder=SHARED_MEMORY,
    )
    if not has_shared_memory_for(NUM_RANKS):
        found = tr(
            "{found}: too little for {ranks} ranks, so mindnlp-dp run lets Open MPI send over TCP, data sets with "
            "python_multiprocessing fail",
            found=found,
            ranks=NUM_RANKS,
        )
        return warning("shared memory", found, way_out)
    return ok("shared memory", found, free_bytes=usage.free)


def open_files() -> Finding:
    """Files and sockets a process may open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    way_out = f"ulimit -n {NUM_FILES_USUAL}"
    if limit < NUM_FILES_NEEDED:
        return failure(
            "open files", tr("{limit} per process; mpirun does not start with that few", limit=limit), way_out
        )
    if limit < NUM_FILES_USUAL:
        return warning("open files", tr("{limit} per process, few for data sets of many files", limit=limit), way_out)
    return ok("open files", tr("{limit} per process", limit=limit))


def working_directory() -> Finding:
    """Room for logs and checkpoints."""
    return _disk(WORKING_DIRECTORY, Path.cwd(), tr("change to a folder with room that you may write to"))


def temporary_folder() -> Finding:
    """Room for temporary files of Open MPI and MindNLP."""
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # none of the usual places can be written
        return failure(TEMPORARY_FOLDER, error.strerror, tr("export TMPDIR=<a folder you may write to>"))
    return _disk(TEMPORARY_FOLDER, folder, tr("export TMPDIR=<a folder with room that you may write to>"))


def _disk(check, folder, way_out) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))
            probe.flush()
    except OSError as error:
        return failure(check, tr("{folder} cannot be written: {error}", folder=folder, error=error.strerror), way_out)
    free = shutil.disk_usage(folder).free
    found = tr("{gb:.1f} GB free in {folder}", gb=free / GB, folder=folder)
    if free < DISK_BYTES_NEEDED:
        return failure(check, tr("only {mb} MB free in {folder}", mb=free // MB, folder=folder), way_out)
    if free < DISK_BYTES_USUAL:
        return warning(
            check, tr("{found}; a checkpoint of BERT-base with its optimizer takes 1.3 GB", found=found), way_out
        )
    return ok(check, found)
