"""The overrides: one function for each overridden method of the Trainer, under its name; ``stock`` is the method."""

import itertools
import logging

import accelerate.utils.dataclasses as accelerate_dataclasses
import mindtorch
from mindtorch.nn import parallel
from transformers import Trainer

from mindnlp_dp_plugin.checkpoint.training import nothing_left
from mindnlp_dp_plugin.collectives import current, require_same
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.ddp.replicas import check_buffers, make_replicas
from mindnlp_dp_plugin.distributed.gradients import computed
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.port import Announced
from mindnlp_dp_plugin.step import rng
from mindnlp_dp_plugin.step.common_seed import common_seed
from mindnlp_dp_plugin.step.pynative import require_pynative
from mindnlp_dp_plugin.trainers.either import failures_noted, going_on_from
from mindnlp_dp_plugin.trainers.transformers.checkpoints import problem_of, read_record, write_checkpoint
from mindnlp_dp_plugin.trainers.transformers.draws import Draws
from mindnlp_dp_plugin.trainers.transformers.evaluation import Scored
from mindnlp_dp_plugin.trainers.transformers.loaders import shared_out
from mindnlp_dp_plugin.trainers.transformers.order import same_on_ranks
from mindnlp_dp_plugin.trainers.transformers.refusals import require_trainable
from mindnlp_dp_plugin.trainers.transformers.rows import averaging_tokens, deal_out
from mindnlp_dp_plugin.trainers.transformers.same_rows import compare_rows, require_same_rows
from mindnlp_dp_plugin.trainers.transformers.session import TrainingSession
from mindnlp_dp_plugin.trainers.transformers.wrapper import DistributedDataParallel

logger = logging.getLogger(__name__)
METRICS = Message("metrics of an evaluation")
SAME = Message("Give every rank the same: the plugin shards the rows.")


def hook_trainer(config: DataParallelConfig, patches: Patches) -> None:
    """Let Hugging Face's Trainer train data-parallel; accelerate stays as it is.

    Args:
        config: The settings.
        patches: Restores the Trainer.
    """
    patches.replace(Trainer, "data_parallel_config", config)
    patches.replace(Trainer, "data_parallel_session", None)
    patches.replace(Trainer, "update_gradient_by_distributed_type", update_gradient_by_distributed_type)
    for stand_in in TRAINER_METHODS:
        patches.stand_in(Trainer, stand_in)
    for owner in (parallel, parallel.distributed):
        patches.replace(owner, "DistributedDataParallel", DistributedDataParallel)
    patches.stand_in(accelerate_dataclasses.DistributedDataParallelKwargs, register_comm_hook)


def register_comm_hook(stock, self, model):
    """Accelerate's, which imports torch's hooks even when none is asked for."""
    if self.comm_hook != accelerate_dataclasses.DDPCommunicationHookType.NO:
        stock(self, model)


def train(stock, self, resume_from_checkpoint=None, *args, **kwargs):
    """Check arguments and checkpoint before anything is read."""
    with failures_noted():
        require_trainable(self, current().world_size)
        settings = {
            "per_device_train_batch_size": self.args.per_device_train_batch_size,
            "gradient_accumulation_steps": self.args.gradient_accumulation_steps,
            "num_train_epochs": self.args.num_train_epochs,
            "max_steps": self.args.max_steps,
        }
        for name, value in settings.items():
            require_same(name, value, current(), SAME)
        require_same_rows("train_dataset", self.train_dataset, current())
        self.args.seed = common_seed("TrainingArguments.seed", self.args.seed, current())
        own = mindtorch.initial_seed()
        if own != (seed := common_seed("torch.manual_seed", own, current())):
            mindtorch.manual_seed(seed)
        with going_on_from(self, resume_from_checkpoint, problem_of) as (checkpoint, _):
            return stock(self, checkpoint, *args, **kwargs)


def _inner_training_loop(stock, self, *args, resume_from_checkpoint=None, **kwargs):
    """Train with this rank's part of the data, and end together."""
    require_pynative()
    record = read_record(resume_from_checkpoint, self, current())
    with TrainingSession(self, record) as session, rng.operators_left_as_found():
        output = stock(self, *args, resume_from_checkpoint=resume_from_checkpoint, **kwargs)
    if resume_from_checkpoint and not session.meter.num_steps and not session.stop and current().rank == 0:
        logger.warning(nothing_left(resume_from_checkpoint, self.state.global_step))
    return output


def _load_optimizer_and_scheduler(stock, self, checkpoint):
    """The last call before the loop: make the replicas equal."""
    stock(self, checkpoint)
    self.data_parallel_session.begin()


def _get_dataloader(stock, self, dataset, description, batch_size, sampler_fn=None, is_training=False, **kwargs):
    """The loader of training rows reads them in the same order on all ranks."""
    if is_training and sampler_fn is not None:
        given, seed = sampler_fn, self.args.data_seed or self.args.seed

        def sampler_fn(dataset):
            return same_on_ranks(given(dataset), seed, current())

    return stock(self, dataset, description, batch_size, sampler_fn, is_training, **kwargs)


def get_batch_samples(stock, self, epoch_iterator, num_batches, device):
    """The batches of an optimizer step, and what of them counts.

    None of a training that has ended: in the middle of an epoch the Trainer would go on with another step of it.
    """
    session = self.data_parallel_session
    if session.is_over:
        return [], None
    batches = [*session.reading(session.rows.read(itertools.islice(epoch_iterator, num_batches)))]
    of_all = [{} if session.rows.are_read_twice(batch) else batch for batch in batches]
    session.step.announcements.announce([Announced(columns, is_repeated=False) for columns in of_all])
    counted = session.rows.without_labels_of_others(batches)
    with averaging_tokens(self, True):
        _, number = stock(self, iter(counted), num_batches, device)
    return batches, number


def training_step(stock, self, model, inputs, num_items_in_batch=None):
    """Forward and backward of a batch; backward starts the all-reduces."""

    def forward_and_backward():
        loss = stock(self, model, inputs, num_items_in_batch)
        self.update_gradient_by_distributed_type(model)
        return loss

    return self.data_parallel_session.step.training_step(inputs, forward_and_backward)


def compute_loss(stock, self, *args, **kwargs):
    """The Trainer's own, which multiplies nothing by the number of ranks: a rank divides by its share of the labels."""
    with averaging_tokens(self, False):
        return stock(self, *args, **kwargs)


def update_gradient_by_distributed_type(self, model):
    """Average the gradients over the ranks, if the optimizer steps now. As the method of MindNLP 0.4's Trainer."""
    step = self.data_parallel_session.step
    step.finish()
    step.reducer.averaged.leave_out(
        parameter
        for parameter in step.reducer.without
        if not parameter.requires_grad and step.reducer.averaged.has(parameter)
    )


def _maybe_log_save_evaluate(stock, self, tr_loss, *args, **kwargs):
    """After a signal that ask for the end, save."""
    if self.data_parallel_session.preemption.agreed is not None:
        self.control.should_save = True
    stock(self, tr_loss, *args, **kwargs)
    self.data_parallel_session.share_loss(tr_loss)
    self.data_parallel_session.meter.begin_step()


def _save_checkpoint(stock, self, model, trial):
    """Whole, or not at all."""
    session = self.data_parallel_session
    write_checkpoint(self, lambda: stock(self, model, trial), self._get_output_dir(trial=trial), session)
    session.stop_if_agreed()


def _load_best_model(stock, self):
    """The one that saves reads it; the others may not have the file."""
    self.data_parallel_session.step.check_replicas()  # the last model is gone afterwards
    self.data_parallel_session.writer.wait()
    if self.args.should_save:
        stock(self)
    current().barrier()
    make_replicas(self.model, current())


def evaluation_loop(stock, self, dataloader, *args, **kwargs):
    """Metrics of all rows, each once; the loss, too."""
    given, dataloader = dataloader, shared_out(dataloader, self, current())
    compare_rows(self, dataloader.dataset, current())
    draws = Draws(self.args.seed, current().rank)
    deal_out(dataloader, draws)
    session = self.data_parallel_session
    if session is None:
        check_buffers(self.model, current())
        make_replicas(self.model, current())
    elif session.step:
        session.step.check_replicas(anew=True)
    rows = getattr(getattr(dataloader, "batch_sampler", None), "batch_size", None)
    scored = Scored(self, current(), rows, is_prepared=dataloader is given)
    self.gather_function = self.accelerator.gather_for_metrics  # Seq2SeqTrainer's keeps rows that fill a batch up
    with Patches() as patches, computed.being(is_whole=True), averaging_tokens(self, False), draws.joined():
        patches.stand_in(self, scored.prediction_step)
        output = stock(self, dataloader, *args, **kwargs)
    # compute_metrics may draw random numbers.
    return output._replace(metrics=current().all_gather_object(output.metrics, METRICS)[0])


def prediction_loop(stock, self, *args, **kwargs):
    """That of ``use_legacy_prediction_loop``: its gatherer joins rows in another order than accelerate deals out."""
    return self.evaluation_loop(*args, **kwargs)


TRAINER_METHODS = (
    train,
    _inner_training_loop,
    _load_optimizer_and_scheduler,
    _get_dataloader,
    get_batch_samples,
    compute_loss,
    training_step,
    _maybe_log_save_evaluate,
    _save_checkpoint,
    _load_best_model,
    evaluation_loop,
    prediction_loop,
)
