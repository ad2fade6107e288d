"""Optimizers."""

from mindnlp_dp_plugin.compat.momentum import direction_of
from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindtorch.optim.sgd",
    bridges="SGD: it calls raw_sgd, which no device has, and its momentum would begin anew in each step",
    obsolete_when="mindtorch.optim.SGD steps, and keeps its momentum",
)
def sgd_with_momentum(sgd):
    import mindtorch

    def step(self, closure=None):
        loss = None if closure is None else closure()
        with mindtorch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        direction = direction_of(self.state[parameter], parameter, group)
                        parameter.copy_(parameter - direction * float(group["lr"]))
        return loss

    sgd.SGD.step = step
