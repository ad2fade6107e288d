"""Where the time of a step of MindNLP's Trainer goes: a profile of it, by phase and by operator."""

import cProfile
import pstats
from collections import Counter
from pathlib import Path

from mindnlp.engine import TrainerCallback

OPERATORS = "cpu_operators"
PRODUCTS, THREADS = "blas.py", "threads.py"
PHASES = {
    ("base.py", "compute_loss"): "forward",
    ("api.py", "grad"): "backward",
    ("clip_grad_norm.py", "clip_grad_norm_"): "clipping",
    ("adam.py", "adamw_step"): "optimizer",
}
OF_AN_OPERATOR = ("compute", "gradients", "adam", "clip_grad_norm_")
CALLS_OF_MINDSPORE = ("pyboost", "run_op_async", "TensorPy")


class Profile(TrainerCallback):
    """Profiles the steps from one on.

    Args:
        first: The number of the first step, from 0 on.
    """

    def __init__(self, first: int):
        self._first = first
        self._profile = cProfile.Profile()

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step >= self._first:
            self._profile.enable()

    def on_step_end(self, args, state, control, **kwargs):
        self._profile.disable()

    def shares(self) -> dict[str, dict[str, float]]:
        """Shares of the time by phase, and by operator: the plugin's with both directions, and MindSpore's own."""
        stats = pstats.Stats(self._profile)
        phases, operators = Counter(), Counter()
        for (path, _, name), (_, _, own, whole, callers) in stats.stats.items():
            file = Path(path)
            is_ours = file.parent.name == OPERATORS
            phases[PHASES.get((file.name, name))] += whole
            if is_ours and file.name == PRODUCTS:
                operators["products"] += own
                for (caller, *_), (*_, of_call) in callers.items():
                    if Path(caller).name not in (PRODUCTS, THREADS):
                        operators[Path(caller).stem] -= of_call
            elif is_ours and name in OF_AN_OPERATOR:
                operators[file.stem] += whole
            elif any(word in name for word in CALLS_OF_MINDSPORE):
                operators["MindSpore's, forward"] += own
            elif PHASES.get((file.name, name)) == "backward":
                operators["MindSpore's, backward"] += own
        del phases[None]
        phases["the Trainer's own"] = stats.total_tt - sum(phases.values())
        operators["Python and the rest"] = stats.total_tt - sum(operators.values())
        return {
            "phases": {name: seconds / stats.total_tt for name, seconds in phases.most_common()},
            "operators": {name: seconds / stats.total_tt for name, seconds in operators.most_common()},
        }
