"""Tokenized data on disk: written once, on rank 0, and read by every rank."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
from mindnlp.transformers import AutoTokenizer
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin.data import DynamicPadding, pack_dataset
from mindnlp_dp_plugin.distributed.ranks import barrier, is_main_process
from mindnlp_dp_plugin.recipes.languages import language_of
from mindnlp_dp_plugin.recipes.models import ModelSource, find_model
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.run_folder import TOKENS, digest, fingerprint
from mindnlp_dp_plugin.recipes.small_models import SAVERS, begin_with_counts
from mindnlp_dp_plugin.recipes.splitting import text_columns, texts_of
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.tokens import LENGTH_STEP

MOST_COMPARED = 1000  # rows whose tokens tell one tokenizer from another


class PreparedData:
    """Tokenised splits, and the model folder that belongs to them.

    Attributes:
        task: What is learnt.
        model: Where the model is.
        tokenizer: The model's.
        facts: What the task must know of the data, and ``baselines``, ``cut_texts``, ``remarks``, ``language``,
            ``chosen_model`` (as ``--model`` names it), and ``why`` it was chosen if the user named none.
        splits: Names of the splits there are: ``train``, ``dev`` (not with folds) and perhaps ``test``.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self.facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        self.task = get_task(self.facts["task"])
        self.model = ModelSource(**self.facts["model"])
        self.splits = list(self.facts["num_rows"])
        self.tokenizer = AutoTokenizer.from_pretrained(self.model.path, **self.model.how)
        self.task.fit_tokenizer(self.tokenizer)

    def begun_model(self, seed: int, rows: list[int] | None = None, **kept) -> Any:
        """The model to train. One that begins from nothing knows how often each token occurs in which class.

        Args:
            seed: The recipe's.
            rows: Numbers of the rows of train that it may know of; None: all.
            **kept: Other keywords of ``from_pretrained``.
        """
        model = self.task.load_model(self.model.path, self.facts, **self.model.how, **kept)
        if self.model.origin is None:
            train = datasets.load_from_disk(str(self._folder / "train"))
            train = train if rows is None else train.select(rows)
            if examples := self.task.examples(train["input_ids"], train["labels"]):
                begin_with_counts(model, *examples, seed)
        return model

    def pipeline(
        self, split: str, batch_size: int, shuffle: bool = False, rows: list[int] | None = None, packing: bool = False
    ) -> GeneratorDataset:
        """A whole split in batches, each padded to its longest row; the plugin shards it.

        Args:
            split: Which.
            batch_size: Rows per batch.
            shuffle: Whether in a new order each epoch.
            rows: The numbers of those that are wanted; None: all.
            packing: Whether several share a row of the greatest length; then all are taken.
        """
        if packing:
            rows = datasets.load_from_disk(str(self._folder / split))
            return pack_dataset(
                rows, self.facts["max_length"], batch_size, shuffle, pad_token_id=self.tokenizer.pad_token_id
            )
        found = Rows(self._folder / split, rows)
        fillings = dict.fromkeys(found.columns, 0)
        fillings |= {"input_ids": self.tokenizer.pad_token_id, "labels": self.task.label_filling}
        padded = {name: filling for name, filling in fillings.items() if filling is not None}
        padding = DynamicPadding(padded, LENGTH_STEP, self.facts["max_length"])
        pipeline = GeneratorDataset(found, found.columns, shuffle=shuffle)
        return pipeline.batch(batch_size, per_batch_map=padding, input_columns=padding.columns)

    def texts(self, split: str, numbers: list[int] | None = None) -> list[tuple]:
        """What rows of a split hold beside their labels: the text, or the two of a pair, or text and words.

        Args:
            split: Which.
            numbers: Of the rows that are wanted; None: all.
        """
        rows = datasets.load_from_disk(str(self._folder / "texts" / split))
        rows = rows if numbers is None else rows.select(numbers)
        return list(zip(*(rows[name] for name in rows.column_names)))

    def score(self, logits: Any, labels: Any, split: str, numbers: list[int] | None = None) -> dict:
        """The task's scores of a split, or of its rows with these numbers, and their ``standard_error``."""
        error = self.task.standard_error(logits, labels, self.facts)
        return {**self.task.score(logits, labels, self.texts(split, numbers), self.facts), "standard_error": error}


class Rows:
    """A Hugging Face data set as MindSpore reads it: row number in, tuple of columns out."""

    def __init__(self, folder: Path, rows: list[int] | None = None):
        found = datasets.load_from_disk(str(folder))
        self._rows = (found if rows is None else found.select(rows)).with_format("numpy")
        self.columns = self._rows.column_names

    def __getitem__(self, index):
        row = self._rows[int(index)]
        return tuple(
            row[column].astype("float32" if row[column].dtype.kind == "f" else "int32") for column in self.columns
        )

    def __len__(self):
        return len(self._rows)


def prepare(options: RecipeOptions, folder: Path, task: str = "classification") -> PreparedData:
    """Read, tokenize and save a data set on rank 0, and open it on all ranks. All ranks must call it.

    Args:
        options: What to read, and for which model; generated film reviews if no data set is named.
        folder: Where to.
        task: What is to be learnt.

    Raises:
        DataParallelError: If the data cannot be used, on rank 0.
    """
    if is_main_process():
        learnt = get_task(task)
        data = learnt.read(options)
        model, why = options.model, None
        if model is None:
            model, why = learnt.choose_model(data.splits["train"]["text"])
        texts = {split: texts_of(rows) for split, rows in data.splits.items()}
        trained = set(texts.pop("train"))
        own = learnt.facts(data, options)
        facts = {
            "task": task,
            "max_length": options.max_length,
            "remarks": data.remarks,
            "folds": learnt.folds(data, options),
            **own,
            "kept": [name for name in own if name != "rows"],
            "num_rows": {split: len(rows) for split, rows in data.splits.items()},
            "duplicates": {split: sum(text in trained for text in of) for split, of in texts.items()},
            "text_columns": list(data.columns.texts) if data.columns else ["text"],
            "label_column": data.columns.label if data.columns else "label",
            "chosen_model": model,
            "why": why,
            "language": language_of(data.splits["train"]["text"]),
        }
        tokens = _tokenise(data.splits, facts, replace(options, model=model), folder)
        facts["fingerprint"] = {**fingerprint(learnt, data, options, model), TOKENS: tokens}
        facts["baselines"] = learnt.baselines(
            data, options, facts, tokens=lambda split: datasets.load_from_disk(str(folder / split))
        )
        (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    barrier()
    return PreparedData(folder)


def _tokenise(splits, facts, options, folder):
    """Save each split as texts and as rows of tokens, and with them the model if it begins from nothing.

    The facts get ``model`` and ``cut_texts``. Returns a digest of each split's tokens.
    """
    source = find_model(options.model, options.mirror)
    if options.is_from_nothing:
        source = source._replace(path=str(folder / "model"))
        train = splits["train"]
        learnt_from = [text for name in text_columns(train) for text in train[name]]
        SAVERS[options.model](source.path, learnt_from, len(facts.get("label_names", "1")), options.max_length)
    tokenizer, task = AutoTokenizer.from_pretrained(source.path, **source.how), get_task(facts["task"])
    task.fit_tokenizer(tokenizer)
    facts |= {"model": source._asdict(), "cut_texts": {}}
    digests = {}
    for name, rows in splits.items():
        tokens, facts["cut_texts"][name] = task.tokenise(tokenizer, rows, options.max_length, facts)
        digests[name] = digest(tokens["input_ids"][:MOST_COMPARED])
        rows.remove_columns("label").save_to_disk(str(folder / "texts" / name))
        datasets.Dataset.from_dict(tokens).save_to_disk(str(folder / name))
    return digests
