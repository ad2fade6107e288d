"""Settings in the environment, and leftovers of jobs."""

import os

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import VARIABLES, detect
from mindnlp_dp_plugin.runtime.install import STOCK_SWITCH


def plugin_settings() -> Finding:
    """Whether the plugin's variables have valid names and values."""
    try:
        config = DataParallelConfig.from_env()
    except DataParallelError as error:
        return failure(str(error), "export a valid value, or unset the variable")
    return ok(str(config).partition("(")[2].rstrip(")"))


def config_here() -> DataParallelConfig:
    """The settings in the environment; the defaults if they are invalid, which another check says."""
    try:
        return DataParallelConfig.from_env()
    except DataParallelError:
        return DataParallelConfig()


def multi_npu() -> Finding:
    """With ``MULTI_NPU=true`` MindNLP draws a seed per rank and shards every data set when it is imported."""
    if os.environ.get(STOCK_SWITCH) != "true":
        return ok("not exported, as it should be")
    return warning(
        "exported: without the plugin, ranks start from different weights and data sets cannot be split",
        "unset {variable}; the plugin removes it if it is installed first",
        variable=STOCK_SWITCH,
    )


def variables_of_a_job() -> Finding:
    """Whether this shell has variables of a launcher, with which a plain ``python`` would take itself for a rank."""
    try:
        takes_itself_for = detect().launcher
    except DataParallelError as error:
        takes_itself_for = str(error)
    if takes_itself_for == "none":
        return ok("none left over")
    return warning(
        "{variables} exported in this shell: a plain python waits for other ranks ({takes_itself_for})",
        "unset {variables}; mindnlp-dp run ignores them",
        variables=" ".join(name for name in VARIABLES if name in os.environ),
        takes_itself_for=takes_itself_for,
    )
