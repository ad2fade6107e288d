"""Evaluation and prediction: each rank scores its share of the batches, then every rank gets all rows."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
from mindnlp.core.autograd import no_grad
from mindnlp.engine.utils import EvalLoopOutput, EvalPrediction, denumpify_detensorize, find_batch_size

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.data.dispatched import DispatchedForEvaluation
from mindnlp_dp_plugin.data.evaluation import EvaluationShard, shard_for_evaluation
from mindnlp_dp_plugin.data.sharded import ShardedByBatch
from mindnlp_dp_plugin.distributed.gather import concatenate, to_numpy
from mindnlp_dp_plugin.distributed.gradients import computed
from mindnlp_dp_plugin.fully_sharded import gathered_parameters
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.mixed_precision import weights_in
from mindnlp_dp_plugin.step.common_seed import common_seed
from mindnlp_dp_plugin.step.dispatching import dispatch_for_evaluation
from mindnlp_dp_plugin.step.same_data import require_same_rows
from mindnlp_dp_plugin.trainers.mindnlp.mixed_precision import computing_as_in_training, dtype_of_evaluation

_compared = WeakSet()  # data sets found to be the same on all ranks


class ScoredBatch(NamedTuple):
    """The model's outputs for one batch."""

    num_rows: int
    loss: Any
    predictions: Any
    labels: Any
    inputs: Any


def evaluate_together(
    trainer,
    dataset,
    prediction_loss_only: bool,
    ignore_keys,
    metric_key_prefix: str,
    collective: Collective,
    in_step: Callable[[Iterable], Iterator] = iter,
) -> EvalLoopOutput:
    """Stock's ``evaluation_loop`` over all ranks, with the same result on each. All ranks must call it.

    It is long because it follows stock's from the batches to the metrics, in its order.

    Args:
        trainer: The ``mindnlp.engine.Trainer``, its model the same on all ranks.
        dataset: The whole pipeline, batched.
        prediction_loss_only: Whether to return the loss only.
        ignore_keys: Outputs of the model that are not predictions.
        metric_key_prefix: Prefix of the metrics' names.
        collective: The ranks that evaluate together.
        in_step: Yields this rank's batches, while others score theirs.

    Raises:
        DataParallelError: If the ranks hold different data sets.
    """
    if trainer.data_parallel_config.dispatch_batches:
        share = dispatch_for_evaluation(dataset, collective, trainer.args.seed)
    else:
        ranks = collective.world_size, collective.rank
        share = shard_for_evaluation(dataset, *ranks, trainer.args.seed)
        if isinstance(share, ShardedByBatch) and not trainer.data_parallel_session:  # each rank runs the whole pipeline
            share = shard_for_evaluation(
                dataset, *ranks, common_seed("TrainingArguments.seed", trainer.args.seed, collective)
            )
    if not isinstance(share, DispatchedForEvaluation) and dataset not in _compared:
        require_same_rows(Message("The data set to evaluate"), dataset, collective, share.num_rows)
        _compared.add(dataset)
    rounds_to = None if trainer.is_in_train else dtype_of_evaluation(trainer.args)
    with (
        no_grad(),
        computed.being(is_whole=True),
        gathered_parameters(trainer.model) if rounds_to else nullcontext(),
        weights_in(rounds_to, trainer.model),
        computing_as_in_training(trainer.args) as in_float32,
    ):
        mine = _score(trainer, share, in_step, prediction_loss_only, ignore_keys, in_float32)
    batches = share.in_order(collective.all_gather_object(mine, Message("batches of an evaluation")))
    predictions, labels, inputs = (_join(batches, name) for name in ("predictions", "labels", "inputs"))

    metrics = {}
    if trainer.compute_metrics is not None and predictions is not None and labels is not None:
        given = {"inputs": inputs} if trainer.args.include_inputs_for_metrics else {}
        metrics = trainer.compute_metrics(EvalPrediction(predictions=predictions, label_ids=labels, **given))
        metrics = denumpify_detensorize(metrics)
    losses = [np.repeat(batch.loss, batch.num_rows) for batch in batches if batch.loss is not None]
    if losses:
        metrics[f"{metric_key_prefix}_loss"] = np.concatenate(losses).mean().item()
    # compute_metrics may draw random numbers.
    metrics = collective.all_gather_object(metrics, Message("metrics of an evaluation"))[0]
    prefix = f"{metric_key_prefix}_"
    metrics = {name if name.startswith(prefix) else prefix + name: value for name, value in metrics.items()}
    return EvalLoopOutput(predictions, labels, metrics, num_samples=sum(batch.num_rows for batch in batches))


def _score(
    trainer, share: EvaluationShard, in_step, prediction_loss_only, ignore_keys, in_float32
) -> list[ScoredBatch]:
    """Score this rank's batches; the results are on the host."""
    args, model = trainer.args, trainer.model
    model.set_train(False)
    trainer.callback_handler.eval_dataset = share

    on_host, on_device = [], []
    for step, inputs in enumerate(in_step(share.create_dict_iterator()), start=1):
        num_rows = find_batch_size(inputs)
        loss, logits, labels = trainer.prediction_step(model, inputs, prediction_loss_only, ignore_keys=ignore_keys)
        logits = in_float32(logits)
        if logits is not None and trainer.preprocess_logits_for_metrics is not None:
            logits = trainer.preprocess_logits_for_metrics(logits, labels)
        main_input = getattr(trainer.model, "main_input_name", "input_ids")
        kept_inputs = inputs[main_input] if args.include_inputs_for_metrics else None
        on_device.append(ScoredBatch(num_rows, loss, logits, labels, kept_inputs))
        trainer.control = trainer.callback_handler.on_prediction_step(args, trainer.state, trainer.control)
        if args.eval_accumulation_steps and step % args.eval_accumulation_steps == 0:
            on_host += map(_to_host, on_device)
            on_device.clear()
    return on_host + [_to_host(batch) for batch in on_device]


def _to_host(batch):
    return ScoredBatch(*to_numpy(tuple(batch)))


def _join(batches, name):
    values = [getattr(batch, name) for batch in batches]
    values = [value for value in values if value is not None]
    return concatenate(values) if values else None
