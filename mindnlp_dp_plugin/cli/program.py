"""The commands, and what all of them have in common: one line for bad input, and Ctrl-C."""

import os
import shlex
import signal
import sys
from contextlib import suppress

import click

from mindnlp_dp_plugin.cli.bench import bench
from mindnlp_dp_plugin.cli.doctor import doctor
from mindnlp_dp_plugin.cli.export import export
from mindnlp_dp_plugin.cli.launching import with_dashes
from mindnlp_dp_plugin.cli.predict import predict
from mindnlp_dp_plugin.cli.recipe import recipe
from mindnlp_dp_plugin.cli.run import run
from mindnlp_dp_plugin.command_line import Group, Option, option, speak
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import COMMAND_LINE
from mindnlp_dp_plugin.language import LANGUAGES, VARIABLE, tr
from mindnlp_dp_plugin.launch.signals import Interrupted, ignore_stop_signals
from mindnlp_dp_plugin.version import __version__

BAD_INPUT = 2
INTERRUPTED = 130


class Commands(Group):
    """The command itself."""

    def parse_args(self, ctx, args):
        """Take the language before anything is shown, be it help."""
        with suppress(click.UsageError):
            asked, *_ = self.make_parser(ctx).parse_args(list(args))
            if asked.get("lang") in LANGUAGES:
                os.environ[VARIABLE] = asked["lang"]
        return super().parse_args(ctx, args)


@click.group(cls=Commands, invoke_without_command=True, context_settings={"token_normalize_func": with_dashes})
@option(
    "--lang",
    type=click.Choice(LANGUAGES),
    envvar=VARIABLE,
    expose_value=False,
    help="Language of messages, help and report. Default: the locale's, if it is one of them.",
)
@click.version_option(__version__, cls=Option)
@click.pass_context
def commands(context):
    """Data-parallel training for MindNLP's Trainer."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


commands.add_command(run)
commands.add_command(doctor)
commands.add_command(bench)
commands.add_command(recipe)
commands.add_command(predict)
commands.add_command(export)


def run_command() -> None:
    """Invalid input is rejected with one line on standard error and status 2."""
    open_standard_streams()
    speak()
    os.environ[COMMAND_LINE] = shlex.join(["mindnlp-dp", *sys.argv[1:]])
    try:
        status = commands.main(prog_name="mindnlp-dp", standalone_mode=False)
        ignore_stop_signals()  # srun sends one when another node's launcher has ended: the status stays
        sys.exit(status)
    except click.ClickException as error:
        refuse(error.format_message())
    except DataParallelError as error:
        refuse(str(error))
    except (click.Abort, Interrupted):
        die_of_interrupt()


def open_standard_streams() -> None:
    """Put /dev/null in the place of standard streams that are closed: a log would get their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number


def die_of_interrupt() -> None:
    """After Ctrl-C, end as programs do: by the signal, so that a loop of the shell ends, too. A shell shows 130."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    sys.exit(INTERRUPTED)  # as process 1 of a container, which the signal does not end


def refuse(message: str) -> None:
    """Print in one line why nothing was started."""
    message = tr("error: {message}", message=" ".join(message.split()))
    click.echo(f"mindnlp-dp: {message}", err=True)
    sys.exit(BAD_INPUT)
