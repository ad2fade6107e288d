"""Ray Train and Ray Tune carry the ranks: the extra [ray].

Ray starts and restarts workers on the nodes of its cluster; here they become ranks, as ``mindnlp-dp run`` makes them.
"""

from mindnlp_dp_plugin.errors import DataParallelError

try:
    import ray.train
    import ray.tune  # noqa: F401
except ImportError as error:
    raise DataParallelError(
        "mindnlp_dp_plugin.ray needs Ray ({error}): pip install 'mindnlp-dp-plugin[ray]'.", error=error
    ) from error

from mindnlp_dp_plugin.ray.backend import MindNLPConfig
from mindnlp_dp_plugin.ray.report import RayReportCallback
from mindnlp_dp_plugin.ray.search import BestRun, hyperparameter_search
from mindnlp_dp_plugin.ray.trainer import MindNLPTrainer

__all__ = ["BestRun", "MindNLPConfig", "MindNLPTrainer", "RayReportCallback", "hyperparameter_search"]
