"""The command ``mindnlp-dp``: argument parsing only. Imports neither MindSpore nor MindNLP."""

import signal


def main() -> None:
    """Entry point. Ctrl-C ends the process as the system does, but while ranks run.

    Python's exception would be swallowed by what is being imported, or end in a traceback of it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in a background job
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mindnlp_dp_plugin.cli.program import run_command

    run_command()
