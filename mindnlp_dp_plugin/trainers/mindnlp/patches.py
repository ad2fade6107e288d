"""The gaps between MindNLP 0.4.1's Trainer and the libraries beside it, as compat/mindnlp04/ has them for the rest."""

import functools
from pathlib import Path

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.compat.patch import patch
from mindnlp_dp_plugin.language import Message

MODULE = "mindnlp.engine.trainer.base"
TOKENS = Message("tokens of a micro-batch")


@patch(
    module=MODULE,
    bridges="include_inputs_for_metrics: evaluation calls Trainer._prepare_input, which is not there",
    obsolete_when="mindnlp.engine.Trainer defines _prepare_input",
)
def inputs_for_metrics(trainer_base):
    trainer_base.Trainer._prepare_input = lambda self, data: data


@patch(
    module=MODULE,
    bridges="resuming from an adapter: the Trainer looks for adapter_model.bin, mindnlp.peft writes adapter_model.ckpt",
    obsolete_when="mindnlp.engine.Trainer loads what PeftModel.save_pretrained wrote",
)
def adapters_in_checkpoints(trainer_base):
    from mindnlp.peft import PeftModel
    from mindnlp.peft.utils import WEIGHTS_NAME

    trainer = trainer_base.Trainer
    stock_load, stock_load_best = trainer._load_from_checkpoint, trainer._load_best_model

    def load_adapters(model, folder):
        """Whether there were any."""
        if not (isinstance(model, PeftModel) and any(Path(folder).rglob(WEIGHTS_NAME))):
            return False
        for name in model.peft_config:
            model.load_adapter(str(folder if name == "default" else Path(folder, name)), name, is_trainable=True)
        return True

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        if not load_adapters(self.model if model is None else model, resume_from_checkpoint):
            stock_load(self, resume_from_checkpoint, model)

    def _load_best_model(self):
        if not load_adapters(self.model, self.state.best_model_checkpoint):
            stock_load_best(self)

    trainer._load_from_checkpoint, trainer._load_best_model = _load_from_checkpoint, _load_best_model


@patch(
    module=MODULE,
    bridges="include_num_input_tokens_seen: the Trainer asks an accelerator, which it has not, to gather the tokens",
    obsolete_when="mindnlp.engine.Trainer counts tokens by itself",
)
def counted_tokens(trainer_base):
    trainer_base.Trainer.accelerator = _Counting()


@patch(
    module=MODULE,
    bridges="a second Trainer: the first stays in memory, with its optimizer's states, as a cache holds it",
    obsolete_when="mindnlp.engine.Trainer.get_train_dataset is no lru_cache",
)
def trainers_are_let_go(trainer_base):
    for name in ("get_train_dataset", "get_eval_dataset", "get_test_dataset"):
        cached = getattr(trainer_base.Trainer, name)
        setattr(trainer_base.Trainer, name, _cached_by_its_trainer(cached.__wrapped__))


def _cached_by_its_trainer(method):
    @functools.wraps(method)
    def get_dataset(self, *args, **kwargs):
        known = vars(self).setdefault("_data_sets", {})
        given = (self.train_dataset, self.eval_dataset, *args, *kwargs.values())  # a script may replace the first two
        asked = (method.__name__, *map(id, given))
        if asked not in known:
            known[asked] = method(self, *args, **kwargs), given  # which stay, so that no other gets their id
        return known[asked][0]

    return get_dataset


@patch(
    module=MODULE,
    bridges="include_tokens_per_second: the Trainer takes the columns of a batch for a pair, and fails",
    obsolete_when="mindnlp.engine.Trainer.num_tokens reads a data set with columns",
)
def tokens_per_second(trainer_base):
    def num_tokens(self, train_ds, max_steps=None):
        """Tokens of an epoch on all ranks, padding included; with ``max_steps``, of so many micro-batches."""
        sizes = (batch["input_ids"].size for batch in train_ds.create_dict_iterator())
        mine = next(sizes, 0) * max_steps if max_steps is not None else sum(sizes)
        return sum(collectives.current().all_gather_object(mine, TOKENS))

    trainer_base.Trainer.num_tokens = num_tokens


class _Counting:
    """What the Trainer asks of an accelerator: how many tokens a micro-batch has on all ranks."""

    def __init__(self):
        self._num_tokens = 0

    def gather(self, tokens):
        """All ranks must call it."""
        self._num_tokens = sum(collectives.current().all_gather_object(tokens.size, TOKENS))
        return self

    def numel(self):
        """Of what was gathered last."""
        return self._num_tokens


@patch(
    module=MODULE,
    bridges="load_best_model_at_end of a model that is no PreTrainedModel: _keys_to_ignore_on_save is missing when all "
    "training is done",
    obsolete_when="mindnlp.engine.Trainer._issue_warnings_after_load asks whether the model has it",
)
def models_without_ignored_keys(trainer_base):
    stock = trainer_base.Trainer._issue_warnings_after_load

    def _issue_warnings_after_load(self, load_result):
        if not hasattr(self.model, "_keys_to_ignore_on_save"):
            self.model._keys_to_ignore_on_save = None
        stock(self, load_result)

    trainer_base.Trainer._issue_warnings_after_load = _issue_warnings_after_load


@patch(
    module="mindnlp.engine.utils",
    bridges="neftune_noise_alpha: the noise comes from NumPy's global generator, which the Trainer seeds alike on all "
    "ranks, so that the n-th rows of all ranks get the same",
    obsolete_when="mindnlp.engine.utils.neftune_post_forward_hook draws by rank",
)
def noise_by_rank(utils):
    stock = utils.neftune_post_forward_hook

    @functools.wraps(stock)
    def neftune_post_forward_hook(module, input, output):
        from mindnlp_dp_plugin.step import rng  # which imports mindnlp.core, as patches must not

        with rng.numpy_of_micro_step():
            return stock(module, input, output)

    utils.neftune_post_forward_hook = neftune_post_forward_hook
