"""Train in half precision with float32 masters: which operator computes in what, and the scale of the loss."""

from mindnlp_dp_plugin.mixed_precision.autocast import Autocast
from mindnlp_dp_plugin.mixed_precision.loss_scaling import LossScaler

__all__ = ["Autocast", "LossScaler"]
