"""Texts as numbers on disk: made once, on rank 0, and read by every rank."""

import json
from pathlib import Path

import datasets
from mindnlp.transformers import AutoTokenizer
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin.data import DynamicPadding
from mindnlp_dp_plugin.distributed.ranks import barrier, is_main_process
from mindnlp_dp_plugin.recipes.options import ClassificationOptions
from mindnlp_dp_plugin.recipes.small_models import SAVERS
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, read_texts

LENGTH_STEP = 16  # lengths of batches are multiples of it: little padding on CPU, few shapes to compile on Ascend


class PreparedData:
    """Tokenised splits, and the model folder that belongs to them.

    Attributes:
        model: Folder or name of the model.
        tokenizer: The model's.
        label_names: The classes; a class's number is its place here.
        splits: Names of the splits there are, ``train``, ``dev`` and perhaps ``test``.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        self.model, self.label_names, self.splits = facts["model"], facts["label_names"], facts["splits"]
        self._max_length = facts["max_length"]
        self.tokenizer = AutoTokenizer.from_pretrained(self.model)

    def pipeline(self, split: str, batch_size: int, shuffle: bool = False) -> GeneratorDataset:
        """A whole split in batches. The plugin deals it out to the ranks; nothing here knows of them.

        Args:
            split: Which.
            batch_size: Rows per batch.
            shuffle: Whether in a new order each epoch.
        """
        rows = Rows(self._folder / split)
        fillings = {name: self._filling_of(name) for name in rows.columns if name != "labels"}
        padding = DynamicPadding(fillings, LENGTH_STEP, self._max_length)
        pipeline = GeneratorDataset(rows, rows.columns, shuffle=shuffle)
        return pipeline.batch(batch_size, per_batch_map=padding, input_columns=padding.columns)

    def _filling_of(self, name):
        return self.tokenizer.pad_token_id if name == "input_ids" else 0


class Rows:
    """A Hugging Face data set as MindSpore reads it: row number in, tuple of columns out."""

    def __init__(self, folder: Path):
        self._rows = datasets.load_from_disk(str(folder)).with_format("numpy")
        self.columns = self._rows.column_names

    def __getitem__(self, index):
        row = self._rows[int(index)]
        return tuple(row[column].astype("int32") for column in self.columns)

    def __len__(self):
        return len(self._rows)


def prepare(options: ClassificationOptions, folder: Path) -> PreparedData:
    """Read, tokenise and save a data set on rank 0, and open it on all. To be called on all ranks.

    Args:
        options: What to read, and for which model; generated film reviews if no data set is named.
        folder: Where to.

    Raises:
        DataParallelError: If the data cannot be used, on rank 0.
    """
    if is_main_process():
        texts = read_texts(options)
        print("\n".join(texts.remarks))
        tokenise(texts, options, folder)
    barrier()
    return PreparedData(folder)


def tokenise(texts: LabelledTexts, options: ClassificationOptions, folder: Path) -> None:
    """Save each split as rows of tokens, and with them the small model if none is named."""
    model = options.model
    if model is None:
        model = str(folder / "model")
        train = texts.splits["train"]
        learnt_from = [text for name in train.column_names if name != "label" for text in train[name]]
        SAVERS[options.small_model](model, learnt_from, len(texts.label_names), options.max_length)
    tokenizer = AutoTokenizer.from_pretrained(model)

    def encode(rows):
        given = [rows[name] for name in ("text", "text_pair") if name in rows]
        tokens = tokenizer(*given, truncation=True, max_length=options.max_length)
        return {**tokens, "labels": rows["label"]}

    for name, rows in texts.splits.items():
        tokens = rows.map(encode, batched=True, remove_columns=rows.column_names, desc=f"tokenising {name}")
        tokens.save_to_disk(str(folder / name))
    facts = {
        "model": model,
        "label_names": texts.label_names,
        "splits": list(texts.splits),
        "max_length": options.max_length,
    }
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
