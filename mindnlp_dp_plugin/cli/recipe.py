"""``mindnlp-dp recipe``: a ready training on N ranks."""

from dataclasses import replace
from pathlib import Path

import click

from mindnlp_dp_plugin.cli import launching
from mindnlp_dp_plugin.command_line import Group
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.launch.job import Job, require_single_node
from mindnlp_dp_plugin.launch.launcher import launch
from mindnlp_dp_plugin.launch.ports import free_port
from mindnlp_dp_plugin.recipes.checks import check
from mindnlp_dp_plugin.recipes.options import RecipeOptions, config_option, parameters, to_arguments

MODULE = "mindnlp_dp_plugin.recipes"


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def recipe(context):
    """A ready training: from texts with labels to a model and a report."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def add_recipe(
    name: str,
    summary: str,
    defaults: RecipeOptions,
    generates_data: bool = True,
    task: str = "classification",
) -> None:
    """Makes ``mindnlp-dp recipe <name>``."""

    @recipe.command(name, help=summary)
    @launching.nproc(required=True)
    @launching.backend
    @launching.log_dir
    def run(nproc, backend, log_dir, **values):
        require_single_node("mindnlp-dp recipe")
        options = replace(defaults, **values)
        if options.dataset is None and not generates_data:
            raise click.UsageError(tr("Missing option '--dataset'."))
        DataParallelConfig.from_env()
        engine = backends.choose(backend, num_nodes=1)
        check(options, nproc, task)
        command = ["-m", MODULE, "train", task, *to_arguments(options)]
        return launch(Job(command, nproc, engine, log_dir, master_port=free_port()))

    run.params += [config_option(), *parameters(defaults, task)]


def _left_in(folder, **others):
    return RecipeOptions(output_dir=Path(folder), **others)


add_recipe(
    "roberta-imdb",
    "RoBERTa on film reviews; generated ones and a small model, unless --dataset and --model are given.",
    _left_in("roberta_imdb_output", model="small-roberta"),
)
add_recipe("bert-imdb", "The same with BERT.", _left_in("bert_imdb_output", model="small-bert"))
add_recipe(
    "classification",
    "Texts, or pairs of texts, with labels of your own; two classes or many.",
    _left_in("classification_output"),
    generates_data=False,
)
add_recipe(
    "multi-label",
    "Texts, or pairs of texts, with any number of labels each: topics, emotions.",
    _left_in("multi_label_output"),
    generates_data=False,
    task="multi-label",
)
add_recipe(
    "token-classification",
    "A tag for each word: names of persons, places and other entities, from CoNLL files or jsonl.",
    _left_in("token_classification_output"),
    generates_data=False,
    task="token-classification",
)
add_recipe(
    "causal-lm",
    "Conversations in jsonl: a language model such as GPT-2 or Qwen2 learns the assistant's answers.",
    _left_in("causal_lm_output"),
    generates_data=False,
    task="causal-lm",
)
add_recipe(
    "regression",
    "Texts, or pairs of texts, with a number for each: a rating, a similarity.",
    _left_in("regression_output"),
    generates_data=False,
    task="regression",
)
