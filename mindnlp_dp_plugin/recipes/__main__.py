"""What each rank of a recipe runs: ``-m mindnlp_dp_plugin.recipes train TASK OPTIONS``, or ``predict REQUEST``,
or ``export REQUEST``.
"""

import signal
import sys

from mindnlp_dp_plugin.recipes import quiet


def main() -> None:
    """Run the recipe that the command line names."""
    interrupted = signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of a library that is being imported
    quiet.begin()
    signal.signal(signal.SIGINT, interrupted or signal.default_int_handler)
    _, what, name, *arguments = sys.argv
    if what == "train":
        from mindnlp_dp_plugin.recipes.options import parse
        from mindnlp_dp_plugin.recipes.tasks import get_task
        from mindnlp_dp_plugin.recipes.training import train

        sys.argv = [sys.argv[0], *arguments]
        train(parse("", get_task(name).options()), name)
    elif what == "prove":
        from mindnlp_dp_plugin.recipes.options import parse
        from mindnlp_dp_plugin.recipes.proof import take_steps
        from mindnlp_dp_plugin.recipes.tasks import get_task

        sys.argv = [sys.argv[0], *arguments]
        take_steps(parse("", get_task(name).options()), name)
    elif what == "export":
        from mindnlp_dp_plugin.recipes.exporting import export

        export(name)
    else:
        from mindnlp_dp_plugin.recipes.prediction import answer

        answer(name)


main()
