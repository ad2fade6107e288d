"""What a script does behind a training with ``zero_stage=3``, beside the same with ``zero_stage=2``.

    python after_training.py OUTPUT

Every case runs twice, and leaves in ``OUTPUT/rank<r>.json`` what each stage has made of it. The script ends with a
parameter that it has read in silence.
"""

import copy
import hashlib
import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import ops
from mindnlp.engine import Trainer
from mindnlp.peft import LoraConfig, TaskType, get_peft_model
from mindspore.dataset import GeneratorDataset

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.ddp import host_memory
from mindnlp_dp_plugin.ddp.replicas import digest
from mindnlp_dp_plugin.fully_sharded import is_shared_out
from mindnlp_dp_plugin.optim import cut_buckets
from tests.programs.scenarios import RUN
from tests.programs.shared_llama import llama, sentences
from tests.programs.tiny import tiny_model, tiny_rows, tiny_trainer

OUTPUT = Path(sys.argv[1])
cut_buckets.BLOCK_BYTES = 1000  # so that parameters travel in many blocks
host_memory.RUN = RUN
STAGES = (2, 3)
OUTCOMES = {}


def is_the_same_in_both_stages(function):
    """Note what ``function`` returns for each stage."""
    OUTCOMES[function.__name__] = [function(stage) for stage in STAGES]


def trainer_with(stage, model=None, dataset=None, folder="trainer", **arguments):
    dp.install(dp.DataParallelConfig(zero_stage=stage))
    trainer = tiny_trainer(OUTPUT / folder, model or tiny_model(), dataset or tiny_rows(48).batch(4), **arguments)
    trainer.eval_dataset = tiny_rows(11).batch(4)
    return trainer


def trained(stage, *args, **arguments):
    trainer = trainer_with(stage, *args, **arguments)
    trainer.train()
    assert any(map(is_shared_out, trainer.model.parameters())) == (stage == 3)
    return trainer


def digests(model):
    with dp.gathered_parameters(model):
        return [digest(parameter) for parameter in model.parameters()]


def files(folder):
    """The bytes of weights and configs that rank 0 has written."""
    current().barrier()
    names = [path for path in sorted(folder.rglob("*")) if path.suffix in (".safetensors", ".ckpt", ".json")]
    assert names
    return [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in names]


def saved(trainer, name):
    folder = OUTPUT / f"{name}_{trainer.data_parallel_config.zero_stage}"
    trainer.save_model(str(folder))
    return files(folder)


@is_the_same_in_both_stages
def evaluated_and_predicted(stage):
    trainer = trained(stage)
    predictions = trainer.predict(tiny_rows(7).batch(4)).predictions
    return [trainer.evaluate()["eval_loss"], predictions.tolist(), *digests(trainer.model)]


@is_the_same_in_both_stages
def written(stage):
    return saved(trained(stage), "written")


def saved_values(trainer):
    """Of a file that holds more than numbers."""
    folder = OUTPUT / f"pickled_{trainer.data_parallel_config.zero_stage}"
    trainer.save_model(str(folder))
    current().barrier()
    again = type(trainer.model).from_pretrained(str(folder))
    return digests(again)


@is_the_same_in_both_stages
def written_without_safetensors(stage):
    trainer = trained(stage, save_safetensors=False)
    return [trainer.evaluate()["eval_loss"], *saved_values(trainer), *digests(trainer.model)]


@is_the_same_in_both_stages
def trained_again_from_a_checkpoint(stage):
    trainer = trained(stage, folder=f"again_{stage}", save_strategy="steps", save_steps=2)
    before = digests(trainer.model)
    trainer.train(resume_from_checkpoint=str(OUTPUT / f"again_{stage}" / "checkpoint-2"))
    assert digests(trainer.model) == before
    trainer.args.max_steps = 6
    trainer.train(resume_from_checkpoint=str(OUTPUT / f"again_{stage}" / "checkpoint-4"))
    return digests(trainer.model)


@is_the_same_in_both_stages
def trained_on_by_another_trainer(stage):
    model = trained(stage).model
    for parameter in model.bert.embeddings.parameters():
        parameter.requires_grad = False
    return digests(trained(stage, model, optim="sgd", recompute=True).model)


@is_the_same_in_both_stages
def trained_on_without_the_stage(stage):
    model = trained(stage).model
    model = trainer_with(0, model).model
    trainer = trainer_with(0, model)
    trainer.train()
    assert not any(map(is_shared_out, model.parameters()))
    return [digest(parameter) for parameter in model.parameters()]


@is_the_same_in_both_stages
def adapted(stage):
    lora = LoraConfig(task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8, lora_dropout=0.0)
    trainer = trained(
        stage,
        get_peft_model(tiny_model(), lora),
        folder=f"adapted_{stage}",
        evaluation_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        learning_rate=0.3,
        load_best_model_at_end=True,
    )
    return [saved(trainer, "adapters"), trainer.evaluate()["eval_loss"], *digests(trainer.model)]


def values(model):
    with dp.gathered_parameters(model):
        return {name: parameter.asnumpy().copy() for name, parameter in model.named_parameters()}


@is_the_same_in_both_stages
def copied(stage):
    model = trained(stage).model
    with dp.gathered_parameters(model):
        other = copy.deepcopy(model)
    assert not any(map(is_shared_out, other.parameters()))
    assert all(np.array_equal(other.state_dict()[name].asnumpy(), each) for name, each in values(model).items())
    return [*digests(trained(stage, other).model), *digests(model)]


@is_the_same_in_both_stages
def adapted_later(stage):
    """Adapters are put into a model that is shared out."""
    model = trained(stage).model
    with dp.gathered_parameters(model):
        adapted = get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8, lora_dropout=0.0))
    return digests(trained(stage, adapted).model)


@is_the_same_in_both_stages
def weights_that_were_half(stage):
    model = trainer_with(stage, tiny_model().half(), fp16=True)
    model.train()
    dtypes = {str(parameter.dtype) for parameter in model.model.parameters()}
    return [*dtypes, *digests(model.model)]


@is_the_same_in_both_stages
def evaluated_in_half_precision(stage):
    trainer = trained(stage, fp16_full_eval=True)
    return [trainer.evaluate()["eval_loss"], *digests(trainer.model)]


class OwnSave(Trainer):
    """Writes what it likes."""

    def _save(self, output_dir=None, state_dict=None):
        Path(output_dir).mkdir(parents=True)
        norms = {name: float(np.linalg.norm(each.asnumpy())) for name, each in self.model.state_dict().items()}
        Path(output_dir, "norms.json").write_text(json.dumps(norms))


@is_the_same_in_both_stages
def written_by_the_script(stage):
    return saved(trained(stage, trainer_type=OwnSave), "own")


@is_the_same_in_both_stages
def a_sentence(stage):
    rows = GeneratorDataset(list(sentences([6, 3, 5, 2] * 2)), ["input_ids", "labels"], shuffle=False).batch(2)
    model = trained(stage, llama(), rows, max_steps=2).model
    model.eval()
    words = model.generate(mindspore.Tensor([[1, 7, 9]]), max_new_tokens=4, do_sample=False)
    assert model.config.use_cache
    return words.asnumpy().ravel().tolist()


def refusal_of(function, *args):
    try:
        function(*args)
    except dp.DataParallelError as error:
        return str(error)
    return "none"


def in_silence(model):
    """Reads a part of a matrix, of which nobody is told at once."""
    return ops.matmul(ops.ones(2, 3), model.classifier.weight[:, :3].T[:3]).sum()


def differently(model):
    model.bert.encoder.layer[dp.get_rank() % 2](ops.ones(1, 3, 32))


shared = trained(3)
READINGS = {
    "asnumpy": lambda: shared.model.classifier.weight.asnumpy(),
    "deepcopy": lambda: copy.deepcopy(shared.model),
    "state_dict": lambda: shared.model.state_dict(),
    "save_pretrained": lambda: shared.model.save_pretrained(str(OUTPUT / "never")),
    "in_silence": lambda: (in_silence(shared.model), shared.evaluate()),
    "then_saved": lambda: (in_silence(shared.model), shared.save_model(str(OUTPUT / "never"))),
    "differently": lambda: differently(shared.model),
}
OUTCOMES["readings"] = {name: refusal_of(read) for name, read in READINGS.items()}
OUTCOMES["never"] = (OUTPUT / "never").exists()
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(OUTCOMES))
in_silence(shared.model)
