"""The options of recipes: one list for the command line, run.yaml and the ranks."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import click
import yaml

from mindnlp_dp_plugin.command_line import Option
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.small_models import SAVERS

MINILM = "minilm"
MODEL_NAMES = (MINILM, *SAVERS)
SCHEDULERS = ("linear", "cosine", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt")
TRACKERS = ("tensorboard", "wandb", "swanlab", "none")
ABOVE_0 = click.FloatRange(min=0, min_open=True)
METAVARS = {click.IntRange: "N", click.FloatRange: "X"}
LABELLED = ("classification", "multi-label", "token-classification", "regression")


def option(default, help, of: tuple[str, ...] = (), **click_settings):
    """A field of ``RecipeOptions`` with the help and the type that click shows; ``of`` some tasks, or of all.

    One that is False unless given is a flag; one that is () may be given several times.
    """
    return field(default=default, metadata={"of": of, "click": {"help": help, **click_settings}})


def whole(default, least, help, **others):
    """The same of a whole number."""
    return option(default, help, type=click.IntRange(min=least), **others)


@dataclass(frozen=True)
class RecipeOptions:
    """How to train. Each field is an option of that name on the command line; a task of one's own may add to them.

    There are as many as the command has: one list for command line, run.yaml and ranks, so that none can differ.
    """

    dataset: str | None = option(None, "File (csv, tsv, json, jsonl, parquet, xlsx, txt), folder, or hub name.")
    text_column: tuple[str, ...] = option((), "Text column; twice for pairs. Default: by name.")
    label_column: str | None = option(None, "Label column. Default: by name.", of=LABELLED)
    label_name: tuple[str, ...] = option((), "Name for a class, such as 1=good; once for each.", of=("classification",))
    label_separator: str | None = option(None, "Between the classes of a cell. Default: ;", of=("multi-label",))
    encoding: str | None = option(None, "Of the files, such as gb18030. Default: detected.")
    dev_file: str | None = option(None, "Dev split. Default: in --dataset, else a tenth of it.")
    test_file: str | None = option(None, "Test split. Default: in --dataset, if there is one.")
    positive_label: str | None = option(
        None, "The class whose F1 is shown. Default: the rarer.", of=("classification",)
    )
    threshold: float | None = option(
        None,
        "Probability from which a class is chosen. Default: 0.5.",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        of=("multi-label",),
    )
    model: str | None = option(
        None,
        "Folder, hub name, minilm, or from nothing small-roberta, small-bert; of causal-lm small-gpt2, small-qwen2. "
        "Default: minilm for Latin letters if installed, else from nothing.",
    )
    mirror: str | None = option(None, "hf-mirror, modelscope, another of MindNLP's, or a URL. Default: HF_ENDPOINT.")
    epochs: float | None = option(
        None, "Passes over the rows. Default: 200 steps, 3 to 10; from nothing 1000, 3 to 30.", type=ABOVE_0
    )
    batch_size: int = whole(16, 1, "Rows per rank and batch.")
    accumulation: int = whole(1, 1, "Batches per optimizer step.")
    learning_rate: float | None = option(
        None, "Default: 2e-5; minilm 5e-5, LoRA 5e-4, small models 1e-3.", type=ABOVE_0
    )
    scheduler: str = option("linear", "Learning rate schedule.", type=click.Choice(SCHEDULERS), metavar="NAME")
    warmup_ratio: float = option(0.1, "Share of the steps for warm-up.", type=click.FloatRange(0, 1))
    weight_decay: float = option(0.01, "Weight decay of AdamW.", type=click.FloatRange(min=0))
    class_weights: str = option(
        "none",
        "balanced: rows of rare classes count more.",
        type=click.Choice(["none", "balanced"]),
        of=("classification", "multi-label"),
    )
    best_by: str | None = option(None, "Dev score that chooses the epoch. Default: the task's first.", metavar="SCORE")
    patience: int | None = whole(None, 1, "Epochs without a better --best-by to stop.")
    folds: int | None = whole(None, 2, "Cross-validate with so many folds.", of=LABELLED)
    max_length: int = whole(128, 8, "Longest text in tokens; the rest is cut off.")
    packing: bool = option(False, "Several conversations in a row of --max-length: faster.", of=("causal-lm",))
    group_by_length: bool = option(False, "Batch texts of similar length: faster.")
    fp16: bool = option(False, "float16 where it is safe; slower on a CPU.")
    lora: bool = option(False, "Train low-rank adapters and the head only.")
    lora_r: int = whole(8, 1, "Rank of the adapters.")
    lora_alpha: float = option(16.0, "They are scaled by lora_alpha / lora_r.", type=ABOVE_0)
    report_to: tuple[str, ...] = option(
        (), "Where curves go; several times. Default: tensorboard.", type=click.Choice(TRACKERS)
    )
    resume: bool = option(False, "Go on from the last checkpoint in --output-dir.")
    output_dir: Path = option(Path("classification_output"), "For the results.", type=click.Path(path_type=Path))
    seed: int = whole(42, 0, "Of splits, order, new weights and dropout.")

    @property
    def trackers(self) -> tuple[str, ...]:
        """Where curves go."""
        return tuple(dict.fromkeys(name for name in self.report_to or ("tensorboard",) if name != "none"))

    @property
    def is_from_nothing(self) -> bool:
        """Whether the model is one that has learnt nothing before."""
        return self.model in SAVERS

    @property
    def chosen_learning_rate(self) -> float:
        """The learning rate; unless the user set it, by the kind of model."""
        if self.learning_rate is not None:
            return self.learning_rate
        if self.is_from_nothing:
            return 1e-3
        return 5e-4 if self.lora else 5e-5 if self.model == MINILM else 2e-5

    def chosen_epochs(self, num_rows: int, in_a_step: int) -> float:
        """The number of epochs; unless the user set it, by the kind of model and the number of rows.

        Args:
            num_rows: Rows to train on.
            in_a_step: Of how many batches, of all ranks, a step is.
        """
        if self.epochs is not None:
            return self.epochs
        steps = max(1, num_rows // (in_a_step * self.batch_size))
        fewest_steps, most_epochs = (1000, 30) if self.is_from_nothing else (200, 10)
        return float(min(most_epochs, max(3, -(-fewest_steps // steps))))

    @property
    def settings(self) -> dict:
        """All options in a form JSON and YAML can hold."""
        return json.loads(self.to_json())

    def to_json(self) -> str:
        """What ``from_json`` makes these options of, for the ranks."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "RecipeOptions":
        """The options that ``to_json`` wrote."""
        found = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()}
        return cls(**{**found, "output_dir": Path(found["output_dir"])})

    def to_yaml(self, task: str, **others) -> str:
        """The text that ``--config`` reads as these options, from any folder; without ``resume``.

        Args:
            task: Whose options are written.
            others: The command's other options, such as ``nproc``.
        """
        own = [each.name for each in fields_of(self, task) if each.name != "resume"]
        kept = {name: self.settings[name] for name in own if self.settings[name] not in (None, [])}
        for name in {"dataset", "dev_file", "test_file", "model", "output_dir"} & set(kept):
            kept[name] = in_full(kept[name])
        return yaml.safe_dump({**others, **kept}, allow_unicode=True, sort_keys=False)


def fields_of(options: RecipeOptions, task: str) -> list:
    """The fields that are options of a task."""
    return [each for each in fields(options) if task in (each.metadata["of"] or [task])]


def parameters(defaults: RecipeOptions, task: str) -> list[click.Option]:
    """The options of a task's command, ``--config`` the first; ``defaults`` are their values where not given."""
    config = Option(
        ["--config"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_take_defaults_from,
        help="run.yaml of an earlier run; options here come first.",
    )
    return [config, *(_parameter(each, getattr(defaults, each.name)) for each in fields_of(defaults, task))]


def in_full(name: str | None) -> str | None:
    """The whole path of a file or folder; what is none, such as a name in the hub, as it is."""
    return str(Path(name).resolve()) if name not in (None, *MODEL_NAMES) and Path(name).exists() else name


def _take_defaults_from(context, parameter, path):
    if path is None:
        return
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataParallelError("--config {path!r} is not YAML: {error}.", path=str(path), error=error) from None
    known = sorted(each.name for each in context.command.params)
    if not isinstance(found, dict):
        raise DataParallelError(
            "--config {path!r} holds no settings: they are {known}.", path=str(path), known=", ".join(known)
        )
    if unknown := [str(name) for name in found if name not in known]:
        raise DataParallelError(
            "--config {path!r} holds other things than settings ({unknown}): they are {known}.",
            path=str(path),
            unknown=", ".join(unknown),
            known=", ".join(known),
        )
    context.default_map = {**(context.default_map or {}), **found}


def _parameter(each, default):
    given, is_flag = each.metadata["click"], each.default is False
    how = {"metavar": METAVARS.get(type(given.get("type"))), **given} if not is_flag else given
    how = {"is_flag": is_flag, "multiple": each.default == (), "show_default": default not in (None, (), False), **how}
    return Option(["--" + each.name.replace("_", "-")], default=default, **how)
