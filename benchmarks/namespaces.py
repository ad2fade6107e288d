"""Hosts on one machine: network namespaces with names and addresses of their own, joined by a switch.

Needs root and iproute2. Nothing is added to the machine's own network, and in the end all is removed again.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

LINK = "eth0"
SUBNET = "198.18.0"  # RFC 2544: for benchmarks, nowhere routed
RATE, BYTES_PER_S = "1gbit", 1e9 / 8
DELAY_MS = 5
# What a link of that rate may send at once, and how long a packet may queue.
BUCKET = ("burst", "256k", "latency", "100ms")


@dataclass(frozen=True)
class Host:
    """One of the hosts.

    Attributes:
        name: What it calls itself.
        namespace: What ``ip`` calls it.
        address: Its only one beside loopback.
    """

    name: str
    namespace: str
    address: str

    def command(self, argv: list) -> list[str]:
        """What runs ``argv`` on this host."""
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        return ["ip", "netns", "exec", self.namespace, *named, *map(str, argv)]

    def cut(self) -> None:
        """Takes the link down."""
        _run("ip", "-n", self.namespace, "link", "set", LINK, "down")

    def slow_down(self) -> bool:
        """Makes what this host sends as slow as ``RATE``, and late by ``DELAY_MS`` if the kernel can do that.

        Returns:
            Whether it is late, too: netem is not in every kernel.
        """
        add = ("tc", "-n", self.namespace, "qdisc", "add", "dev", LINK, "root")
        late = subprocess.run([*add, "netem", "delay", f"{DELAY_MS}ms", "rate", RATE], capture_output=True)
        if late.returncode:
            _run(*add, "tbf", "rate", RATE, *BUCKET)
        return not late.returncode


@contextmanager
def hosts(number: int) -> Iterator[list[Host]]:
    """That many hosts, each of which reaches all others; they and all that runs on them are gone in the end.

    SIGTERM ends the program as Ctrl-C does, so that nothing stays then either.
    """
    require_root_and_iproute2()
    prefix = f"dp{os.getpid()}"
    switch = f"{prefix}s"
    made = [Host(f"host{n}", f"{prefix}h{n}", f"{SUBNET}.{n + 1}") for n in range(number)]
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        _run("ip", "netns", "add", switch)
        _run("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "switch", "up")
        for n, host in enumerate(made):
            port = f"port{n}"
            _run("ip", "netns", "add", host.namespace)
            pair = ("type", "veth", "peer", "name", port, "netns", switch)
            _run("ip", "-n", host.namespace, "link", "add", LINK, *pair)
            _run("ip", "-n", switch, "link", "set", port, "master", "switch", "up")
            _run("ip", "-n", host.namespace, "address", "add", f"{host.address}/24", "dev", LINK)
            _run("ip", "-n", host.namespace, "link", "set", "lo", "up")
            _run("ip", "-n", host.namespace, "link", "set", LINK, "up")
        yield made
    finally:
        for namespace in (switch, *(host.namespace for host in made)):
            _remove(namespace)
        signal.signal(signal.SIGTERM, previous)


def require_root_and_iproute2() -> None:
    """Ends the program, with one line, where no namespaces can be made."""
    if os.geteuid() != 0:
        sys.exit("network namespaces need root: run this with sudo, or in a container that has CAP_SYS_ADMIN.")
    if missing := [tool for tool in ("ip", "tc", "unshare") if not shutil.which(tool)]:
        sys.exit(
            f"{', '.join(missing)} not found: install iproute2 (and util-linux), such as with apt install iproute2."
        )


def _remove(namespace):
    def members():
        listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout
        return [int(pid) for pid in listed.split()]

    deadline = time.monotonic() + 5
    while (left := members()) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


def _run(*command):
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        sys.exit(f"{' '.join(command)}: {finished.stderr.strip()}")
