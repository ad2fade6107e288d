"""One function here for each Trainer method it stands in for, under the same name; ``stock`` is MindNLP's own.

Line numbers of the order in which MindNLP 0.4.1 calls them are in docs/architecture.md.
"""

from contextlib import contextmanager

import mindspore

from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.replicas import make_replicas
from mindnlp_dp_plugin.trainer.evaluation import evaluate_together
from mindnlp_dp_plugin.trainer.session import TrainingSession


def _inner_training_loop(stock, self, *args, **kwargs):
    """Train with this rank's share of the data, and leave together."""
    self.data_parallel_session = session = TrainingSession(self, current(), self.data_parallel_config)
    self.get_train_dataset = session.shard_train_dataset  # on the instance, so that an overriding subclass is covered
    try:
        output = stock(self, *args, **kwargs)
        current().barrier()
        return output
    finally:
        del self.get_train_dataset
        session.close()


def _load_optimizer_and_scheduler(stock, self, checkpoint):
    """The last call before the loop: from here on every rank holds what rank 0 holds."""
    stock(self, checkpoint)
    self.data_parallel_session.begin()


def training_step(stock, self, model, inputs):
    """Backward starts the all-reduces of the gradients it has made."""
    self.data_parallel_session.prepare()
    return stock(self, model, inputs)


def update_gradient_by_distributed_type(stock, self, model):
    """Leave the average over the ranks in every gradient, if the optimizer steps now."""
    self.data_parallel_session.synchronize()


def num_examples(stock, self, dataset):
    """Rows of an epoch over all ranks: what samples per second are counted from."""
    return dataset.num_examples if isinstance(dataset, ShardedDataset) else stock(self, dataset)


def _maybe_log_save_evaluate(stock, self, tr_loss, *args, **kwargs):
    """Log the loss of the whole batch, not of this rank's part of it."""
    if self.control.should_log or self.control.should_training_stop:
        losses = current().all_gather_object(tr_loss.item())
        mindspore.ops.assign(tr_loss, mindspore.tensor(sum(losses) / len(losses), tr_loss.dtype))
    return stock(self, tr_loss, *args, **kwargs)


def _save_checkpoint(stock, self, *args, **kwargs):
    """Rank 0 writes; nobody goes on before it is written."""
    stock(self, *args, **kwargs)
    current().barrier()


def evaluation_loop(
    stock, self, dataset, description, prediction_loss_only=None, ignore_keys=None, metric_key_prefix="eval"
):
    """Each rank scores its share; every rank gets all rows, and the metrics over them."""
    if self.args.past_index >= 0:  # a batch needs what the model made of the one before
        return stock(self, dataset, description, prediction_loss_only, ignore_keys, metric_key_prefix)
    if not self.is_in_train:
        make_replicas(self.model, current())
    loss_only = self.args.prediction_loss_only if prediction_loss_only is None else prediction_loss_only
    return evaluate_together(self, dataset, loss_only, ignore_keys, metric_key_prefix, current())


TRAINER_METHODS = (
    _inner_training_loop,
    _load_optimizer_and_scheduler,
    training_step,
    update_gradient_by_distributed_type,
    num_examples,
    _maybe_log_save_evaluate,
    _save_checkpoint,
    evaluation_loop,
)


@contextmanager
def main_process_first(stock, self, local=True, desc="work"):
    """Rank 0 (of each host, if ``local``) does the work; the others follow. To be entered by all ranks."""
    leads = (self.local_process_index if local else self.process_index) == 0
    if not leads:
        current().barrier()
    yield
    if leads:
        current().barrier()


ARGUMENTS_METHODS = (main_process_first,)
