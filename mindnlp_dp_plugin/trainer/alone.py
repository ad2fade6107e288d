"""What the plugin adds to MindNLP's Trainer in one process: rows grouped by length, and a look at what is trained."""

from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.ddp.replicas import require_values
from mindnlp_dp_plugin.optim.first_step import FirstStep
from mindnlp_dp_plugin.optim.parameters import parameters_outside
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Replacements
from mindnlp_dp_plugin.trainer.grouping import shard_by_length


def _inner_training_loop(stock, self, *args, **kwargs):
    """Nothing but the order of the rows changes, and that only if it was asked for."""
    replacements = Replacements()

    def _load_optimizer_and_scheduler(stock, checkpoint):
        """The last call before the loop."""
        stock(checkpoint)
        require_values([*self.model.named_parameters(), *parameters_outside(self.model, self.optimizer).items()])
        steps = WatchedSteps(replacements)
        FirstStep(self, steps)
        steps.watch(self.optimizer)

    replacements.stand_in(self, _load_optimizer_and_scheduler)
    if self.args.group_by_length:
        dataset = shard_by_length(self.get_train_dataset(), self.args, current())
        replacements.replace(self, "get_train_dataset", lambda: dataset)
    try:
        return stock(self, *args, **kwargs)
    finally:
        replacements.undo()


def hook_lone_trainer(trainer_base, replacements: Replacements) -> None:
    """Let MindNLP's Trainer group by length in one process, if its arguments say so, and look at what it trains.

    Args:
        trainer_base: The module ``mindnlp.engine.trainer.base``.
        replacements: What takes the hook out again.
    """
    replacements.stand_in(trainer_base.Trainer, _inner_training_loop)
