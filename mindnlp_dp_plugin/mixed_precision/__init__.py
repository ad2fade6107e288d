"""Train in half precision with float32 masters: which operator computes in what, and the scale of the loss."""

from mindnlp_dp_plugin.mixed_precision.autocast import Autocast, autocast, can_compute_in
from mindnlp_dp_plugin.mixed_precision.loss_scaling import LossScaler
from mindnlp_dp_plugin.mixed_precision.weights import Masters, weights_in

__all__ = ["Autocast", "LossScaler", "Masters", "autocast", "can_compute_in", "weights_in"]
