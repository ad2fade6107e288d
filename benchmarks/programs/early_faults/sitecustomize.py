"""Before a rank has run a line of its script: lets faults strike while it imports MindSpore and joins the others.

Python imports this by itself where its folder is on the path.
"""

import sys

MOMENTS = {
    "mindspore": "import",
    "mpi4py.MPI": "rendezvous",
    "mindnlp_dp_plugin.collectives.cluster": "rendezvous",
}


class Announcer:
    """The first to be asked for a module; finds none."""

    def find_spec(self, name, path=None, target=None):
        if name in MOMENTS:
            from tests.programs.faults import comes_to

            comes_to(MOMENTS[name])


if "mindnlp_dp_plugin.runtime.worker" in sys.orig_argv:
    sys.meta_path.insert(0, Announcer())
