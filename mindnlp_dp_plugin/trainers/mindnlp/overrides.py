"""The overrides: one function for each overridden Trainer method, under its name; ``stock`` is MindNLP's method.

docs/architecture.md lists where MindNLP 0.4.1 defines and calls them.
"""

from contextlib import contextmanager
from functools import partial

from mindnlp.peft import PeftModel

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.agreement import require_own_folders
from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.ddp.replicas import make_replicas
from mindnlp_dp_plugin.fully_sharded import is_shared_out, join_parameters, shared_parameters
from mindnlp_dp_plugin.job.rank_process import temporary_folder
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.optim.loading import count_steps_in_whole_numbers, settings_as_built
from mindnlp_dp_plugin.optim.sharded import send_states
from mindnlp_dp_plugin.step import rng
from mindnlp_dp_plugin.step.common_seed import common_seed
from mindnlp_dp_plugin.step.pynative import require_pynative
from mindnlp_dp_plugin.trainers.either import failures_noted, going_on_from
from mindnlp_dp_plugin.trainers.mindnlp.evaluation import evaluate_together
from mindnlp_dp_plugin.trainers.mindnlp.global_batch import fixed_micro_batches, same_as_before
from mindnlp_dp_plugin.trainers.mindnlp.mixed_precision import float32_masters
from mindnlp_dp_plugin.trainers.mindnlp.resume.position import Resumption
from mindnlp_dp_plugin.trainers.mindnlp.saving import (
    loaded_one_by_one,
    save_adapters,
    saved_one_by_one,
    states_read_later,
    write_checkpoint,
)
from mindnlp_dp_plugin.trainers.mindnlp.session import TrainingSession


def train(stock, self, resume_from_checkpoint=None, *args, **kwargs):
    """Check arguments and checkpoint before anything is read. After a restart, resume from this job's newest."""
    with failures_noted():
        # Both raise if what the arguments ask for cannot be.
        micro_batches = self.data_parallel_config.micro_batches
        with float32_masters(self), fixed_micro_batches(self.args, current().world_size, micro_batches):
            return _train_and_save(stock, self, resume_from_checkpoint, *args, **kwargs)


def _train_and_save(stock, self, resume_from_checkpoint, *args, **kwargs):
    # The script may look for checkpoints, too: all ranks have done so when all seeds are here.
    self.args.seed = common_seed("TrainingArguments.seed", self.args.seed, current())
    make_whole = join_parameters if self.data_parallel_config.zero_stage < 3 else shared_parameters
    make_whole(self.model)  # what an earlier training has left shared out, unless this one goes on with it
    if self.args.save_on_each_node:
        require_own_folders(self.args.output_dir, self.args.should_save, current())
    going_on, ranks = going_on_from(self, resume_from_checkpoint, store.problem_of), current().world_size
    with going_on as (checkpoint, by_itself), same_as_before(self, ranks, checkpoint if by_itself else None):
        return stock(self, checkpoint, *args, **kwargs)


def _inner_training_loop(stock, self, *args, resume_from_checkpoint=None, **kwargs):
    """Train with this rank's part of the data, and end together."""
    require_pynative()
    resumption = Resumption(resume_from_checkpoint) if resume_from_checkpoint else None
    session = TrainingSession(self, resumption)
    with session, temporary_folder() as told, rng.operators_left_as_found():
        return stock(self, *args, resume_from_checkpoint=told if resumption else None, **kwargs)


def _load_from_checkpoint(stock, self, resume_from_checkpoint, model=None):
    """Each rank reads the weights, or one for all where they are shared out."""
    model = self.model if model is None else model
    with loaded_one_by_one(model, self.data_parallel_config.zero_stage) as reads:
        if reads:
            stock(self, resume_from_checkpoint, model)


def _load_optimizer_and_scheduler(stock, self, checkpoint):
    """The last call before the loop: make the replicas equal."""
    session = self.data_parallel_session
    if session.resumption:
        with settings_as_built(self.optimizer), states_read_later(self.data_parallel_config.zero_stage):
            stock(self, str(session.resumption.folder))
        count_steps_in_whole_numbers(self.optimizer)
        session.write_stock_state(checkpoint)
    session.begin()


def training_step(stock, self, model, inputs):
    """Forward and backward of a batch; backward starts the all-reduces."""
    return self.data_parallel_session.step.training_step(inputs, lambda: stock(self, model, inputs))


def update_gradient_by_distributed_type(stock, self, model):
    """Average the gradients over the ranks, if the optimizer steps now."""
    self.data_parallel_session.step.finish()


def store_flos(stock, self):
    """Floating point operations of all ranks. All ranks must call it."""
    of_ranks = current().all_gather_object(self.current_flos, Message("floating point operations"))
    self.current_flos = sum(of_ranks)
    stock(self)


def num_examples(stock, self, dataset):
    """Rows in an epoch over all ranks, for samples per second."""
    return dataset.num_examples if isinstance(dataset, ShardedDataset) else stock(self, dataset)


def _maybe_log_save_evaluate(stock, self, tr_loss, grad_norm, model, *args, **kwargs):
    """After a step and after an epoch: log, evaluate and save by the loss of all ranks.

    The order matters. The loss comes first, as the log, the evaluation and the checkpoint read it. If a signal has
    asked for the end, the checkpoint comes before an evaluation, for which there may be no time.
    """
    session = self.data_parallel_session
    if session.repeats_an_end_of_epoch(tr_loss):
        return None
    control = self.control
    is_reported = control.should_log or control.should_training_stop or control.should_epoch_stop
    if is_reported:
        session.progress.sum_losses()
        session.meter.gather()
    if session.preemption.agreed:
        if self.control.should_evaluate:
            self._save_checkpoint(model)
        self.control.should_save = True
    result = stock(self, tr_loss, grad_norm, model, *args, **kwargs)
    if is_reported:
        session.losses.begin_anew(tr_loss)
    session.stop_if_agreed()
    session.meter.begin_step()
    return result


def _save_checkpoint(stock, self, model, metrics=None):
    """Rank 0 writes the checkpoint atomically, and removes old ones.

    All ranks must call it. MindNLP counts the floating point operations of unlogged steps at the next log alone, for
    which a run that goes on from here has them no more.
    """
    self.store_flos()
    write_checkpoint(self, partial(stock, self, model, metrics=metrics), self.data_parallel_session)


def _save_optimizer_and_scheduler(stock, self, output_dir):
    """Ranks that share out the optimizer's states send them to those that write."""
    if not self.args.should_save:
        send_states(self.optimizer)
    stock(self, output_dir)


def save_model(stock, self, *args, **kwargs):
    """One parameter at a time, where they are shared out. All ranks must call it."""
    with saved_one_by_one(self):
        stock(self, *args, **kwargs)


def _save(stock, self, output_dir=None, state_dict=None):
    """Save adapters without the model they adapt; of any other model, buffers as well as parameters."""
    if not isinstance(self.model, PeftModel):
        return stock(self, output_dir, self.model.state_dict() if state_dict is None else state_dict)
    output_dir = self.args.output_dir if output_dir is None else output_dir
    save_adapters(self.model, output_dir)
    if self.tokenizer is not None:
        self.tokenizer.save_pretrained(output_dir)


def _load_best_model(stock, self):
    """Rank 0 reads the best model and broadcasts it: other nodes may not have the file."""
    self.data_parallel_session.step.check_replicas()  # the last model is gone afterwards
    self.data_parallel_session.writer.wait()
    with loaded_one_by_one(self.model, self.data_parallel_config.zero_stage):
        if current().rank == 0:
            stock(self)
    make_replicas(self.model, current(), are_left_out=is_shared_out)


def evaluation_loop(
    stock, self, dataset, description, prediction_loss_only=None, ignore_keys=None, metric_key_prefix="eval"
):
    """Each rank scores its share; every rank gets all rows and their metrics."""
    if self.args.past_index >= 0:  # a batch needs what the model made of the one before
        return stock(self, dataset, description, prediction_loss_only, ignore_keys, metric_key_prefix)
    in_step, session = iter, self.data_parallel_session  # is_in_train stays True behind a train() that raised
    if session:
        session.step.check_replicas(anew=True)
        in_step = session.step.in_step
    else:
        if shared := shared_parameters(self.model):
            in_step = shared.in_step
        make_replicas(self.model, current(), are_left_out=is_shared_out)
    loss_only = self.args.prediction_loss_only if prediction_loss_only is None else prediction_loss_only
    return evaluate_together(self, dataset, loss_only, ignore_keys, metric_key_prefix, current(), in_step)


TRAINER_METHODS = (
    train,
    _inner_training_loop,
    _load_from_checkpoint,
    _load_optimizer_and_scheduler,
    training_step,
    update_gradient_by_distributed_type,
    store_flos,
    num_examples,
    _maybe_log_save_evaluate,
    _save_checkpoint,
    _save_optimizer_and_scheduler,
    save_model,
    _save,
    _load_best_model,
    evaluation_loop,
)


@contextmanager
def main_process_first(stock, self, local=True, desc="work"):
    """Rank 0 (of each node, if ``local``) runs the block first, then the others. All ranks must enter it."""
    leads = (self.local_process_index if local else self.process_index) == 0
    if not leads:
        current().barrier()
    yield
    if leads:
        current().barrier()


ARGUMENTS_METHODS = (main_process_first,)
