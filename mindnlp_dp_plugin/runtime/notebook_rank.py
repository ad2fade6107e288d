"""What each rank of ``dp.notebook_launcher`` runs: the function of a notebook.

python -m mindnlp_dp_plugin.runtime.worker -m mindnlp_dp_plugin.runtime.notebook_rank FOLDER
"""

import sys
from pathlib import Path

from mindnlp_dp_plugin.job.environments import detect
from mindnlp_dp_plugin.launch.sent_call import receive, send_back


def main(folder: Path) -> None:
    """Call the function that the notebook has sent; rank 0 sends back what it returns."""
    del sys.argv[1:]
    function, args = receive(folder)
    value = function(*args)
    if detect().rank == 0:
        send_back(value, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
