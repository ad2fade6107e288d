"""The hardware of this machine: Ascend cards, memory, and CPU cores in an order that keeps neighbours together."""

import glob
import os
import re
import resource
import shutil
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
VISIBLE_DEVICES = "ASCEND_RT_VISIBLE_DEVICES"
SHARED_MEMORY = Path("/dev/shm")
SEGMENT_BYTES = 16 * 2**20  # what each rank of Open MPI 5 wants for messages to its neighbours
SPARE_BYTES = 8 * 2**20


def has_ascend() -> bool:
    """Whether Ascend cards are visible here."""
    return bool(_cards()) or shutil.which("npu-smi") is not None


def num_devices() -> int:
    """Number of ranks that use this machine fully: one per Ascend card that may be used, otherwise one per core."""
    cards, visible = len(_cards()), visible_devices()
    return (cards if visible is None else min(cards, len(visible))) or usable_cores()


def visible_devices() -> list[str] | None:
    """The cards that ``ASCEND_RT_VISIBLE_DEVICES`` leaves to this process, which numbers them from 0; None for all."""
    value = os.environ.get(VISIBLE_DEVICES)
    return None if not value else [device.strip() for device in value.split(",")]


def allowed_cores() -> list[int]:
    """The logical cores this process may use, with threads of a core and cores of a socket next to each other."""
    return sorted(os.sched_getaffinity(0), key=lambda core: (*_place(core), core))


def usable_cores() -> int:
    """Number of cores this process may use: those allowed, up to the container's quota."""
    quota = cpu_quota()
    return len(allowed_cores()) if quota is None else max(1, min(len(allowed_cores()), int(quota)))


def has_shared_memory_for(num_ranks: int) -> bool:
    """Whether so many ranks can exchange messages through shared memory here."""
    if not os.access(SHARED_MEMORY, os.W_OK):
        return False
    return shutil.disk_usage(SHARED_MEMORY).free >= num_ranks * SEGMENT_BYTES + SPARE_BYTES


def cpu_quota() -> float | None:
    """The container's quota in cores; None without a quota."""
    if text := read(CGROUP / "cpu.max"):  # version 2
        quota, period = text.split()
        return None if quota == "max" else int(quota) / int(period)
    quota, period = (read(CGROUP / "cpu" / f"cpu.cfs_{what}_us") for what in ("quota", "period"))
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None


def peak_memory() -> int:
    """The most memory that this process has had, in bytes.

    What ``getrusage`` calls so is no less than what the process had that started this one, such as a notebook's kernel.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", read(Path("/proc/self/status")) or "")
    return 1024 * (int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _cards() -> list[str]:
    return glob.glob("/dev/davinci[0-9]*")


def read(path: Path) -> str | None:
    """The text of a file of the kernel's; None if there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _place(core: int) -> tuple[int, int]:
    topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        return int((topology / "physical_package_id").read_text()), int((topology / "core_id").read_text())
    except OSError:  # some containers hide it
        return 0, core
