"""What may be set about text classification: one list for the command line, the examples and the ranks."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import click


def _option(default, help, **click_settings):
    return field(default=default, metadata={"help": help, **click_settings})


@dataclass(frozen=True)
class ClassificationOptions:
    """How to train a classifier of texts. Each field is an option of that name on the command line."""

    dataset: str | None = _option(
        None,
        "File (csv, tsv, json, jsonl, parquet, xlsx, txt), folder, or name in the hub.",
    )
    text_column: tuple[str, ...] = _option(
        (), "Column with the text; give it twice for pairs of texts. Otherwise found.", multiple=True
    )
    label_column: str | None = _option(None, "Column with the class. Otherwise found.")
    encoding: str | None = _option(None, "Of the files, such as gb18030. Otherwise found.")
    model: str | None = _option(None, "Model folder, or name in the hub. Otherwise a small one, trained from nothing.")
    small_model: str = _option(
        "roberta", "Which small model, where there is no --model.", type=click.Choice(["roberta", "bert"])
    )
    epochs: float = _option(3.0, "Passes over the training rows.", type=click.FloatRange(min=0, min_open=True))
    batch_size: int = _option(16, "Rows per rank and step.", type=click.IntRange(min=1))
    learning_rate: float | None = _option(
        None,
        "At the start; falls linearly to 0. Otherwise 2e-5, with LoRA 5e-4, for a small model 1e-3.",
        type=click.FloatRange(min=0, min_open=True),
    )
    max_length: int = _option(128, "Tokens a text is cut to.", type=click.IntRange(min=8))
    group_by_length: bool = _option(False, "Batches of texts of like length: less padding, more speed.", is_flag=True)
    lora: bool = _option(False, "Train low-rank adapters and the classifier only.", is_flag=True)
    resume: bool = _option(False, "Go on from the last checkpoint in the output folder.", is_flag=True)
    output_dir: Path = _option(Path("classification_output"), "Where the run is left.", type=click.Path(path_type=Path))
    seed: int = _option(42, "Of splits, order, new weights and dropout.", type=click.IntRange(min=0))

    @property
    def chosen_learning_rate(self) -> float:
        """The learning rate, chosen by what is trained unless the user did."""
        if self.learning_rate is not None:
            return self.learning_rate
        return 1e-3 if self.model is None else 5e-4 if self.lora else 2e-5


def parameters(defaults: ClassificationOptions) -> list[click.Option]:
    """The options for a command, ``defaults`` being what is taken where one is not given."""
    return [_parameter(each, getattr(defaults, each.name)) for each in fields(defaults)]


def parse(description: str, defaults: ClassificationOptions) -> ClassificationOptions:
    """The options from this script's command line.

    Args:
        description: What ``--help`` says first.
        defaults: Taken where an option is not given.
    """
    command = click.Command(
        None, params=parameters(defaults), callback=lambda **values: replace(defaults, **values), help=description
    )
    return _run(command)


def to_arguments(options: ClassificationOptions) -> list[str]:
    """The command line that ``parse`` reads as ``options``, whatever its defaults."""
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


def _run(command):
    try:
        options = command.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    if not isinstance(options, ClassificationOptions):  # --help was shown
        raise SystemExit(0)
    return options


def _parameter(each, default):
    settings = dict(each.metadata)
    shown = default not in (None, ()) and not settings.get("is_flag")
    return click.Option([_flag(each.name)], default=default, show_default=shown, **settings)


def _flag(name):
    return "--" + name.replace("_", "-")
