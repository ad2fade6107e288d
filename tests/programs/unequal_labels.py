"""Train models whose rows have 2 to 12 labels, with no setting.

    python unequal_labels.py OUTPUT NUM_RANKS [CASE...]

Started as ranks, NUM_RANKS is their number; started alone, one process takes their batches as one. What
happened is left in ``<output>/<case>.rank<r>.npz``.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from mindnlp.core import nn, ops, value_and_grad
from mindnlp.core.optim import SGD
from mindnlp.engine import Trainer
from mindnlp.peft import LoraConfig, TaskType, get_peft_model
from mindnlp.transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    MixtralConfig,
    MixtralForCausalLM,
    SwitchTransformersConfig,
    SwitchTransformersForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
    Wav2Vec2Config,
    Wav2Vec2ForCTC,
)
from mindspore.dataset import GeneratorDataset
from mindspore.ops import cross_entropy

from mindnlp_dp_plugin.step import stepped
from tests.programs.tiny import NO_DROPOUT, SIZES, Losses, seed_everything, tiny_trainer

BATCH_SIZE, LENGTH, VOCABULARY, NUM_LABELS, NUM_STEPS = 2, 12, 96, 5, 7
BERT = dict(**SIZES, **NO_DROPOUT, max_position_embeddings=32)
GPT2 = dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2, n_positions=32)
GPT2 |= dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
T5 = dict(vocab_size=VOCABULARY, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, dropout_rate=0.0)
T5 |= dict(decoder_start_token_id=0)


class MyGPT2(GPT2LMHeadModel):
    """A class of one's own, that shifts labels as the one it extends."""


class Normalised(nn.Module):
    """Looks across the batch twice: rows are normalised, and each token's features; each row's groups by themselves."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 8)
        self.rows, self.features = nn.BatchNorm1d(8), nn.BatchNorm1d(8, affine=False)
        self.groups = nn.GroupNorm(2, 8)
        self.scores = nn.Linear(8, NUM_LABELS)

    def forward(self, input_ids, labels):
        words = self.groups(self.features(self.words(input_ids).swapaxes(1, 2)))
        logits = self.scores(words.swapaxes(1, 2) + self.rows(words.mean(2))[:, None])
        return {"loss": nn.functional.cross_entropy(logits.reshape(-1, NUM_LABELS), labels.reshape(-1))}


def lora_gpt2():
    model = GPT2LMHeadModel(GPT2Config(**GPT2))
    adapter = LoraConfig(task_type=TaskType.CAUSAL_LM, r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["c_attn"])
    return get_peft_model(model, adapter)


def mixtral():
    """Its experts are balanced by a loss of their own, which counts as much as that of words."""
    size = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2)
    balance = dict(num_local_experts=4, output_router_logits=True, router_aux_loss_coef=1.0)
    return MixtralForCausalLM(MixtralConfig(vocab_size=VOCABULARY, **size, **balance))


def switch():
    """The same, of which each row counts."""
    sparse = dict(num_sparse_encoder_layers=1, num_decoder_layers=2, num_sparse_decoder_layers=1, num_experts=4)
    balance = dict(router_jitter_noise=0.0, router_aux_loss_coef=1.0, router_z_loss_coef=0.1, output_router_logits=True)
    return SwitchTransformersForConditionalGeneration(SwitchTransformersConfig(**T5, **sparse, **balance))


def listener():
    """Speech to letters, whose loss is a mean over rows."""
    size = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, vocab_size=20)
    sound = dict(conv_dim=(16, 16), conv_kernel=(10, 8), conv_stride=(5, 4), num_feat_extract_layers=2)
    places = dict(num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, apply_spec_augment=False)
    rates = ("hidden_dropout", "attention_dropout", "activation_dropout", "feat_proj_dropout", "final_dropout")
    still = dict.fromkeys((*rates, "layerdrop", "mask_time_prob"), 0.0)
    return Wav2Vec2ForCTC(Wav2Vec2Config(**size, **sound, **places, **still, ctc_loss_reduction="mean"))


def words_of(row):
    """A row of token labels: as many count as its number says, from 2 to 12."""
    chance = np.random.default_rng((7, row))
    words = chance.integers(4, VOCABULARY, LENGTH).astype(np.int32)
    labels = words % NUM_LABELS
    labels[chance.permutation(LENGTH)[: LENGTH - chance.integers(2, LENGTH + 1)]] = -100
    return words, labels


def padded_words_of(row):
    """The same with 0 in the place of labels that do not count."""
    words, labels = words_of(row)
    return words, np.where(labels == -100, 0, labels)


def text_of(row):
    """A row of a language model: a prompt of another length in each, whose labels do not count."""
    words, _ = words_of(row)
    labels = words.copy()
    labels[: np.random.default_rng((8, row)).integers(0, LENGTH - 1)] = -100
    return words, labels


def sound_of(row):
    """A row of sound, and of 1 to 6 letters."""
    chance = np.random.default_rng((9, row))
    letters = chance.integers(1, 20, 6).astype(np.int32)
    letters[chance.integers(1, 7) :] = -100
    return chance.standard_normal(300).astype(np.float32), letters


def answer_of(row):
    """A row of a question and its text; every third answer is cut off, and stands behind the last token."""
    words, _ = words_of(row)
    ends = LENGTH + np.zeros(2, np.int64) if row % 3 == 1 else np.sort(words[:2] % LENGTH)
    return words, *ends.astype(np.int32)


class OwnLoss(Trainer):
    """Returns the model's loss, by its outputs."""

    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(**inputs)
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]


class OfTags(Trainer):
    """A loss of labels in a column of another name."""

    def compute_loss(self, model, inputs, return_outputs=False):
        return model(input_ids=inputs["input_ids"], labels=inputs["tags"]).loss


def contrastive(logits):
    """Each row's first half against all rows' second halves: in-batch negatives."""
    first, second = (dp.all_gather(half.mean(1)) for half in (logits[:, :6], logits[:, 6:]))
    return nn.functional.cross_entropy(ops.matmul(first, second.swapaxes(0, 1)), ops.arange(len(first)))


def weighed_by_class(logits, labels):
    """A cross entropy whose mean the weights of its labels' classes normalise."""
    weights = mindspore.Tensor(np.linspace(0.2, 3, NUM_LABELS).astype(np.float32))
    logits, labels = logits.reshape(-1, NUM_LABELS), labels.reshape(-1)
    total = nn.functional.cross_entropy(logits, labels, weight=weights, reduction="sum")
    counted = labels.asnumpy()
    return dp.global_mean(total, float(weights.asnumpy()[counted[counted != -100]].sum()))


def weighed_by_torchs_idiom(logits, labels):
    """The same, as scripts for one process have it."""
    loss = nn.CrossEntropyLoss(weight=mindspore.Tensor(np.linspace(0.2, 3, NUM_LABELS).astype(np.float32)))
    return loss(logits.reshape(-1, NUM_LABELS), labels.reshape(-1))


class InBatchNegatives(Trainer):
    """A loss that compares each row with all others."""

    def compute_loss(self, model, inputs, return_outputs=False):
        return contrastive(model(input_ids=inputs["input_ids"]).logits)


class ClassWeights(Trainer):
    """A loss normalised by its own weights."""

    def compute_loss(self, model, inputs, return_outputs=False):
        return weighed_by_class(model(input_ids=inputs["input_ids"]).logits, inputs["labels"])


class ClassWeightsOfTorchsIdiom(Trainer):
    """The same, and weights of classes in another function beside it."""

    def compute_loss(self, model, inputs, return_outputs=False):
        logits, labels = model(input_ids=inputs["input_ids"]).logits, inputs["labels"]
        scores = nn.functional.log_softmax(logits[:, 0], -1)
        weights = mindspore.Tensor(np.linspace(3, 0.2, NUM_LABELS).astype(np.float32))
        of_rows = nn.functional.nll_loss(scores, inputs["input_ids"][:, 0] % NUM_LABELS, weight=weights)
        return weighed_by_torchs_idiom(logits, labels) + of_rows


class OfWordsAndRows(Trainer):
    """The mean over words, beside that over rows: as slots and intents, or masked words and the next sentence."""

    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(**inputs)
        of_rows = nn.functional.cross_entropy(outputs.logits.mean(1), inputs["input_ids"][:, 0] % NUM_LABELS)
        return outputs.loss + 0.25 * of_rows


class LeavesOutClass0(Trainer):
    """A loss that leaves out another label than -100, by a function of MindSpore's that the script has imported."""

    def compute_loss(self, model, inputs, return_outputs=False):
        logits = model(input_ids=inputs["input_ids"]).logits.reshape(-1, NUM_LABELS)
        return cross_entropy(logits, inputs["labels"].reshape(-1).astype(mindspore.int32), ignore_index=0)


@dataclass
class Case:
    """One training.

    Attributes:
        model: Makes the model.
        row_of: Makes a row, given its number.
        num_batches: Batches in an epoch of each rank.
        num_missing: Rows that the last of them miss, over all ranks.
        arguments: Further TrainingArguments.
        config: Fields of the DataParallelConfig of ranks.
        trainer: The Trainer.
        without_labels_on: The rank whose first batch has no label that counts; None for none.
        is_shuffled: Whether rows come in an order drawn from a seed.
        columns: Of a row.
    """

    model: Any
    row_of: Any = words_of
    num_batches: int = 6
    num_missing: int = 0
    arguments: dict = field(default_factory=dict)
    config: dict = field(default_factory=dict)
    trainer: type = Trainer
    without_labels_on: int | None = None
    is_shuffled: bool = False
    columns: tuple = ("input_ids", "labels")


def token_classifier():
    return BertForTokenClassification(BertConfig(**BERT, num_labels=NUM_LABELS))


def gpt2():
    return GPT2LMHeadModel(GPT2Config(**GPT2))


CASES = {
    "token_classification": Case(token_classifier),
    "gpt2": Case(gpt2, text_of),
    "bert_masked": Case(lambda: BertForMaskedLM(BertConfig(**BERT))),
    "t5": Case(lambda: T5ForConditionalGeneration(T5Config(**T5)), text_of),
    "subclass": Case(lambda: MyGPT2(GPT2Config(**GPT2)), text_of),
    "accumulation_2": Case(gpt2, text_of, arguments={"gradient_accumulation_steps": 2}),
    "accumulation_3_spanning_epochs": Case(
        token_classifier, num_batches=5, arguments={"gradient_accumulation_steps": 3}
    ),
    "uneven_end": Case(gpt2, text_of, num_batches=3, num_missing=1),
    "uneven_end_of_a_whole_batch": Case(gpt2, text_of, num_batches=3, num_missing=3),
    "uneven_end_of_one_row": Case(token_classifier, num_batches=3, num_missing=BATCH_SIZE + 1),
    "by_length": Case(token_classifier, num_batches=4, num_missing=1, arguments={"group_by_length": True}),
    "fp16": Case(gpt2, text_of, arguments={"fp16": True}),
    "lora": Case(lora_gpt2, text_of),
    "zero1": Case(token_classifier, config={"zero_stage": 1}),
    "zero2": Case(gpt2, text_of, config={"zero_stage": 2}),
    "zero3": Case(gpt2, text_of, config={"zero_stage": 3}, without_labels_on=1),
    "no_label_on_rank_1": Case(token_classifier, without_labels_on=1),
    "no_label_while_accumulating": Case(
        token_classifier, without_labels_on=0, arguments={"gradient_accumulation_steps": 2}
    ),
    "label_smoothing": Case(gpt2, text_of, arguments={"label_smoothing_factor": 0.1}),
    "own_compute_loss": Case(token_classifier, trainer=OwnLoss),
    "in_batch_negatives": Case(token_classifier, trainer=InBatchNegatives, num_batches=3, num_missing=1),
    "in_batch_negatives_accumulated": Case(
        token_classifier, trainer=InBatchNegatives, arguments={"gradient_accumulation_steps": 2}, without_labels_on=1
    ),
    "in_batch_negatives_zero3": Case(token_classifier, trainer=InBatchNegatives, config={"zero_stage": 3}),
    "class_weights": Case(token_classifier, trainer=ClassWeights, num_batches=3, num_missing=BATCH_SIZE + 1),
    "class_weights_of_torchs_idiom": Case(
        token_classifier, trainer=ClassWeightsOfTorchsIdiom, num_batches=3, num_missing=BATCH_SIZE + 1
    ),
    "class_weights_accumulated": Case(
        token_classifier,
        trainer=ClassWeightsOfTorchsIdiom,
        arguments={"gradient_accumulation_steps": 2},
        without_labels_on=1,
    ),
    "batch_normalisation": Case(Normalised, num_batches=3, num_missing=1),
    "batch_normalisation_accumulated": Case(
        Normalised, arguments={"gradient_accumulation_steps": 2}, without_labels_on=1
    ),
    "experts": Case(mixtral, text_of, num_batches=3, num_missing=BATCH_SIZE + 1, without_labels_on=1),
    "experts_of_rows": Case(switch, text_of, num_batches=3, num_missing=1),
    "speech": Case(listener, sound_of, columns=("input_values", "labels"), arguments={"learning_rate": 1e-3}),
    "words_and_rows": Case(token_classifier, trainer=OfWordsAndRows, num_batches=3, num_missing=BATCH_SIZE + 1),
    "words_and_rows_accumulated": Case(
        token_classifier,
        trainer=OfWordsAndRows,
        arguments={"gradient_accumulation_steps": 2},
        without_labels_on=1,
    ),
    "class_0_left_out": Case(token_classifier, padded_words_of, trainer=LeavesOutClass0),
    "answers_cut_off": Case(
        lambda: BertForQuestionAnswering(BertConfig(**BERT)),
        answer_of,
        columns=("input_ids", "start_positions", "end_positions"),
    ),
    "tags": Case(
        token_classifier,
        trainer=OfTags,
        arguments={"label_names": ["tags"]},
        columns=("input_ids", "tags"),
        num_batches=3,
        num_missing=1,
    ),
    "by_micro_batches": Case(token_classifier, num_missing=1, config={"elastic_determinism": True}),
}

OF_SEEDS = {  # one process shuffles otherwise
    "seeds_alike": Case(token_classifier, is_shuffled=True, arguments={"seed": 5}),
    "seeds_by_rank": Case(token_classifier, is_shuffled=True, arguments={"seed": 5 + dp.get_rank()}),
}
LOOPS = [
    *("token_classification.dict", "gpt2.place", "accumulation_3_spanning_epochs.dict", "no_label_on_rank_1.place"),
    *("uneven_end_of_one_row.closure", "uneven_end.place", "zero1.dict"),
    *("uneven_end_of_one_row.contrast", "uneven_end_of_one_row.classes", "seeds_by_rank.dict"),
    "uneven_end_of_one_row.weights",
    *("uneven_end_of_one_row.kept", "uneven_end.passes", "answers_cut_off.dict"),
]


class Recorder(Losses):
    """What each step led to."""

    def __init__(self):
        super().__init__()
        self.parameters = []

    def on_step_end(self, args, state, control, model=None, **kwargs):
        self.parameters.append(values_of(model))


def dataset_of(case, num_ranks):
    batch_size = BATCH_SIZE * (num_ranks if dp.get_world_size() == 1 else 1)
    num_rows = case.num_batches * BATCH_SIZE * num_ranks - case.num_missing
    rows = [case.row_of(row) for row in range(num_rows)]
    if case.without_labels_on is not None:
        for row in range(case.without_labels_on, BATCH_SIZE * num_ranks, num_ranks):
            rows[row][1][:] = -100
    return GeneratorDataset(rows, list(case.columns), shuffle=case.is_shuffled).batch(batch_size)


def values_of(model):
    with dp.gathered_parameters(model):
        tensors = [*model.parameters(), *model.buffers()]
        return np.concatenate([tensor.astype(mindspore.float32).asnumpy().ravel() for tensor in tensors])


def train(name, output, num_ranks):
    case, ranks = {**CASES, **OF_SEEDS}[name], dp.get_world_size()
    dp.install(dp.DataParallelConfig(**(case.config if ranks > 1 else {})))
    dataset = dataset_of(case, num_ranks)
    seed_everything(3)
    model, recorder = case.model(), Recorder()
    settings = dict(optim="sgd", learning_rate=0.1, max_steps=NUM_STEPS, logging_steps=1)
    given = output / f"{name}_trainer", model, dataset, case.trainer, [recorder]
    result = tiny_trainer(*given, **{**settings, **case.arguments}).train()
    np.savez(
        output / f"{name}.rank{dp.get_rank()}.npz",
        parameters=np.stack(recorder.parameters),
        losses=recorder.of_steps,
        train_loss=result.training_loss,
    )


def train_by_loop(name, output, num_ranks):
    """A loop of one's own, which hands the batch on as users do: as a dict, in places, or not at all.

    It may keep the batches of the first pass, and take them in another order; or all passes from one iterator.
    """
    case, ranks = {**CASES, **OF_SEEDS}[name.partition(".")[0]], dp.get_world_size()
    dp.install(dp.DataParallelConfig(**(case.config if ranks > 1 else {})))
    seed_everything(3)
    model = case.model()
    mindspore.set_seed(5 + dp.get_rank())
    optimizer = SGD(list(model.parameters()), lr=0.1)
    model, optimizer, rows = dp.prepare(model, optimizer, dataset_of(case, num_ranks))
    words = None

    def by_dict(batch):
        return model(**batch).loss

    def by_place(first, second):
        return model(input_ids=first, labels=second).loss

    def by_closure():
        return model(**words).loss

    def by_contrast(batch):
        return contrastive(model(input_ids=batch["input_ids"]).logits)

    def by_class(batch):
        return weighed_by_class(model(input_ids=batch["input_ids"]).logits, batch["labels"])

    def by_weights(batch):
        return weighed_by_torchs_idiom(model(input_ids=batch["input_ids"]).logits, batch["labels"])

    ways = dict(dict=by_dict, place=by_place, closure=by_closure, contrast=by_contrast, classes=by_class)
    ways["weights"] = by_weights
    kind = name.partition(".")[2]
    way = ways.get(kind, by_dict)
    gradients = value_and_grad(way, list(model.parameters()), attach_grads=True)
    accumulation, parameters, num_micro_steps = case.arguments.get("gradient_accumulation_steps", 1), [], 0
    returned = []
    votes = count_votes()
    kept = list(rows.create_dict_iterator(num_epochs=1))[::-1] if kind == "kept" else None
    passes = rows.create_dict_iterator()
    while len(parameters) < NUM_STEPS:
        for words in kept or (passes if kind == "passes" else rows.create_dict_iterator(num_epochs=1)):
            num_micro_steps += 1
            steps = num_micro_steps % accumulation == 0
            given = {by_place: tuple(words.values()), by_closure: ()}.get(way, (words,))
            with nullcontext() if steps else dp.no_sync():
                returned.append(gradients(*given).item())
            if steps and len(parameters) < NUM_STEPS:
                optimizer.step()
                optimizer.zero_grad()
                parameters.append(values_of(model))
                num_votes = len(votes)
    results = dict(parameters=np.stack(parameters), losses=[], train_loss=0, num_votes=num_votes, returned=returned)
    np.savez(output / f"{name}.rank{dp.get_rank()}.npz", **results)


def count_votes():
    """A list that grows by each message in which ranks sum numbers of theirs."""
    votes, stock = [], stepped.Vote

    def vote(*args):
        votes.append(args)
        return stock(*args)

    stepped.Vote = vote
    return votes


if __name__ == "__main__":
    folder, of_ranks, *names = sys.argv[1:]
    for each in names or [*CASES, *LOOPS, *(OF_SEEDS if dp.get_world_size() > 1 else ())]:
        (train_by_loop if "." in each else train)(each, Path(folder), int(of_ranks))
