"""Optimizers."""

from mindnlp_dp_plugin.compat.patch import patch


@patch(
    module="mindtorch.optim.sgd",
    bridges="SGD: it calls raw_sgd, which no device has, and its momentum would begin anew in each step",
    fault_of="MindNLP",
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
                        direction = _direction(self.state[parameter], parameter, group)
                        parameter.copy_(parameter - direction * float(group["lr"]))
        return loss

    sgd.SGD.step = step


def _direction(state, parameter, group):
    """Where SGD goes, as torch defines it."""
    momentum, decay = float(group["momentum"]), float(group["weight_decay"])
    gradient = -parameter.grad if group["maximize"] else parameter.grad
    if decay:
        gradient = gradient + parameter * decay
    if not momentum:
        return gradient
    before = state.get("momentum_buffer")
    kept = gradient.clone() if before is None else before * momentum + gradient * (1 - float(group["dampening"]))
    state["momentum_buffer"] = kept
    return gradient + kept * momentum if group["nesterov"] else kept
