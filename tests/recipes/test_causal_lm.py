"""Conversations: read, masked, scored, beaten, reported and gone on with."""

import json
import math
import random
from dataclasses import replace

import mindspore
import numpy as np
import pytest

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes import report
from mindnlp_dp_plugin.recipes.baselines import Bigrams
from mindnlp_dp_plugin.recipes.chats import PLAIN_TEMPLATE, chat_to_tokens
from mindnlp_dp_plugin.recipes.checks import check
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.prepared import prepare
from mindnlp_dp_plugin.recipes.run_folder import RunFolder, fingerprint
from mindnlp_dp_plugin.recipes.small_models import SAVERS
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.training import RecipeTrainer, training_arguments
from mindnlp_dp_plugin.recipes.verdict import give_advice
from mindnlp_dp_plugin.recipes.words import say
from mindnlp_dp_plugin.trainers.mindnlp.public import TrainingArguments
from tests.programs.tiny import seed_everything
from tests.recipes.test_parts import results_of
from tests.recipes.test_tables import refusal
from tests.recipes.test_tables import write as write_table
from tests.recipes.trained import asked_of

TASK = get_task("causal-lm")
PRICES = {"lamp": 3, "chair": 7, "desk": 9, "clock": 5}


def chats(num_rows, seed=0):
    """Questions after a price, some with another question before them."""
    chance = random.Random(seed)
    for number in range(num_rows):
        messages = [{"role": "system", "content": "you keep a shop"}] if number % 5 == 0 else []
        for thing in chance.sample(list(PRICES), chance.randint(1, 2)):
            messages.append({"role": "user", "content": f"guest {number} asks what the {thing} costs"})
            messages.append({"role": "assistant", "content": f"the {thing} costs {PRICES[thing]} coins"})
        yield {"messages": messages}


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_conversations_are_read_and_counted(tmp_path, kind):
    rows = list(chats(60))
    options = RecipeOptions(str(write_table(tmp_path / f"data.{kind}", rows)))
    data = TASK.read(options)
    found = sorted(message for split in data.splits.values() for message in split["messages"])
    assert found == sorted(json.dumps(row["messages"]) for row in rows)
    assert {split: len(of) for split, of in data.splits.items()} == {"train": 54, "dev": 6}
    assert set(TASK.facts(data, options)["rows"]["train"]) == {"system", "user", "assistant"}


GOOD = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


@pytest.mark.parametrize(
    "row, words",
    [
        ({"messages": []}, "'data.jsonl', row 2: messages is []: give a list such as"),
        ({"messages": "hello"}, "'data.jsonl', row 2: messages is 'hello'"),
        ({"messages": [{"role": "user"}]}, "row 2: message 1 is {'role': 'user'}: give a list such as"),
        (
            {"messages": [*GOOD, {"role": "bot", "content": "x"}]},
            "message 3 has the role 'bot': give a list such as",
        ),
        ({"messages": [{"role": "user", "content": " "}]}, "message 1 has the content ' ': give a list such as"),
        ({"messages": GOOD[:1]}, "row 2: no message is the assistant's: give a list such as"),
    ],
)
def test_what_is_no_conversation(tmp_path, row, words):
    assert words in refusal("causal-lm", write_table(tmp_path / "data.jsonl", [{"messages": GOOD}, row]))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"text_column": ("chat",)}, "--text-column 'chat' is not in 'data.jsonl': its columns are messages"),
        (
            {"model": "small-bert"},
            "--model 'small-bert' is no model for causal-lm: give small-gpt2, small-qwen2, a",
        ),
    ],
)
def test_options_that_do_not_fit(tmp_path, options, words):
    path = write_table(tmp_path / "data.jsonl", list(chats(40)))
    with pytest.raises(DataParallelError) as refused:
        check(RecipeOptions(str(path), output_dir=tmp_path / "out", **options), 1, "causal-lm")
    assert words in str(refused.value)
    with pytest.raises(DataParallelError, match="--model 'small-gpt2' is no model for classification: give small-rob"):
        check(RecipeOptions(str(path), output_dir=tmp_path / "out", model="small-gpt2"), 1, "classification")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder for each small language model and its tokenizer."""
    folder, texts = tmp_path_factory.mktemp("models"), []
    for row in chats(80):
        texts += [message["content"] for message in row["messages"]]
    seed_everything(0)  # rounding is a matter of the weights that are drawn
    for name in TASK.small_models:
        SAVERS[name](folder / name, texts, None, 96)
    return folder


@pytest.mark.parametrize("name", ["small-gpt2", "small-qwen2"])
def test_only_answers_are_learnt(models, name):
    from mindnlp.transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(models / name))
    TASK.fit_tokenizer(tokenizer)
    assert ("<|im_start|>" in tokenizer.chat_template) == (name == "small-qwen2")
    (chat,) = (row["messages"] for row in list(chats(6, seed=4))[5:6])
    chat = [{"role": "system", "content": "be kind"}, *GOOD, {"role": "user", "content": "c"}, *GOOD[1:]]
    tokens, labels = chat_to_tokens(tokenizer, chat)
    text = tokenizer.apply_chat_template(chat, tokenize=False)
    assert tokenizer.decode(tokens) == text
    assert all(label in (-100, token) for label, token in zip(labels, tokens))
    learnt = tokenizer.decode([label for label in labels if label != -100])
    end = "<|im_end|>" if name == "small-qwen2" else tokenizer.eos_token
    assert learnt.replace(" ", "").replace("\n", "") == f"b{end}b{end}"
    asked = tokenizer.apply_chat_template(chat[:2], tokenize=False, add_generation_prompt=True)
    assert tokens[: len(tokenizer(asked, add_special_tokens=False)["input_ids"])] == tokenizer(asked)["input_ids"]


def test_a_template_that_rewrites_what_was_said_is_refused(models):
    from mindnlp.transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(models / "small-gpt2"))
    tokenizer.chat_template = "{{ messages|length }}" + PLAIN_TEMPLATE
    with pytest.raises(DataParallelError, match="writes the beginning of a conversation otherwise than in the whole"):
        chat_to_tokens(tokenizer, GOOD + GOOD)


def test_prepared_conversations_their_loss_and_their_scores(tmp_path):
    write_table(tmp_path / "data.jsonl", list(chats(60)))
    options = RecipeOptions(str(tmp_path / "data.jsonl"), model="small-gpt2", max_length=40)
    prepared = prepare(options, tmp_path / "out", "causal-lm")
    assert prepared.facts["cut_texts"]["train"] > 0 and prepared.facts["chosen_model"] == "small-gpt2"
    (batch,) = prepared.pipeline("dev", 6).create_dict_iterator(num_epochs=1, output_numpy=True)
    ids, labels = batch["input_ids"], batch["labels"]
    assert ids.shape == labels.shape and ids.shape[1] <= 40 and ((labels == ids) | (labels == -100)).all()
    assert (labels[batch["attention_mask"] == 0] == -100).all() and (labels[:, 0] == -100).all()
    vocabulary = 500 + int(ids.max())
    logits = np.random.default_rng(0).normal(size=(*ids.shape, vocabulary)).astype(np.float32)
    chances = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    counted = labels[:, 1:] != -100
    own = -np.take_along_axis(chances[:, :-1], np.maximum(labels[:, 1:, None], 0), axis=-1)[..., 0] * counted
    given = mindspore.Tensor(logits), mindspore.Tensor(labels)
    assert TASK.loss(prepared.facts, options) is None, "the model's own: the Trainer weighs ranks by their labels"
    rows = TASK.outputs(*given).asnumpy()
    assert (
        rows[:, 0] == pytest.approx(own.sum(axis=1), rel=1e-5) and rows[:, 1].tolist() == counted.sum(axis=1).tolist()
    )
    scores = TASK.score(rows, labels, prepared.texts("dev"), prepared.facts)
    assert scores["perplexity"] == pytest.approx(math.exp(own.sum() / counted.sum()), rel=1e-5)
    assert scores["token_accuracy"] == rows[:, 2].sum() / counted.sum() and scores["tokens"] == counted.sum()
    hardest = [each["perplexity"] for each in scores["hardest"]]
    assert hardest == sorted(hardest, reverse=True) and len(hardest) == 6
    baseline = prepared.facts["baselines"]["bigrams"]
    assert 1 < baseline["perplexity"] < 10 and 0.3 < baseline["token_accuracy"] < 1
    with pytest.raises(DataParallelError, match="--max-length 8: no answer of train begins within so many tokens"):
        prepare(RecipeOptions(options.dataset, model="small-gpt2", max_length=8), tmp_path / "short", "causal-lm")


def test_conversations_whose_answers_are_cut_off_are_told_and_score_nothing(tmp_path):
    long = [{"role": "user", "content": "please " * 60}, *GOOD[1:]]
    write_table(tmp_path / "long.jsonl", [{"messages": long}] * 8)
    write_table(tmp_path / "data.jsonl", [*chats(60), {"messages": long}])
    options = RecipeOptions(str(tmp_path / "data.jsonl"), model="small-gpt2", max_length=40)
    facts = prepare(options, tmp_path / "out", "causal-lm").facts
    assert "train: conversations without an answer within --max-length: 1" in map(say, facts["remarks"])
    with pytest.raises(DataParallelError, match="--max-length 40: no answer of dev begins within so many tokens"):
        prepare(replace(options, dev_file=str(tmp_path / "long.jsonl")), tmp_path / "again", "causal-lm")
    rows, texts = np.array([[0.0, 0, 0], [9.0, 3, 0], [9.0, 3, 0]]), [(json.dumps(GOOD),)] * 3
    assert len(TASK.score(rows, None, texts, {})["hardest"]) == 1, "each once, and none without an answer"


def test_packed_conversations_have_the_loss_of_padded_ones(tmp_path):
    write_table(tmp_path / "data.jsonl", list(chats(60)))
    options = TASK.options(str(tmp_path / "data.jsonl"), model="small-qwen2", max_length=96, packing=True)
    data = prepare(options, tmp_path / "out", "causal-lm")
    model = TASK.load_model(data.model.path, data.facts)
    totals, rows, counted = {}, {}, {}
    for packing in (False, True):
        train = data.pipeline("train", 4, packing=packing)
        trainer = RecipeTrainer(
            data, options, model=model, train_dataset=train, args=TrainingArguments(str(tmp_path / "trainer"))
        )
        model.set_train(False)
        batches = list(train.create_dict_iterator(num_epochs=1))
        rows[packing] = sum(len(batch["labels"]) for batch in batches)
        learnt = [int((batch["labels"].asnumpy()[:, 1:] != -100).sum()) for batch in batches]
        counted[packing] = sum(learnt)
        totals[packing] = sum(trainer.compute_loss(model, batch).item() * num for batch, num in zip(batches, learnt))
    assert rows[True] < rows[False] == 54 and counted[True] == counted[False]
    assert totals[True] == pytest.approx(totals[False], rel=1e-5)


def test_packing_does_not_go_with_grouping(tmp_path):
    path = write_table(tmp_path / "data.jsonl", list(chats(40)))
    options = TASK.options(str(path), output_dir=tmp_path / "out", packing=True, group_by_length=True)
    with pytest.raises(DataParallelError, match="--packing with --group-by-length: packed rows are all as long"):
        check(options, 1, "causal-lm")


def test_a_run_goes_on_packed_as_it_began(tmp_path):
    path = write_table(tmp_path / "data.jsonl", list(chats(40)))
    begun, now = (TASK.options(str(path), packing=packing) for packing in (False, True))
    data = TASK.read(begun)
    folder = RunFolder(tmp_path / "out")
    folder.begin(begun, TASK.name, fingerprint(TASK, data, begun, "small-gpt2"))
    with pytest.raises(DataParallelError, match="began with packing=False, and this one has True"):
        folder.require_same(fingerprint(TASK, data, now, "small-gpt2"))


def test_bigrams_are_a_distribution():
    model = Bigrams([[1, 2, 1, 3], [1, 2]], 5)
    for before in range(5):
        assert model.probability(np.arange(5), np.full(5, before)).sum() == pytest.approx(1)
    two, three, four = model.probability(np.array([2, 3, 4]), np.array([1, 1, 1]))
    assert two > three > four > 0
    loss, accuracy = model.score([[1, 2], [1, 3]], [[-100, 2], [-100, 3]])
    assert accuracy == 0.5
    assert loss == pytest.approx(-(math.log(two) + math.log(three)) / 2)


@pytest.mark.parametrize("name", ["small-gpt2", "small-qwen2"])
def test_an_answer_does_not_depend_on_what_else_is_asked(models, name):
    from mindnlp.transformers import AutoTokenizer

    model, tokenizer = TASK.load_model(str(models / name), {}), AutoTokenizer.from_pretrained(str(models / name))
    model.set_train(False)
    TASK.fit_tokenizer(tokenizer)
    rows = [TASK.as_row("what does the lamp cost", {}), TASK.as_row(GOOD[:1], {})]
    columns = TASK.inputs(tokenizer, rows, 96, {})
    inputs = [{"input_ids": each} for each in columns["input_ids"]]
    found = TASK.answer(model, tokenizer, inputs, rows, {"max_new_tokens": 3})
    assert len(found) == 2 and all(isinstance(each, str) for each in found)
    assert TASK.answer(model, tokenizer, inputs[1:], rows[1:], {"max_new_tokens": 3}) == found[1:]


def test_the_report_and_the_advice(tmp_path):
    texts = [(json.dumps(row["messages"]),) for row in chats(3)]
    rows = np.array([[30.0, 10, 6], [5.0, 10, 9], [20.0, 10, 7]])
    scores = TASK.score(rows, None, texts, {})
    assert scores["hardest"][0]["perplexity"] == pytest.approx(math.exp(3))
    results = results_of(["a", "b"], np.eye(2), np.arange(2)) | {"task": "causal-lm"}
    results["data"]["rows"] = {"train": {"user": 4, "assistant": 4}}
    results["splits"] = {"dev": {**scores, "loss": 0.1}}
    results["best"] = {"epoch": 2.0, "by": "perplexity", "value": scores["perplexity"]}
    bigrams, before = {"perplexity": 5.0, "token_accuracy": 0.5}, {"perplexity": 90.0, "token_accuracy": 0.1}
    results["baselines"] = {"bigrams": {**bigrams, "split": "dev"}, "before_training": {**before, "split": "dev"}}
    report.write(RunFolder(tmp_path), results)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "perplexity: 1.255 above counted pairs of tokens" in page and "verdict bad" in page
    assert "the model before training" in page and "guest 0 asks" in page and "20.086" in page
    (below,) = give_advice(results)
    assert below.startswith("perplexity: 1.255 above counted pairs of tokens. Try")
    results["baselines"]["bigrams"]["perplexity"] = 7.0
    assert give_advice(results) == []
    report.write(RunFolder(tmp_path), results)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "perplexity: 0.745 below counted pairs of tokens" in page and "verdict good" in page
    arguments = training_arguments(RecipeOptions(best_by="perplexity"), RunFolder(tmp_path), 1.0, falling=TASK.falling)
    assert arguments.greater_is_better is False


def test_what_is_asked(tmp_path):
    ask, hello = asked_of(tmp_path / "run", "causal-lm", ["messages"], None), [[{"role": "user", "content": "hello"}]]
    assert ask("hello", "a")["texts"] == [hello, [GOOD[:1]]]
    write_table(tmp_path / "asked.jsonl", [{"messages": GOOD}, {"messages": [*GOOD, GOOD[0]]}])
    assert ask(tmp_path / "asked.jsonl")["texts"] == [[GOOD[:1]], [[*GOOD, GOOD[0]]]]
    (tmp_path / "asked.txt").write_text("hello\nwho is it\n")
    assert ask(tmp_path / "asked.txt")["texts"][0] == hello
    (tmp_path / "asked.csv").write_text("id,question\n1,hello\n")
    assert ask(tmp_path / "asked.csv")["texts"] == [hello]
    assert ask("hello", max_new_tokens=7)["max_new_tokens"] == 7
    with pytest.raises(DataParallelError, match="--out 'a.csv' has an unknown suffix: give one of .jsonl"):
        ask("hello", out="a.csv")
