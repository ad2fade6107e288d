"""Records for tests that need no training."""

from mindnlp_dp_plugin.checkpoint.record import Record, Settings

SETTINGS = Settings(
    world_size=2, batch_size=4, gradient_accumulation_steps=1, seed=42, num_rows=48, group_by_length=False
)


def record(**changes):
    """What a checkpoint says of itself; the rest is of no matter here."""
    written = dict(epoch=0, micro_steps_in_epoch=1, micro_steps=1, epoch_end_is_done=False, stopped_early=False)
    written |= dict(total_loss=1.0, patience=[], with_optimizer=True, host_random=[], settings=SETTINGS)
    return Record(**{**written, **changes})
