"""Names of the plugin's environment variables, that of the language apart. The first ones are for users."""

PREFIX = "MINDNLP_DP_"
SECRET = "MINDNLP_DP_SECRET"  # what the nodes of a job prove to know

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
WORLD_SIZES = "MINDNLP_DP_WORLD_SIZES"  # those a job may have that goes on without nodes; the last is the one asked for
JOINED = "MINDNLP_DP_JOINED"  # the process that joined the group; its children inherit its environment, not its rank


def of_setting(field: str) -> str:
    """The variable of a setting, by its field of ``DataParallelConfig``."""
    return PREFIX + field.upper()
