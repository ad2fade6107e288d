"""What each rank of a recipe runs: ``-m mindnlp_dp_plugin.recipes WHAT REQUEST``, and a task to train or to prove."""

import signal
import sys

from mindnlp_dp_plugin.recipes import quiet


def main() -> None:
    """Run the recipe that the command line names."""
    interrupted = signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of a library that is being imported
    quiet.begin()
    signal.signal(signal.SIGINT, interrupted or signal.default_int_handler)
    _, what, request, *task = sys.argv
    if what == "export":
        from mindnlp_dp_plugin.recipes.exporting import export

        export(request)
    elif what == "predict":
        from mindnlp_dp_plugin.recipes.prediction import answer

        answer(request)
    else:
        from mindnlp_dp_plugin.recipes.proof import take_steps
        from mindnlp_dp_plugin.recipes.tasks import get_task
        from mindnlp_dp_plugin.recipes.training import train

        options = get_task(*task).options.from_json(request)
        (train if what == "train" else take_steps)(options, *task)


main()
