"""What this machine offers: Ascend cards, and CPU cores in an order that keeps neighbours together."""

import glob
import os
import shutil
from pathlib import Path


def has_ascend() -> bool:
    """Whether Ascend cards are visible here."""
    return bool(glob.glob("/dev/davinci[0-9]*")) or shutil.which("npu-smi") is not None


def allowed_cores() -> list[int]:
    """The logical cores this process may use, threads of one core and cores of one socket side by side."""
    return sorted(os.sched_getaffinity(0), key=lambda core: (*_place(core), core))


def _place(core: int) -> tuple[int, int]:
    topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        return int((topology / "physical_package_id").read_text()), int((topology / "core_id").read_text())
    except OSError:  # some containers hide it
        return 0, core
