"""SGD with momentum as torch defines it: both MindNLPs' begins anew in each step."""

from typing import Any


def direction_of(state: dict[str, Any], parameter: Any, group: dict[str, Any]) -> Any:
    """Where a step goes from a parameter, against which the optimizer goes.

    Args:
        state: The parameter's, which keeps ``momentum_buffer``.
        parameter: It has a gradient.
        group: Its group, with the settings of torch's SGD.
    """
    momentum, decay = float(group["momentum"]), float(group["weight_decay"])
    gradient = -parameter.grad if group["maximize"] else parameter.grad
    if decay:
        gradient = gradient + parameter * decay
    if not momentum:
        return gradient
    before, damped = state.get("momentum_buffer"), float(group["dampening"])
    added = gradient * (1 - damped) if damped else gradient
    kept = gradient.clone() if before is None else before * momentum + added
    state["momentum_buffer"] = kept
    return gradient + kept * momentum if group["nesterov"] else kept
