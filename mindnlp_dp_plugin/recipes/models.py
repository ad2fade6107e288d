"""The model of a recipe: looked over before it is loaded, with LoRA put on and taken off again."""

import json
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError

WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.ckpt")
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")


def check_model(name: str, max_length: int) -> None:
    """Make sure that a model folder can be loaded. What is no path is a name in the hub, and is not looked at.

    Args:
        name: Folder or name.
        max_length: The longest text in tokens it is to read.

    Raises:
        DataParallelError: Naming what the folder lacks.
    """
    folder = Path(name)
    if not folder.is_dir():
        if folder.exists() or folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
            raise DataParallelError(f"--model {name!r} is no folder: give a model folder, or a name in the hub.")
        return
    for wanted, patterns in {"config.json": ["config.json"], "weights": WEIGHTS, "a tokenizer": TOKENIZERS}.items():
        if not any(any(folder.glob(pattern)) for pattern in patterns):
            raise DataParallelError(
                f"model folder {name!r} has no {wanted.removeprefix('a ')} ({' or '.join(patterns)}): give a folder "
                "that save_pretrained made, of the model and of its tokenizer."
            )
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        positions = config.get("max_position_embeddings", max_length)
    except (ValueError, AttributeError):
        raise DataParallelError(f"model folder {name!r}: config.json is not JSON of a model: save it again.") from None
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert"):
        positions -= config.get("pad_token_id", 1) + 1  # where they begin to count
    if max_length > positions:
        raise DataParallelError(
            f"--max-length {max_length} is more than the {positions} positions of model {name!r}: give {positions} or "
            "less."
        )


def add_lora(model):
    """The model with low-rank adapters on its attention; only they and the classifier are trained (Hu et al., 2021).

    Args:
        model: A ``mindnlp`` model for sequence classification.
    """
    from mindnlp.peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(task_type="SEQ_CLS", r=8, lora_alpha=16, lora_dropout=0.1))


def merge_lora(model):
    """The plain model that ``add_lora`` was given, with what was trained worked into its weights.

    MindNLP 0.4's own ``merge_and_unload`` returns the model as it is.
    """
    from mindnlp.peft.tuners.lora import LoraLayer
    from mindnlp.peft.utils import ModulesToSaveWrapper

    plain = model.get_base_model()
    for name, module in list(plain.named_modules()):
        if isinstance(module, LoraLayer):
            trained = module.get_base_layer()
            for adapter in module.active_adapters:
                trained.weight.assign_value(trained.weight + module.get_delta_weight(adapter))
        elif isinstance(module, ModulesToSaveWrapper):
            trained = module.modules_to_save[module.active_adapter]
        else:
            continue
        parent, _, own_name = name.rpartition(".")
        setattr(plain.get_submodule(parent), own_name, trained)
    return plain
