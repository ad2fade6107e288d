"""What one call of ``Trainer.train()`` needs to train data-parallel, from its first collective to its last."""

import functools

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.data import ShardedDataset, shard
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.gradients import GradientReducer
from mindnlp_dp_plugin.replicas import make_replicas


class TrainingSession:
    """The sharded data, the replicas, the reducer, and the rule when to synchronise.

    Args:
        trainer: The ``mindnlp.engine.Trainer`` that trains.
        collective: The ranks that train together.
        config: How.
    """

    def __init__(self, trainer, collective: Collective, config: DataParallelConfig):
        self._trainer = trainer
        self._collective = collective
        self._config = config
        self._micro_steps = 0
        self._gradients_are_averaged = False
        self._reducer = None

    def shard_train_dataset(self) -> ShardedDataset:
        """This rank's share of the training data. To be called on all ranks.

        Raises:
            DataParallelError: If the ranks hold data sets of different length (one would wait for ever for another),
                or too short a one for a single step.
        """
        stock = type(self._trainer).get_train_dataset
        rank, world_size = self._collective.rank, self._collective.world_size
        self._dataset = shard(stock(self._trainer), world_size, rank, seed=self._trainer.args.seed)
        lengths = self._collective.all_gather_object(_describe_length(self._dataset))
        if len(set(lengths)) > 1:
            described = "; ".join(f"rank {rank} has {length}" for rank, length in enumerate(lengths))
            raise DataParallelError(
                f"train_dataset differs between ranks: {described}. Give every rank the same whole data set: the "
                "plugin deals it out. If you sharded it yourself, make the shards equally long."
            )
        if _num_steps(self._dataset) == 0:
            raise DataParallelError(
                f"train_dataset has {lengths[0]}: too few rows for one batch of {self._dataset.get_batch_size()} on "
                f"each of {world_size} ranks. Take a smaller batch, fewer ranks, or drop_remainder=False."
            )
        return self._dataset

    def begin(self) -> None:
        """Make the replicas equal and put the reducer on them. To be called on all ranks, right before the loop."""
        make_replicas(self._trainer.model, self._collective)
        trained = {id(p) for group in self._trainer.optimizer.param_groups for p in group["params"]}
        parameters = [p for _, p in self._trainer.model.named_parameters() if id(p) in trained]
        self._reducer = GradientReducer(parameters, self._collective, self._config.bucket_cap_mb)
        self._guard_optimizer()

    def prepare(self) -> None:
        """Before backward: start all-reduces from it, if the optimizer steps after it."""
        if self._optimizer_steps_after(self._micro_steps + 1):
            self._reducer.prepare()

    def synchronize(self) -> None:
        """After backward: average the gradients, if the optimizer steps now. To be called on all ranks."""
        self._micro_steps += 1
        self._gradients_are_averaged = self._optimizer_steps_after(self._micro_steps)
        if self._gradients_are_averaged:
            self._reducer.finish()

    def close(self) -> None:
        """Leave trainer and model as they were found."""
        if self._reducer is not None:
            self._reducer.close()
            self._trainer.optimizer.step = self._unguarded_step

    def _optimizer_steps_after(self, micro_step):
        """The Trainer's own rule, widened where it is harmless: gradients of a short epoch are averaged each time.

        The Trainer steps when the count of micro-steps since train() began is a multiple of the accumulation, or at
        the end of an epoch that is no longer than the accumulation.
        """
        accumulation = self._trainer.args.gradient_accumulation_steps
        num_steps = _num_steps(self._dataset)
        return micro_step % accumulation == 0 or (num_steps is not None and num_steps <= accumulation)

    def _guard_optimizer(self):
        optimizer = self._trainer.optimizer
        self._unguarded_step = optimizer.step

        @functools.wraps(optimizer.step)  # the learning rate scheduler has left a mark on it
        def step(*args, **kwargs):
            if not self._gradients_are_averaged:
                raise DataParallelError(
                    "optimizer.step() with gradients that were not averaged over the ranks: replicas would drift "
                    "apart. An overridden training_step must call self.update_gradient_by_distributed_type(model)."
                )
            self._gradients_are_averaged = False
            return self._unguarded_step(*args, **kwargs)

        optimizer.step = step


def _num_steps(dataset):
    """Micro-steps of an epoch, or None if that cannot be known."""
    try:
        return len(dataset)
    except TypeError:
        return None


def _describe_length(dataset):
    rows = "an unknown number of rows" if dataset.num_rows is None else f"{dataset.num_rows} rows"
    steps = _num_steps(dataset)
    return rows if steps is None else f"{rows} in {steps} steps"
