"""A real Slurm of two nodes on this machine, from Debian's packages. Needs root; processes share the machine."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CONFIGURATION = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldPort={port}
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
NodeName=n[1-{num_nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cores} RealMemory=2000
PartitionName=all Nodes=n[1-{num_nodes}] Default=YES State=UP OverSubscribe=YES
"""
READY_S = 60


@contextmanager
def slurm(folder: Path, num_nodes: int = 2) -> Iterator[dict[str, str]]:
    """A cluster, as long as the context lasts; gives the variables by which Slurm's commands find it."""
    install()
    (folder / "state").mkdir(parents=True)
    port, cores = 20000 + os.getpid() % 8000, os.cpu_count()
    text = CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0], folder=folder, port=port, cores=cores, num_nodes=num_nodes,
        first=port + 1, last=port + num_nodes,
    )  # fmt: skip
    (folder / "slurm.conf").write_text(text)
    environ = {"SLURM_CONF": str(folder / "slurm.conf")}
    try:
        run(["slurmctld"], environ)
        for node in range(1, num_nodes + 1):
            run(["slurmd", "-N", f"n{node}"], environ)
        deadline = time.monotonic() + READY_S
        while run(["sinfo", "-h", "-t", "idle", "-o", "%D"], environ).strip() != str(num_nodes):
            if time.monotonic() > deadline:
                raise RuntimeError(f"Slurm does not come up; see {folder}/*.log")
            time.sleep(0.5)
        yield environ
    finally:
        for pid_file in [*folder.glob("slurmd-*.pid"), folder / "slurmctld.pid"]:
            with suppress(OSError, ValueError):
                os.kill(int(pid_file.read_text()), signal.SIGTERM)


def install() -> None:
    """Slurm and munge, if they are not there, and munge's daemon."""
    if not (shutil.which("slurmctld") and shutil.which("munged")):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "slurm-wlm", "munge"], check=True)
    if subprocess.run(["pgrep", "-x", "munged"], stdout=subprocess.DEVNULL).returncode:
        Path("/run/munge").mkdir(exist_ok=True)
        shutil.chown("/run/munge", "munge")
        subprocess.run(["runuser", "-u", "munge", "--", "munged"], check=True)


def run(command: list[str], environ: dict[str, str]) -> str:
    """What a command of Slurm's prints."""
    return subprocess.run(
        command, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True, check=True, timeout=READY_S
    ).stdout
