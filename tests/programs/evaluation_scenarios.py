"""Evaluate and predict in many ways, and leave what came of each.

    python evaluation_scenarios.py OUTPUT EMULATED_RANKS

Started as ranks, EMULATED_RANKS is their number; started alone, how many ranks the process is to be compared with.
Leaves ``OUTPUT/<scenario>.rank<r>.npz``, or ``OUTPUT/<scenario>.rank<r>.txt`` with the traceback it ended with.
"""

import copy
import hashlib
import sys
import traceback
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn
from mindnlp.engine import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from mindnlp.engine.callbacks import ProgressCallback
from mindnlp.transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification
from mindspore import dataset as ds
from mindspore.common.api import _pynative_executor

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives, metrics
from tests.programs.noted import digest_of
from tests.programs.tiny import SIZES, seed_everything

OUTPUT = Path(sys.argv[1])
EMULATED_RANKS = int(sys.argv[2])
RANK, ALONE = dp.get_rank(), dp.get_world_size() == 1
BATCH_SIZE = 8
SPEED = ("_runtime", "_samples_per_second", "_steps_per_second")
CONFIG = BertConfig(max_position_embeddings=32, num_labels=2, **SIZES)
ACCURACY, F1 = metrics.load("accuracy"), metrics.load("f1")
SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


# What is evaluated


def table(num_rows, num_columns=2):
    chance = np.random.default_rng(7)
    rows = [(chance.integers(4, 96, 12), chance.integers(2), chance.integers(2)) for _ in range(num_rows)]
    return [tuple(np.asarray(value, np.int32) for value in row[:num_columns]) for row in rows]


def pipeline(rows, columns=("input_ids", "labels"), **options):
    return ds.GeneratorDataset(rows, list(columns), **{"shuffle": False, **options})


def without_length(rows):
    yield from rows


def ragged(num_rows):
    """Token classification: each batch as long as its longest row."""
    chance = np.random.default_rng(7)
    lengths = chance.integers(2, 30, num_rows)
    rows = [(chance.integers(4, 96, length), chance.integers(0, 2, length)) for length in lengths]
    rows = [tuple(value.astype(np.int32) for value in row) for row in rows]
    return pipeline(rows).padded_batch(BATCH_SIZE, pad_info={"input_ids": ([None], 0), "labels": ([None], -100)})


class TupleClassifier(nn.Module):
    """Gives its loss and its logits as a plain tuple, and learns from two columns of labels."""

    def __init__(self):
        super().__init__()
        self.classifier = BertForSequenceClassification(CONFIG)

    def forward(self, input_ids, starts=None, ends=None):
        logits = self.classifier(input_ids=input_ids).logits
        if starts is None:
            return (logits,)
        entropy = nn.functional.cross_entropy
        return entropy(logits, starts) + entropy(-logits, ends), logits, logits * 2


# How


class PlainTrainer(Trainer):
    def _prepare_input(self, value):  # MindNLP 0.4.1 calls it for include_inputs_for_metrics, but does not define it
        return value


def build(model=BertForSequenceClassification, trainer=PlainTrainer, arguments=None, **options):
    seed_everything(3 + 10 * RANK)  # replicas start apart: one process is to be compared with rank 0
    network = model() if model is TupleClassifier else model(CONFIG)
    defaults = dict(
        output_dir=str(OUTPUT / "trainer"), per_device_eval_batch_size=BATCH_SIZE, disable_tqdm=True, logging_steps=1
    )
    arguments = TrainingArguments(**{**defaults, **(arguments or {})})
    return trainer(model=network, args=arguments, **options)


def accuracy_and_f1(prediction):
    answers, labels = prediction.predictions.argmax(-1), prediction.label_ids
    return {
        **ACCURACY.compute(predictions=answers, references=labels),
        **F1.compute(predictions=answers, references=labels),
    }


def checksums(prediction):
    """Tells apart any two orders and any two paddings."""
    labels = np.asarray(prediction.label_ids, np.float64)
    weights = np.arange(1, labels.size + 1).reshape(labels.shape)
    return {"num_rows": len(labels), "labels": float((labels * weights).sum())}


def scores(found):
    return {name: value for name, value in found.items() if not name.endswith(SPEED)}


def outcome(found, output=None):
    """Numbers and arrays to compare: metrics but for the time they took, predictions, labels."""
    results = scores(found)
    for part, value in (("predictions", output.predictions), ("labels", output.label_ids)) if output else ():
        several = value if isinstance(value, tuple) else (value,)
        results |= {f"{part}_{i}": array for i, array in enumerate(several) if array is not None}
    return results


def evaluate_and_predict(trainer, data):
    found = trainer.evaluate(copy.deepcopy(data))  # MindSpore refuses to read one pipeline in two ways
    output = trainer.predict(data)
    return {**outcome(found), **outcome(output.metrics, output)}


# Sizes


@scenario
def any_number_of_rows():
    results = {}
    for num_rows in (101, 64, 16, 7, 1):
        found = evaluate_and_predict(build(compute_metrics=accuracy_and_f1), pipeline(table(num_rows)))
        assert found["predictions_0"].shape == (num_rows, 2)
        results |= {f"{num_rows}_{name}": value for name, value in found.items()}
    return results


@scenario
def without_the_last_batch():
    trainer = build(compute_metrics=accuracy_and_f1, arguments={"dataset_drop_last": True})
    return evaluate_and_predict(trainer, pipeline(table(45)))


@scenario
def rows_of_all_ranks_are_counted():
    num_rows = []
    for data in (pipeline(table(101)), pipeline(table(1))):
        found = build().evaluate(data)
        if not ALONE:  # MindNLP counts batches
            num_rows.append(round(found["eval_samples_per_second"] * found["eval_runtime"]))
    return {"num_rows": [101, 1] if ALONE else num_rows}


# Pipelines


@scenario
def several_data_sets():
    trainer = build(compute_metrics=accuracy_and_f1)
    return outcome(trainer.evaluate({"long": pipeline(table(37)), "short": pipeline(table(3))}))


@scenario
def batched_by_the_user():
    return evaluate_and_predict(build(), pipeline(table(29)).batch(3))


@scenario
def without_known_length():
    rows = table(53)
    return evaluate_and_predict(build(), pipeline(lambda: without_length(rows), shuffle=None))


@scenario
def filtered():
    return evaluate_and_predict(build(), pipeline(table(60)).filter(lambda row: row[0] > 20, "input_ids"))


@scenario
def repeated():
    return evaluate_and_predict(build(), pipeline(table(19)).repeat(2))


@scenario
def shuffled_source_comes_in_its_own_order():
    return evaluate_and_predict(build(), pipeline(table(43), shuffle=not ALONE))


@scenario
def shuffle_operator_is_left_out():
    data = pipeline(table(43))
    return evaluate_and_predict(build(), data if ALONE else data.shuffle(20))


@scenario
def shuffled_and_filtered_has_each_row_once():
    rows = pipeline(table(43)).filter(lambda ids: ids[0] > 20, "input_ids")
    output = build().predict(rows if ALONE else rows.shuffle(20))
    predictions = np.sort(output.predictions, axis=0).round(5)  # the last bits depend on what else is in the batch
    return {"predictions": predictions, "labels": np.sort(output.label_ids)}


@scenario
def split():
    mindspore.set_seed(1)
    _, data = pipeline(table(50)).split([0.3, 0.7])
    return evaluate_and_predict(build(), data)


@scenario
def sharded_by_the_user():
    rows = table(24 * EMULATED_RANKS)
    if ALONE:
        return evaluate_and_predict(
            build(), pipeline([row for r in range(EMULATED_RANKS) for row in rows[r::EMULATED_RANKS]])
        )
    data = pipeline(rows, num_shards=EMULATED_RANKS, shard_id=RANK)
    return evaluate_and_predict(build(), data)


# What the Trainer is asked for


def evaluate_ragged(eval_accumulation_steps):
    # On CPU MindNLP alone cannot join rows of different length on the device (new_full), so it is to do so on the host.
    arguments = {"eval_accumulation_steps": 1 if ALONE else eval_accumulation_steps}
    trainer = build(BertForTokenClassification, compute_metrics=checksums, arguments=arguments)
    return evaluate_and_predict(trainer, ragged(61))


@scenario
def lengths_that_differ_between_batches():
    return evaluate_ragged(eval_accumulation_steps=None)


@scenario
def moved_to_the_host_in_between():
    return evaluate_ragged(eval_accumulation_steps=2)


@scenario
def preprocessed_logits():
    def classes(logits, labels):
        assert labels is not None
        return logits.argmax(-1)

    trainer = build(preprocess_logits_for_metrics=classes, compute_metrics=checksums)
    return evaluate_and_predict(trainer, pipeline(table(37)))


@scenario
def inputs_for_metrics():
    def compare(prediction):
        return {"inputs": hashlib.sha256(prediction.inputs.tobytes()).digest()[0], "rows": len(prediction.inputs)}

    trainer = build(compute_metrics=compare, arguments={"include_inputs_for_metrics": True})
    return evaluate_and_predict(trainer, pipeline(table(37)))


@scenario
def loss_only():
    trainer = build(compute_metrics=accuracy_and_f1, arguments={"prediction_loss_only": True})
    found = evaluate_and_predict(trainer, pipeline(table(37)))
    assert set(found) == {"eval_loss", "test_loss"}
    return found


@scenario
def tuples_and_two_columns_of_labels():
    trainer = build(TupleClassifier, arguments={"label_names": ["starts", "ends"]}, compute_metrics=checksums)
    return evaluate_and_predict(trainer, pipeline(table(37, 3), ["input_ids", "starts", "ends"]))


@scenario
def without_labels():
    output = build().predict(pipeline(table(37, 1), ["input_ids"]))
    assert output.label_ids is None and "test_loss" not in output.metrics
    return outcome(output.metrics, output)


@scenario
def without_ignored_keys():
    trainer = build(arguments={"label_names": []})
    trainer.model.config.output_hidden_states = True
    everything = trainer.predict(pipeline(table(21, 1), ["input_ids"]))
    logits = trainer.predict(pipeline(table(21, 1), ["input_ids"]), ignore_keys=["hidden_states"])
    trainer.model.config.output_hidden_states = False  # the configuration is shared by all scenarios
    assert isinstance(everything.predictions, tuple) and isinstance(logits.predictions, np.ndarray)
    return {"logits": logits.predictions, "states": everything.predictions[1][-1]}


@scenario
def label_smoothing():
    return evaluate_and_predict(build(arguments={"label_smoothing_factor": 0.1}), pipeline(table(37)))


@scenario
def in_float16():
    trainer = build(arguments={"fp16_full_eval": True})
    found = evaluate_and_predict(trainer, pipeline(table(37)))
    assert found["predictions_0"].dtype == np.float16
    return found


@scenario
def random_metrics_are_the_same_on_all_ranks():
    trainer = build(compute_metrics=lambda prediction: {"chance": float(np.random.default_rng().random())})
    found = scores(trainer.evaluate(pipeline(table(9))))
    return {} if ALONE else found


@scenario
def own_prediction_step_keeps_no_gradient():
    class Watching(PlainTrainer):
        def prediction_step(self, *arguments, **keywords):
            assert ALONE or not _pynative_executor.enable_grad()
            return super().prediction_step(*arguments, **keywords)

    found = evaluate_and_predict(build(trainer=Watching), pipeline(table(37)))
    assert _pynative_executor.enable_grad()
    return found


# What it takes


class BarWatcher(TrainerCallback):
    totals = ()

    def on_prediction_step(self, args, state, control, **kwargs):
        bars = [
            callback.prediction_bar for callback in self.handler.callbacks if isinstance(callback, ProgressCallback)
        ]
        self.totals = [bar.total for bar in bars if bar is not None]


@scenario
def one_progress_bar():
    watcher = BarWatcher()
    trainer = build(callbacks=[watcher], arguments={"disable_tqdm": False})
    watcher.handler = trainer.callback_handler
    trainer.evaluate(pipeline(table(101)))
    expected = [-(-13 // dp.get_world_size())] if RANK == 0 else []
    assert watcher.totals == expected, watcher.totals
    return {}


@scenario
def one_gather():
    group = type(collectives.current())
    stock, counts = group.all_gather_object, []
    for num_rows in (1, 101):
        trainer, data = build(), pipeline(table(num_rows))
        for _ in range(2):
            calls = []
            group.all_gather_object = lambda *given, calls=calls: calls.append(0) or stock(*given)
            trainer.evaluate(data)
            group.all_gather_object = stock
            counts.append(len(calls))
    # The replicas' structure, the rows, the metrics; a data set is compared before it is scored for the first time.
    assert ALONE or counts == [4, 3, 4, 3], counts
    return {}


@scenario
def gather_for_metrics():
    rows = np.arange(11)
    ragged_rows = [np.full((len(rows[r::EMULATED_RANKS]), 2 + r), r, np.float32) for r in range(EMULATED_RANKS)]
    share = rows[RANK :: dp.get_world_size()]
    tensors = {"pair": (mindspore.Tensor(share, mindspore.int64), mindspore.Tensor(share * 0.5, mindspore.bfloat16))}
    by_row = dp.gather_for_metrics(tensors, share)
    padded = [*share, *range(3)]  # a sampler's surplus, on all ranks
    once = dp.gather_for_metrics(np.array(padded), padded)
    if ALONE:
        by_rank = np.concatenate([rows[r::EMULATED_RANKS] for r in range(EMULATED_RANKS)])
        widths = np.full((11, 1 + EMULATED_RANKS), -100, np.float32)
        for row, values in enumerate(values for part in ragged_rows for values in part):
            widths[row, : len(values)] = values
        last = rows[EMULATED_RANKS - 1 :: EMULATED_RANKS]
    else:
        by_rank = dp.gather_for_metrics(mindspore.Tensor(share))
        widths = dp.gather_for_metrics(ragged_rows[RANK])
        last = dp.gather_for_metrics(share if RANK == EMULATED_RANKS - 1 else None)
    assert dp.gather_for_metrics(None) is None
    return {
        "numbers": by_row["pair"][0],
        "halves": by_row["pair"][1],
        "once": once,
        "by_rank": by_rank,
        "widths": widths,
        "last": last,
    }


# What hangs on it: ranks that decide differently would never meet again


class LateLosses(TrainerCallback):
    """Training that soon does more harm than good."""

    def __init__(self):
        self.losses, self.rates = [], []

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        self.losses.append(metrics["eval_loss"])

    def on_step_end(self, args, state, control, optimizer=None, **kwargs):
        self.rates.append(float(optimizer.param_groups[0]["lr"]))


def train(folder, callbacks=(), **arguments):
    watcher = LateLosses()
    trainer = build(
        callbacks=[watcher, *callbacks],
        train_dataset=pipeline(table(96), shuffle=True).batch(4),
        eval_dataset=pipeline(table(29)),
        arguments=dict(
            output_dir=str(OUTPUT / folder),
            evaluation_strategy="steps",
            eval_steps=2,
            save_steps=2,
            metric_for_best_model="loss",
            greater_is_better=False,
            **arguments,
        ),
    )
    trainer.train()
    losses, after = list(watcher.losses), trainer.evaluate()["eval_loss"]
    digest = bytes.fromhex(digest_of(trainer.model))
    best = trainer.state.best_model_checkpoint
    return {
        "steps": trainer.state.global_step,
        "best": 0 if best is None else int(best.rsplit("-", 1)[1]),
        "digest": np.frombuffer(digest, np.uint8),
        "losses": losses,
        "rates": watcher.rates,
        "after": after,
    }


@scenario
def early_stop_at_the_best_model():
    results = train(
        "early",
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
        max_steps=60,
        learning_rate=1e-2,
        load_best_model_at_end=True,
    )
    best = int(np.argmin(results["losses"]))
    assert results["best"] == 2 * (best + 1) and results["after"] == results["losses"][best], results
    assert results["steps"] == 2 * (best + 3) < 60, results
    return {} if ALONE else results


@scenario
def plateau():
    results = train(
        "plateau",
        max_steps=12,
        learning_rate=2e-2,
        lr_scheduler_type="reduce_lr_on_plateau",
        lr_scheduler_kwargs={"patience": 0},
        save_strategy="no",
    )
    assert len(set(results["rates"])) > 1
    return {} if ALONE else results


if __name__ == "__main__":
    for name in sys.argv[3:] or SCENARIOS:
        left = OUTPUT / f"{name}.rank{RANK}"
        try:
            np.savez(left.with_suffix(left.suffix + ".npz"), **SCENARIOS[name]())
            failed = False
        except Exception:
            left.with_suffix(left.suffix + ".txt").write_text(traceback.format_exc())
            failed = True
        failed = [rank for rank, failure in enumerate(dp.all_gather_object(failed)) if failure]
        dp.print_rank_0(name, "failed on" if failed else "ok", *failed, flush=True)
