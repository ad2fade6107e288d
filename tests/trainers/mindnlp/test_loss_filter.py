"""Losses that are not finite are logged as MindNLP's own loop logs them, although the host reads none of them."""

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import pytest
from mindnlp.engine import Trainer, TrainerCallback

from tests.programs.tiny import tiny_trainer

dp.install()
LOSSES = [0.7, float("nan"), 0.3, 0.1, float("inf"), 0.9, float("-inf"), 0.2, 1 / 3, float("nan"), float("nan"), 0.6]


class WithLosses(Trainer):
    """Trains, and reports losses that were thought out."""

    def training_step(self, model, inputs):
        super().training_step(model, inputs)
        self.num_micro_steps = getattr(self, "num_micro_steps", 0) + 1
        return mindspore.tensor(LOSSES[self.num_micro_steps - 1])


class Asked(TrainerCallback):
    """Notes whether the loop has read each loss, and what others see of the argument."""

    reads_losses = is_shown = None

    def on_step_begin(self, args, state, control, **kwargs):
        self.is_shown = args.logging_nan_inf_filter

    def on_step_end(self, args, state, control, **kwargs):
        self.reads_losses = args.logging_nan_inf_filter


def logged(folder, accumulation, **arguments):
    asked = Asked()
    arguments |= dict(gradient_accumulation_steps=accumulation, max_steps=len(LOSSES) // accumulation, logging_steps=3)
    trainer = tiny_trainer(folder, trainer_type=WithLosses, callbacks=[asked], **arguments)
    sums = []
    trainer.log = lambda logs: sums.append((logs.get("loss"), trainer._total_loss_scalar))
    trainer.train()
    return sums, asked.reads_losses, asked.is_shown and trainer.args.logging_nan_inf_filter


@pytest.mark.parametrize("accumulation", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_log_is_that_of_mindnlps_loop(tmp_path, accumulation):
    dp.uninstall()
    expected, is_read, _ = logged(tmp_path / "stock", accumulation)
    assert is_read and expected[0][0] is not None
    dp.install()
    # In mixed precision one process trains as the only rank of a job.
    found, is_read, is_shown = logged(tmp_path / "session", accumulation, fp16=True)
    assert found == expected
    assert not is_read and is_shown
