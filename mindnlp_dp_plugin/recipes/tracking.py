"""Where the curves of a run go: TensorBoard, Weights & Biases, SwanLab."""

from importlib.util import find_spec

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes.run_folder import RunFolder

QUIET = {"silent": True, "console": "off"}
NAMES = {"tensorboard": "TensorBoard", "wandb": "Weights & Biases", "swanlab": "SwanLab"}


def check_trackers(names: tuple[str, ...]) -> None:
    """Make sure that trackers are installed.

    Args:
        names: What ``--report-to`` chose.

    Raises:
        DataParallelError: Naming the one that is not, or what goes with none.
    """
    if "none" in names and len(names) > 1:
        raise DataParallelError("--report-to {names}: none goes with no other.", names=", ".join(names))
    for name in names:
        if name in ("wandb", "swanlab") and find_spec(name) is None:
            raise DataParallelError(
                "--report-to {name} needs {name}, which is not installed: pip install {name}.", name=name
            )


def make_trackers(names: tuple[str, ...], folder: RunFolder) -> list:
    """The callbacks that track.

    Args:
        names: Of ``NAMES``.
        folder: The run's.
    """
    make = {
        "tensorboard": lambda: dp.TensorBoardCallback(str(folder.tensorboard)),
        "wandb": lambda: dp.WandbCallback(folder.home, settings=QUIET),
        "swanlab": lambda: dp.SwanLabCallback(folder.swanlab),
    }
    return [make[name]() for name in names]


def where(names: tuple[str, ...], folder: RunFolder) -> list[str]:
    """What to tell of each tracker's files."""
    return [tr("logs for {tracker}: {path}", tracker=NAMES[name], path=getattr(folder, name)) for name in names]
