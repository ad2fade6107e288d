"""Which models MindNLP has: each folder of ``mindnlp.transformers.models`` is a family, with the heads it has."""

import importlib
import inspect
import pkgutil
import re

from mindnlp.transformers import PreTrainedModel, models

CLASS_NAMES = {  # how the name of a head's model ends; where a family has several such models, the first ending wins
    "sequence_classification": ("(?<!Audio)ForSequenceClassification",),
    "regression": ("(?<!Audio)ForSequenceClassification",),
    "multi_label": ("(?<!Audio)ForSequenceClassification",),
    "token_classification": ("ForTokenClassification",),
    "question_answering": ("ForQuestionAnsweringSimple", "ForQuestionAnswering"),
    "masked_lm": ("ForMaskedLM", "XLMWithLMHeadModel", "FlaubertWithLMHeadModel"),
    "causal_lm": (
        "ForCausalLM",
        "LMHeadModel",
        "ModelWithLMHead",
        "BertGenerationDecoder",
        "ChatGLM.?ForConditionalGeneration",
    ),
    "seq2seq_lm": (r"(?<!GLM)(?<!GLM\d)ForConditionalGeneration", "MarianMTModel"),
    "multiple_choice": ("ForMultipleChoice",),
}
NOT_OF_TEXT = ("graph", "convert", "tokenization", "processing", "configuration", "extraction")


def folders():
    """Names of all folders of models."""
    return sorted(module.name for module in pkgutil.iter_modules(models.__path__) if module.ispkg)


def model_classes(folder):
    """The models that a folder defines, by name; none if it needs a package that MindNLP does not require."""
    try:
        package = importlib.import_module(f"{models.__name__}.{folder}")
    except ModuleNotFoundError:
        return {}
    found = {}
    for file in pkgutil.iter_modules(package.__path__):
        if any(word in file.name for word in NOT_OF_TEXT):
            continue
        module = importlib.import_module(f"{package.__name__}.{file.name}")
        for name, member in vars(module).items():
            if inspect.isclass(member) and issubclass(member, PreTrainedModel) and member.__module__ == module.__name__:
                found[name] = member
    return found


def cases(folder):
    """The heads that a folder's models have: a dict of the head to the model's class."""
    classes = model_classes(folder)
    found = {}
    for head, endings in CLASS_NAMES.items():
        fitting = (c for ending in endings for name, c in classes.items() if re.search(ending + "$", name))
        if (model := next(fitting, None)) is not None:
            found[head] = model
    return found
