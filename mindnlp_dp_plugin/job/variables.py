"""Names of the plugin's environment variables. The first ones are for users, and so is one for each setting."""

import difflib
from collections.abc import Iterable, Mapping

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import VARIABLE as LANGUAGE
from mindnlp_dp_plugin.language import Message

PREFIX = "MINDNLP_DP_"

# The launcher sets the others for its ranks.
LOG_DIR = "MINDNLP_DP_LOG_DIR"  # where a rank leaves its log and its error record
STATUS_DIR = "MINDNLP_DP_STATUS_DIR"  # where a rank shows its status
JOB = "MINDNLP_DP_JOB"  # which run of mindnlp-dp a rank belongs to
RESTART = "MINDNLP_DP_RESTART"  # how often that run has started its ranks again
COMMAND_LINE = "MINDNLP_DP_COMMAND"  # what the user typed
LOCAL_WORLD_SIZE = "MINDNLP_DP_LOCAL_WORLD_SIZE"  # ranks on this node
LOCAL_RANK = "MINDNLP_DP_LOCAL_RANK"  # a rank's number among them; its card has another if the launcher hides the rest
DEFERRED = "MINDNLP_DP_DEFERRED"  # set for the ranks of mindnlp-dp run, which pin themselves before they install
GOES_ON = "MINDNLP_DP_GOES_ON"  # set if the ranks may be started again; one process alone saves for that, too
RANK_PROCESS = "MINDNLP_DP_RANK_PROCESS"  # the process that is the rank, which sets it itself, for its children
JOINED = "MINDNLP_DP_JOINED"  # the same, if it has joined others: what a child's environment says of a launcher is its

NAMES = {name for name in vars().copy().values() if isinstance(name, str) and name.startswith(PREFIX)}  # all of these

GONE = {  # what users may have set
    "MINDNLP_DP_SECRET": Message("mindnlp-dp run starts the ranks of one machine, which needs no secret"),
    "MINDNLP_DP_SNAPSHOT_EVERY": Message("use MINDNLP_DP_ASYNC_SAVE=1 and a small save_steps"),
    "MINDNLP_DP_TRACE": Message("MINDNLP_DP_PROFILE writes the trace of a few steps, too"),
}


def of_setting(field: str) -> str:
    """The variable of a setting, by its field of ``DataParallelConfig``."""
    return PREFIX + field.upper()


def require_known(environ: Mapping[str, str], fields: Iterable[str]) -> None:
    """Refuse a variable that the plugin does not have: a setting that is misspelt would have no effect.

    Args:
        environ: The environment.
        fields: The settings.

    Raises:
        DataParallelError: The message names the variable, its value and the one that may be meant.
    """
    settings = [of_setting(field) for field in fields]
    known = {*settings, *NAMES}
    for name in sorted(environ):
        if name in GONE:
            raise DataParallelError("{name} was removed, so unset it: {why}.", name=name, why=GONE[name])
        if name.startswith(PREFIX) and name not in known:
            length = len(name.split("_"))  # a setting may be meant by as many of its words
            beginnings = {"_".join(each.split("_")[:length]): each for each in (*settings, LANGUAGE)}
            spellings = {**beginnings, **{each: each for each in settings}}
            raise DataParallelError(
                "{name}={value!r} is not a setting: do you mean {alike}? Correct or unset it; docs/settings lists all.",
                name=name,
                value=environ[name],
                alike=spellings[difflib.get_close_matches(name, spellings, n=1, cutoff=0)[0]],
            )
