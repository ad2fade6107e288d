"""Packed rows: what shares a row, and that a model reads each sequence as if it stood alone."""

import mindnlp_dp_plugin as dp  # isort: skip

import re
from contextlib import suppress

import datasets
import mindspore
import numpy as np
import pytest
from mindnlp.core.optim import AdamW
from mindnlp.transformers import (
    BertConfig,
    BertLMHeadModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin import DataParallelError
from mindnlp_dp_plugin.data.packing import PackedRows, best_fit_decreasing, block_masks, pack_dataset, packed_rows_of
from mindnlp_dp_plugin.step.packed_rows import require_packed_rows_read
from tests.families.catalogue import cases, folders
from tests.families.configs import tiny_config
from tests.harness import REPOSITORY
from tests.programs.tiny import SIZES, seed_everything, tiny_dataset, tiny_trainer

VOCABULARY, LENGTH = SIZES["vocab_size"], 24
ROTARY = dict(**SIZES, num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=False)
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**ROTARY)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**ROTARY)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(VOCABULARY, 64, 32, 2, 2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    ),
}


def chats(num, shortest=2, longest=LENGTH):
    """Tokens of which the first third is no answer."""
    chance = np.random.default_rng(7)
    for length in chance.integers(shortest, longest + 1, num):
        tokens = chance.integers(4, VOCABULARY, length).tolist()
        yield {"input_ids": tokens, "labels": [-100] * (length // 3) + tokens[length // 3 :]}


def slowly_packed(lengths, capacity):
    """Best-fit decreasing, as its definition reads: of all rows that have room, the one with the least."""
    rows = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        fitting = [row for row in rows if sum(lengths[each] for each in row) + lengths[number] <= capacity]
        if not fitting:
            rows.append([number])
        else:
            max(fitting, key=lambda row: sum(lengths[each] for each in row)).append(number)
    return rows


@pytest.mark.parametrize("num, capacity", [(1, 9), (40, 9), (300, 64), (300, 1000)])
def test_rows_are_those_of_best_fit_decreasing(num, capacity):
    lengths = np.random.default_rng(num).integers(1, min(capacity, 80) + 1, num).tolist()
    rows = best_fit_decreasing(lengths, capacity)
    assert sorted(number for row in rows for number in row) == list(range(num))
    filled = [sum(lengths[number] for number in row) for row in rows]
    assert max(filled) <= capacity
    expected = [sum(lengths[number] for number in row) for row in slowly_packed(lengths, capacity)]
    assert sorted(filled) == sorted(expected)


def test_a_row_holds_whole_sequences_from_their_first_position():
    rows = list(chats(30))
    packed = PackedRows(rows, LENGTH, pad_token_id=1)
    for number, (tokens, labels, positions, segments) in enumerate(map(packed.__getitem__, range(len(packed)))):
        begin = 0
        for segment, chat in enumerate(packed.rows[number], 1):
            (places,) = np.nonzero(segments == segment)
            assert places.tolist() == list(range(begin, begin + len(rows[chat]["input_ids"])))
            assert tokens[places].tolist() == rows[chat]["input_ids"]
            assert labels[places].tolist() == [-100, *rows[chat]["labels"][1:]]
            assert positions[places].tolist() == list(range(len(places)))
            begin += len(places)
        assert set(tokens[begin:]) <= {1} and set(labels[begin:]) <= {-100}
        assert not segments[begin:].any() and not positions[begin:].any()


def test_what_a_token_sees():
    masks = block_masks(np.array([[1, 1, 2, 2, 0]]))
    assert masks.shape == (1, 1, 5, 5) and masks.dtype == np.float32
    assert (masks[0, 0] == 0).astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1],
    ]


def as_pipeline(rows):
    columns = [tuple(np.array(values, np.int32) for values in row.values()) for row in rows]
    return GeneratorDataset(columns, list(rows[0]), shuffle=False)


def test_any_source_of_sequences_packs_alike():
    rows = list(chats(20))
    padded = [
        {name: values + [fill] * (LENGTH - len(values)) for (name, values), fill in zip(row.items(), (0, -100))}
        | {"attention_mask": [1] * len(row["input_ids"]) + [0] * (LENGTH - len(row["input_ids"]))}
        for row in rows
    ]
    expected = PackedRows(rows, LENGTH)
    for source in (as_pipeline(rows), datasets.Dataset.from_list(rows), padded, as_pipeline(padded)):
        found = PackedRows(source, LENGTH)
        assert found.rows == expected.rows
        for row in range(len(expected)):
            for ours, theirs in zip(found[row], expected[row]):
                np.testing.assert_array_equal(ours, theirs)


def test_without_labels_tokens_are_learnt_and_long_ones_lose_their_end():
    packed = PackedRows([{"input_ids": [5, 6, 7, 8, 9]}, {"input_ids": [4, 5]}, {"input_ids": []}], 4)
    assert packed.rows == [[0], [1]]
    assert (packed.num_sequences, packed.num_cut, packed.num_unlearnt, packed.fullness) == (3, 1, 1, 6 / 8)
    assert packed[0][0].tolist() == [5, 6, 7, 8] and packed[0][1].tolist() == [-100, 6, 7, 8]


def test_rows_without_a_label_are_left_out():
    """Their loss would be no number."""
    late = {"input_ids": [4, 5, 6, 7, 8, 9], "labels": [-100] * 4 + [8, 9]}
    packed = pack_dataset([late, {"input_ids": [5]}, {"input_ids": [6, 7, 8]}], seq_length=4, batch_size=1)
    assert (packed_rows_of(packed).rows, packed_rows_of(packed).num_unlearnt) == ([[2]], 2)
    (batch,) = packed.create_dict_iterator(num_epochs=1)
    assert np.isfinite(MODELS["llama"]()(**batch).loss.item())


def mean_over_tokens(model, batches):
    """The mean loss of all tokens of batches, its gradients, and how many tokens there are."""
    parameters = tuple(parameter for parameter in model.parameters() if parameter.requires_grad)
    losses, gradients, counts = [], [], []
    for batch in batches:
        loss, found = mindspore.value_and_grad(lambda batch=batch: model(**batch).loss, None, parameters)()
        losses.append(loss.asnumpy())
        gradients.append([each.asnumpy() for each in found])
        counts.append((batch["labels"].asnumpy()[:, 1:] != -100).sum())
    means = [np.average(each, axis=0, weights=counts) for each in zip(*gradients)]
    return np.average(losses, weights=counts), means, sum(counts)


@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_are_those_of_padded_rows(name):
    seed_everything(3)
    model, rows = MODELS[name](), list(chats(40))
    padding = dp.DynamicPadding({"input_ids": 0, "labels": -100, "attention_mask": 0})
    whole = [row | {"attention_mask": [1] * len(row["input_ids"])} for row in rows]
    padded = as_pipeline(whole).batch(8, per_batch_map=padding, input_columns=padding.columns)
    packed = pack_dataset(rows, seq_length=2 * LENGTH, batch_size=8)
    assert set(packed.get_col_names()) == {"input_ids", "labels", "position_ids", "attention_mask"}
    require_packed_rows_read(model, packed)
    model.set_train()
    expected = mean_over_tokens(model, padded.create_dict_iterator(num_epochs=1))
    found = mean_over_tokens(model, packed.create_dict_iterator(num_epochs=1))
    assert found[2] == expected[2] and packed.get_dataset_size() < padded.get_dataset_size()
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    largest = max(np.abs(each).max() for each in expected[1])
    for ours, theirs in zip(found[1], expected[1]):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * largest)


class ReadsNoMasks(LlamaForCausalLM):
    """Reads rows as if they were one text."""

    def forward(self, *args, attention_mask=None, **kwargs):
        return super().forward(*args, **kwargs)


@pytest.mark.parametrize(
    "model, reason",
    [
        (lambda: ReadsNoMasks(LlamaConfig(**ROTARY)), "ReadsNoMasks does not read packed rows .*: logits differ by"),
        (lambda: BertLMHeadModel(BertConfig(**SIZES, is_decoder=True)), "BertLMHeadModel does not .* Wrong shape"),
        (
            lambda: OPTForCausalLM(OPTConfig(VOCABULARY, 32, 2, 64, 64, num_attention_heads=2, word_embed_proj_dim=32)),
            "OPTForCausalLM does not .* unexpected keyword argument 'position_ids'",
        ),
        (
            lambda: GPT2LMHeadModel(GPT2Config(VOCABULARY, LENGTH // 2, 32, 2, 2)),
            "GPT2LMHeadModel does not",  # a row is longer than its table of what is before what
        ),
    ],
    ids=["no_masks", "bert", "opt", "too_short"],
)
def test_models_that_read_them_otherwise_are_refused_by_name(model, reason):
    seed_everything(3)
    model = model()
    model.set_train()
    frozen = next(iter(model.children()))
    frozen.set_train(False)
    with pytest.raises(DataParallelError, match=reason):
        require_packed_rows_read(model, pack_dataset(list(chats(30)), LENGTH, 4))
    assert model.training and not frozen.training


def test_the_longest_sequence_is_tried_too():
    """Mistral's window is narrower than it, and MindNLP's code has none where a mask is given."""
    seed_everything(3)
    model, short = MistralForCausalLM(MistralConfig(**ROTARY, sliding_window=8)), [{"input_ids": [4, 5, 6, 7]}] * 10
    require_packed_rows_read(model, pack_dataset(short, LENGTH, 2))
    with pytest.raises(DataParallelError, match="MistralForCausalLM does not read packed rows .*: logits differ by"):
        require_packed_rows_read(model, pack_dataset([{"input_ids": list(range(4, 24))}, *short], LENGTH, 2))


def test_each_loop_tries_the_model_first(tmp_path):
    seed_everything(3)
    model, packed = ReadsNoMasks(LlamaConfig(**ROTARY)), pack_dataset(list(chats(30)), LENGTH, 4)
    with pytest.raises(DataParallelError, match="ReadsNoMasks does not read packed rows"):
        tiny_trainer(tmp_path, model, packed).train()
    with pytest.raises(DataParallelError, match="ReadsNoMasks does not read packed rows"):
        dp.prepare(model, AdamW(list(model.parameters())), packed)


@pytest.mark.slow
def test_the_page_names_the_models_that_read_packed_rows():
    """And no others, of all that MindNLP has and that can be made tiny."""
    packed = pack_dataset([{"input_ids": row["input_ids"]} for row in chats(12, longest=9)], 16, 2)
    found = set()
    for folder in folders():
        with suppress(Exception):  # some cannot be made, and some cannot be imported
            model = cases(folder)["causal_lm"]
            require_packed_rows_read(model(tiny_config(folder, model.config_class, "causal_lm")), packed)
            found.add(folder.replace("_", ""))
    for page in ("padding.md", "padding.zh.md"):
        text = (REPOSITORY / "docs/guide" / page).read_text(encoding="utf-8")
        (named,) = re.findall(r"(?:These models|MindNLP 0.4.1 中能读)[^:：]*[:：](.*?)[.。]", text, re.DOTALL)
        assert {re.sub(r"[-\s]", "", name).lower() for name in re.split("[,、]", named)} == found, page


def test_other_data_sets_are_not_asked(caplog):
    require_packed_rows_read(None, tiny_dataset())
    assert packed_rows_of(tiny_dataset()) is None and not caplog.messages


def test_it_says_what_was_packed(caplog):
    seed_everything(3)
    rows = [{"input_ids": list(range(4, 20))}, {"input_ids": [4, 5, 6, 7]}, {"input_ids": [4, 5]}]
    require_packed_rows_read(MODELS["llama"](), pack_dataset(rows, 8, 1))
    assert caplog.messages[-1] == (
        "packing: 3 sequences in 2 rows of 8 tokens, 87.5% full; 1 longer ones lost their end, "
        "0 have no label and are left out. Masks take 0.0 MB a row."
    )


ROW = {"input_ids": [4, 5, 6]}


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (([ROW], 1, 1), "seq_length=1 holds no token to predict"),
        (([ROW], 8, 0), "batch_size=0 holds no row"),
        (([], 8, 1), "got no token to learn in 0 rows"),
        (([{"input_ids": [4]}, {"input_ids": []}], 8, 1), "got no token to learn in 2 rows"),
        (([ROW | {"labels": [-100, -100, 6]}], 2, 1), "after its first token and within the first seq_length=2"),
        (([{"text": "a"}], 8, 1), "row 0 has no 'input_ids'"),
        (([ROW | {"token_type_ids": [0, 0, 0]}], 8, 1), "rows also have token_type_ids: leave them out"),
        (([ROW, ROW | {"labels": [1, 2]}], 8, 1), r"row 1 has columns of the shapes input_ids \(3,\), labels \(2,\)"),
        (([{"input_ids": [[4, 5], [6, 7]]}], 8, 1), r"input_ids \(2, 2\): give single rows, before .batch"),
        ((iter([ROW]), 8, 1), "pack_dataset got a list_iterator: give a mindspore.dataset pipeline"),
    ],
)
def test_what_cannot_be_packed(arguments, reason):
    with pytest.raises(DataParallelError, match=reason):
        pack_dataset(*arguments)
