"""Where the best checkpoint is of a training whose folder was moved, or is called otherwise now. For each Trainer."""

from pathlib import Path

from mindnlp_dp_plugin.trainers.observe.callback import Callback


class BestIsHere(Callback):
    """Finds it among the checkpoints that are here: Trainers compare names, and would remove it as an old one."""

    def on_train_begin(self, args, state, control, **kwargs):
        """Call it as the folder is called now."""
        best = state.best_model_checkpoint
        if best and (here := Path(args.output_dir, Path(best).name)).exists():
            state.best_model_checkpoint = str(here)
