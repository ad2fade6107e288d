"""Sum on ranks that take themselves for ranks of several machines: ``mpirun ... python on_machines.py NAMES OUTPUT``.

NAMES are the names of each rank's machine, with commas between. The job needs the right to name them
(``unshare --uts``). Rank r leaves OUTPUT/rank<r>.json: the outcome of the contract's checks that sum.
"""

import ctypes
import json
import os
import socket
import sys
from pathlib import Path

CLONE_NEWUTS = 0x04000000


def main():
    from mindnlp_dp_plugin import collectives  # joins the ranks
    from tests.programs import collectives_contract

    group = collectives.current()
    checks = collectives_contract.CHECKS
    for name in [name for name in checks if not ("sum" in name or "reduce" in name) or "memory" in name]:
        del checks[name]
    outcome = {"checks": collectives_contract.run_checks(group), "is_shared": group.borrowed_bytes > 0}
    Path(sys.argv[2], f"rank{group.rank}.json").write_text(json.dumps(outcome))


if __name__ == "__main__":
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUTS):
        raise OSError(ctypes.get_errno(), "unshare")
    socket.sethostname(sys.argv[1].split(",")[int(os.environ["OMPI_COMM_WORLD_RANK"])])
    main()
