"""Tasks. Each is one file with a class of its own and a ``TASK``, one template beside it, and a row of the registry."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import datasets
import numpy as np

from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.models import choose_model
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.registry import RECIPES
from mindnlp_dp_plugin.recipes.scores import decimal, first_of, shown_label
from mindnlp_dp_plugin.recipes.splits import SPLIT_WORDS
from mindnlp_dp_plugin.recipes.splitting import fold_rows, split_off_dev, text_columns
from mindnlp_dp_plugin.recipes.tables import LabelledTexts
from mindnlp_dp_plugin.recipes.tokens import LENGTH_STEP
from mindnlp_dp_plugin.recipes.words import NAMES, joined, named, remark

RESAMPLES = 100
MOST_RESAMPLED = 2000  # rows: of more, the deviation is that of so many, and reckoned down


class Task(ABC):
    """The contract of a task: reading, what counts, training, scores, and predictions.

    Its attributes are many, as a task states there whatever the rest of a recipe would else ask by its name.
    A file of a task imports neither MindSpore nor MindNLP when it is imported: the launcher uses it, too. Its part of
    the report is a template of the same name with ``.html``. What methods call ``kept`` are the facts that
    ``metrics.json`` keeps, with ``settings`` and ``data``.

    Attributes:
        name: The task's, and that of its recipe.
        options: Of its recipe: ``RecipeOptions``, or those with more.
        names: Its own scores and baselines, by the names under which ``metrics.json`` has them.
        distribution: What ``rows`` of its facts count, for the terminal and as a heading of the report.
        measures: Its scores by name, a table such as those of ``scores``: from what is true and predicted to a number.
        shown: Names of the scores that terminal and report show and compare with baselines.
        not_shares: Those that are no shares of a whole, and are not shown in percent.
        falling: Those that are better the lower they are.
        best_by: Names of the scores that may choose the epoch to keep; the first is the one that counts most.
        small_models: The models that can be trained from nothing, the default first.
        hub_models: Hugging Face's and ModelScope's name of a model to advise for texts in ``en`` and ``zh``.
        choose_model: From texts to the model to train if none is named, and why, as a remark.
        generates: Whether it writes texts; then the model before training is a baseline, too.
        auto_model: The class of MindNLP that loads its models.
        problem_type: What their configuration calls the task, which their own loss goes by; None: it does not.
        label_filling: What the labels of a batch are padded with, if a row has one for each token.
        lora_type: What ``peft`` calls such a task.
        takes_lists: Whether a cell of what is asked may hold a list.
        reads_conll: Whether texts are CoNLL.
        out_suffixes: Of files it writes predictions to.
    """

    name: str
    distribution: Message
    shown: tuple[str, ...]
    best_by: tuple[str, ...]
    options: type[RecipeOptions] = RecipeOptions
    names: dict[str, Message] = {}
    measures: dict[str, Callable] = {}
    not_shares: tuple[str, ...] = ()
    falling: tuple[str, ...] = ()
    small_models: tuple[str, ...] = ("small-roberta", "small-bert")
    hub_models: dict[str, tuple[str, str]] = {
        "en": ("roberta-base", "AI-ModelScope/roberta-base"),
        "zh": ("hfl/chinese-roberta-wwm-ext", "dienstag/chinese-roberta-wwm-ext"),
    }
    choose_model: Callable = staticmethod(choose_model)
    generates: bool = False
    auto_model: str = "AutoModelForSequenceClassification"
    problem_type: str | None = None
    label_filling: int | None = None
    lora_type: str = "SEQ_CLS"
    takes_lists: bool = False
    reads_conll: bool = False
    out_suffixes: tuple[str, ...] = (".csv", ".jsonl", ".parquet", ".xlsx")

    def __init_subclass__(cls):
        NAMES.update(cls.names)

    @property
    def main_score(self) -> str:
        """The score that counts most."""
        return self.best_by[0]

    def is_worse(self, name: str, score: float, other: float) -> bool:
        """Whether a score of that name is worse than another one."""
        return score > other if name in self.falling else score < other

    def fit_tokenizer(self, tokenizer: Any) -> None:
        """Give a tokenizer what this task needs and it may not have."""
        return

    @abstractmethod
    def labelled(self, options: RecipeOptions) -> LabelledTexts:
        """The data: ``splits`` (each with a column ``text``, perhaps ``text_pair``, and ``label``), and ``remarks``.

        Raises:
            DataParallelError: If they are no data for this task, or the options do not fit them.
        """

    def read(self, options: RecipeOptions) -> LabelledTexts:
        """The same with a dev split: a tenth of train, if there is none. With ``--folds`` all its rows are in train."""
        data = self.labelled(options)
        splits, remarks = dict(data.splits), list(data.remarks)
        if options.folds and "dev" in splits:
            remarks.append(remark("--folds: the {rows} rows of dev join train", rows=len(splits["dev"])))
            splits["train"] = datasets.concatenate_datasets([splits["train"], splits.pop("dev")])
        elif not options.folds and "dev" not in splits:
            train, strata = splits["train"], self.strata(splits["train"])
            splits["train"], splits["dev"], singles = split_off_dev(train, strata, options.seed)
            remarks.append(remark("no dev split: {rows} rows of train became dev", rows=len(splits["dev"])))
            if singles and data.label_names and strata == train["label"]:
                said = Message("classes with one text only stay in train, and cannot be scored: {labels}")
                remarks.append(remark(said, labels=first_of([data.label_names[number] for number in singles])))
        return data._replace(splits={name: splits[name] for name in SPLIT_WORDS if name in splits}, remarks=remarks)

    def strata(self, rows: Any) -> list[int]:
        """A number for each row; dev and folds are to have equally much of each."""
        return [0] * len(rows)

    @abstractmethod
    def facts(self, data: LabelledTexts, options: RecipeOptions) -> dict:
        """What ranks and report must know of the data, in a form JSON can hold.

        The ``rows`` of each split by what is counted, and what ``metrics.json`` keeps.
        """

    def folds(self, data: LabelledTexts, options: RecipeOptions) -> list[list[int]] | None:
        """The numbers of the rows in each fold; None without ``--folds``."""
        train = data.splits["train"]
        return fold_rows(train, self.strata(train), options.folds, options.seed) if options.folds else None

    def baselines(
        self, data: LabelledTexts, options: RecipeOptions, facts: dict, tokens: Callable[[str], Any] | None = None
    ) -> dict:
        """Scores of the baselines, for ``metrics.json``: on test, else on dev, of folds on all rows, fold by fold.

        Args:
            data: What ``read`` returned.
            options: The recipe's.
            facts: What ``facts`` found.
            tokens: Gives the columns that ``tokenise`` made of a split.
        """
        train = data.splits["train"]
        split = list(data.splits)[-1]
        scored = data.splits[split]
        if split == "train":  # of folds
            split, found = "dev", {}
            for held in self.folds(data, options):
                rest = train.select(sorted(set(range(len(train))) - set(held)))
                for name, predicted in self.predict_baselines(rest, train.select(held), data, options).items():
                    found.setdefault(name, {}).update(zip(held, predicted))
            found = {name: [of[row] for row in range(len(train))] for name, of in found.items()}
        else:
            found = self.predict_baselines(train, scored, data, options)
        labels = scored["label"]
        return {name: {**self.compare(rows, labels, facts), "split": split} for name, rows in found.items()}

    def predict_baselines(self, train: Any, scored: Any, data: LabelledTexts, options: RecipeOptions) -> dict:
        """By the name of each baseline, what it predicts for the rows ``scored`` when fitted on ``train``."""
        return {}

    def examples(self, tokens: list[list[int]], labels: list) -> tuple[list[list[int]], list[int]] | None:
        """Tokens, and one of a few classes for each list of them, for the first weights of a model from nothing.

        None, as here: these are random.

        Args:
            tokens: Of each row of train.
            labels: Of each row.
        """
        return None

    def tokenise(self, tokenizer: Any, rows: Any, max_length: int, facts: dict) -> tuple[dict[str, list], int]:
        """The columns a model is trained with, ``labels`` among them, and how many rows had to be cut.

        Args:
            tokenizer: The model's.
            rows: A split.
            max_length: In tokens.
            facts: What ``facts`` found.
        """
        texts = [rows[name] for name in text_columns(rows)]
        columns = dict(tokenizer(*texts, truncation=True, max_length=max_length))
        full = [row for row, found in enumerate(columns["input_ids"]) if len(found) >= max_length]
        again = [[column[row] for row in full] for column in texts]
        whole = tokenizer(*again, verbose=False)["input_ids"] if full else []
        return {**columns, "labels": rows["label"]}, sum(len(found) > max_length for found in whole)

    def load_model(self, name: str, kept: dict, **how: Any) -> Any:
        """The model to train: a folder's or the hub's, with a head for this task; one for another is begun anew."""
        from mindnlp import transformers

        return getattr(transformers, self.auto_model).from_pretrained(name, **self.head(kept), **how)

    def head(self, kept: dict) -> dict[str, Any]:
        """Keywords of ``from_pretrained`` for an output for each class."""
        names = kept["label_names"]
        return {
            "num_labels": len(names),
            "id2label": dict(enumerate(names)),
            "label2id": {name: number for number, name in enumerate(names)},
            "problem_type": self.problem_type,
            "ignore_mismatched_sizes": True,
        }

    def loss(self, facts: dict, options: RecipeOptions) -> Callable | None:
        """The loss from logits and labels, a mean over rows; None for the model's own."""
        return None

    def outputs(self, logits: Any, labels: Any) -> Any:
        """What evaluation keeps of a batch, for ``scores_of``."""
        return logits

    def choose(self, logits: Any, labels: Any, kept: dict) -> tuple[Any, Any]:
        """What is predicted for each row, and its labels, both as ``compare`` takes them."""
        return logits.argmax(axis=-1), labels

    def compare(self, predicted: Any, labels: Any, kept: dict) -> dict[str, float]:
        """The scores of what a model or a baseline predicted, those of ``shown`` among them."""
        return {name: float(score(labels, predicted)) for name, score in self.measures.items()}

    def scores_of(self, logits: Any, labels: Any, kept: dict) -> dict[str, float]:
        """The scores over all rows."""
        return self.compare(*self.choose(logits, labels, kept), kept)

    def standard_error(self, logits: Any, labels: Any, kept: dict) -> float:
        """How much the main score would vary with other rows of the same kind: its deviation over resampled rows."""
        chance, rows = np.random.default_rng(0), min(len(labels), MOST_RESAMPLED)
        draws = (chance.integers(len(labels), size=rows) for _ in range(RESAMPLES))
        found = [self.scores_of(logits[draw], labels[draw], kept)[self.main_score] for draw in draws]
        return float(np.std(found) * np.sqrt(rows / len(labels)))

    def score(self, logits: Any, labels: Any, texts: list[tuple], kept: dict) -> dict:
        """What ``metrics.json`` keeps about one split.

        Args:
            logits: What ``Trainer.predict`` or ``gather`` returned.
            labels: The same of labels.
            texts: What each row holds beside its label.
            kept: What is kept.
        """
        scores = {**self.scores_of(logits, labels, kept), "rows": len(logits)}
        return {**scores, **self.details(logits, labels, texts, kept)}

    def details(self, logits: Any, labels: Any, texts: list[tuple], kept: dict) -> dict:
        """What its part of the report shows beside the scores, and the worst ``mistakes``; arguments of ``score``."""
        return {}

    def always(self, scores: dict, kept: dict) -> str | None:
        """What the model predicts for every row of a split, if it is the same; empty if that is nothing."""
        counts = {each["label"]: each["predicted"] for each in scores.get("per_class", [])}
        if not counts or any(0 < count < scores["rows"] for count in counts.values()):
            return None
        return ", ".join(name for name, count in counts.items() if count)

    @abstractmethod
    def read_label(self, cell: Any, kept: dict) -> Any:
        """The label that a cell of a file holds, as data have it; None if it holds none that the model knows."""

    def as_row(self, text: Any, results: dict) -> tuple:
        """What is asked for, a text or the two of a pair, as a row.

        Raises:
            ValueError: If the model was not trained on such.
        """
        row, columns = (text,) if isinstance(text, str) else tuple(text), results["data"]["text_columns"]
        if len(row) != len(columns):
            message = Message("the model was trained on {columns}, and {row!r} does not hold as many texts")
            raise ValueError(tr(message, columns=", ".join(columns), row=row))
        return row

    def inputs(self, tokenizer: Any, rows: list[tuple], max_length: int, kept: dict) -> dict[str, list]:
        """The model's inputs for rows; what is called ``places`` is for ``answer`` only."""
        return dict(tokenizer(*map(list, zip(*rows)), truncation=True, max_length=max_length))

    def answer(self, model: Any, tokenizer: Any, inputs: list[dict], rows: list[tuple], kept: dict) -> list:
        """The model's answer to each row of a batch, for ``gather``.

        Args:
            model: The trained one.
            tokenizer: Its own.
            inputs: What ``inputs`` made of each row.
            rows: The same rows as ``as_row`` made them.
            kept: What is kept.
        """
        import mindspore
        from mindnlp.core import no_grad

        from mindnlp_dp_plugin.data import DynamicPadding

        fillings = {**dict.fromkeys(inputs[0].keys() - {"places"}, 0), "input_ids": tokenizer.pad_token_id}
        padding = DynamicPadding(fillings, LENGTH_STEP, kept["settings"]["max_length"])
        columns = ([np.array(row[name], np.int32) for row in inputs] for name in padding.columns)
        padded = dict(zip(padding.columns, map(mindspore.Tensor, padding(*columns, None))))
        with no_grad():
            return list(model(**padded).logits.asnumpy())

    def gather(self, rows: list, kept: dict) -> Any:
        """Answers or labels of all rows, as ``score`` and ``predictions`` take them; a list of rows of many tokens."""
        if self.label_filling is not None:
            return list(rows)
        return np.array(rows) if rows else np.zeros((0, len(kept.get("label_names", "1"))))

    @abstractmethod
    def predictions(self, logits: np.ndarray, kept: dict, all_probabilities: bool) -> dict[str, list]:
        """Columns of what is predicted for each row."""

    def in_short(self, row: dict, kept: dict) -> str:
        """What is predicted for a row, its columns of ``predictions`` and ``named_texts``, for the terminal."""
        chance = [f"{row['probability']:.3f}"] if "probability" in row else []
        return "  ".join([shown_label(row["label"]), *chance])

    def named_texts(self, texts: Sequence, kept: dict) -> dict:
        """The columns for a row's texts in a file of predictions."""
        return dict(zip(("text", "text_pair"), texts))

    def text_of(self, row: dict, kept: dict) -> str:
        """The texts of such a row, for the terminal."""
        return " | ".join(row[name] for name in ("text", "text_pair") if name in row)

    def in_words(self, scores: dict, digits: int = 3, positive: str | None = None) -> str:
        """Scores in a line, with the F1 of a class if it is named."""
        parts = [f"{named(name)} {decimal(scores[name], digits)}" for name in self.shown]
        of_class = tr("F1 of {label!r} {f1}", label=positive, f1=decimal(scores["f1"], digits)) if positive else ""
        return joined([*parts, *filter(None, [of_class])])

    def shown_score(self, name: str, value: float) -> str:
        """A score as people read it: shares in percent."""
        return decimal(value) if name in self.not_shares else f"{100 * value:.1f}%"


def get_task(name: str) -> Task:
    """The task of that name."""
    return import_module(RECIPES[name].module or f"{__name__}.{name.replace('-', '_')}").TASK
