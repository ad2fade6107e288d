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

    def limit(self, bits_per_second: int) -> None:
        """Sends no faster than this, by a token bucket (``man tc-tbf``)."""
        burst = max(2**16, bits_per_second // 8 // 500)  # what a link carries in 2 ms, or one large packet
        shape = ("tbf", "rate", f"{bits_per_second}bit", "burst", str(burst), "latency", "100ms")
        _run("tc", "-n", self.namespace, "qdisc", "replace", "dev", LINK, "root", *shape)

    def members(self) -> list[int]:
        """The processes on it."""
        return _members(self.namespace)


@contextmanager
def network(number: int) -> Iterator[list[Host]]:
    """That many hosts, each of which reaches all others; gone in the end, also when Ctrl-C or SIGTERM comes."""
    require_root_and_iproute2()
    prefix = f"dp{os.getpid()}"
    switch, hosts = f"{prefix}s", [Host(f"host{n}", f"{prefix}h{n}", f"{SUBNET}.{n + 1}") for n in range(number)]
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        _join(switch, hosts)
        yield hosts
    finally:
        for namespace in (switch, *(host.namespace for host in hosts)):
            _remove(namespace)
        signal.signal(signal.SIGTERM, previous)


def _join(name, hosts):
    switch = ("ip", "-n", name, "link")
    _run("ip", "netns", "add", name)
    _run(*switch, "add", "switch", "type", "bridge")
    _run(*switch, "set", "switch", "up")
    for number, host in enumerate(hosts):
        port, here = f"port{number}", ("ip", "-n", host.namespace)
        _run("ip", "netns", "add", host.namespace)
        _run(*here, "link", "add", LINK, "type", "veth", "peer", "name", port, "netns", name)
        _run(*switch, "set", port, "master", "switch", "up")
        _run(*here, "address", "add", f"{host.address}/24", "dev", LINK)
        _run(*here, "link", "set", "lo", "up")
        _run(*here, "link", "set", LINK, "up")


def _remove(namespace):
    deadline = time.monotonic() + 5
    while (left := _members(namespace)) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


def require_root_and_iproute2() -> None:
    """Ends the program, with one line, where no namespaces can be made."""
    if os.geteuid() != 0:
        sys.exit("network namespaces need root: run this with sudo, or in a container that has CAP_SYS_ADMIN.")
    if missing := [tool for tool in ("ip", "unshare") if not shutil.which(tool)]:
        sys.exit(
            f"not found: {', '.join(missing)}. Install iproute2 and util-linux, such as with apt install iproute2."
        )


def _members(namespace):
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout
    return [int(pid) for pid in listed.split()]


def _run(*command):
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        sys.exit(f"{' '.join(command)}: {finished.stderr.strip()}")
