"""MindNLP runs on this MindSpore: each gap is bridged, whatever is imported first, and alone nothing else changes."""

import sys
from importlib.metadata import version

import numpy as np
import pytest
from packaging.version import Version

from mindnlp_dp_plugin import DataParallelError, compat
from tests.families.outcomes import journal
from tests.harness import PROGRAMS, run, run_ranks_successfully

MINDSPORE = Version(version("mindspore"))

ORDERS = {
    "MindSpore first": "import mindspore.dataset, datasets, mindnlp_dp_plugin; from mindnlp import dataset, engine",
    "a name of the plugin": "from mindnlp_dp_plugin import get_rank; from mindnlp import engine",
}


def python(code, **options):
    return run([sys.executable, "-c", code], **options)


@pytest.mark.parametrize("order", ORDERS)
def test_mindnlp_imports_in_any_order(order):
    finished = python(ORDERS[order])
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("patch", compat.PATCHES, ids=lambda patch: patch.name)
def test_each_patch_says_what_it_is_for_and_when_it_can_go(patch):
    assert patch.bridges and patch.obsolete_when


def without(name, code):
    """Run code with every bridge but one."""
    return python(
        "import os; os.environ['MINDNLP_DP_DEFERRED'] = '1'; os.environ['GLOG_v'] = '2'  # warnings\n"
        "from mindnlp_dp_plugin import compat\n"
        f"for patch in compat.PATCHES:\n    if patch.name != {name!r}: patch.schedule()\n"
        f"import mindspore, mindnlp\n{code}"
    )


ADAPTER = """
import tempfile
from mindnlp.peft import LoraConfig, PeftModel, TaskType, get_peft_model
from tests.programs.tiny import tiny_model, tiny_trainer
model = get_peft_model(tiny_model(), LoraConfig(task_type=TaskType.SEQ_CLS))
"""


CHUNKS = """
import numpy as np
rows = mindspore.Tensor(np.arange(32, dtype=np.float32).reshape(8, 2, 2)).swapaxes(0, 1)
def rows_of(attention, rows):
    chunks = attention._chunk(rows, 2).asnumpy()
    assert (chunks[:, 1] == rows.asnumpy()[:, 2:6]).all(), 'other rows'
"""


def trains(case):
    """Code that checks the initial weights of a family's model, trains it, saves and loads it."""
    return (
        "import pathlib, tempfile\nfrom tests.programs.train_families import run\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        f"    outcome = run({case!r}, pathlib.Path(folder), 2, 'all')\n"
        "assert outcome['stage'] == 'done', outcome['traceback']"
    )


GRADIENT = """
from mindnlp.core import nn, ops
from mindnlp.core.autograd import value_and_grad
def is_trained(parameters, loss):
    parameters = tuple(parameters)
    value_and_grad(loss, parameters)()
    return all(abs(parameter.grad).sum() > 0 for parameter in parameters)
"""
OF_A_LAYER = (
    "x = ops.randn(4, 3); assert is_trained(layer.parameters(), lambda: (layer(x) ** 3).sum()), 'gradients of 0'"
)


MEAN = """
labels = mindspore.Tensor([1, 0, 1, 0, 1])
for n in 3, 5:
    loss = lambda x: functional.binary_cross_entropy_with_logits(x * 1.0, labels[:n].astype(mindspore.float32))
    found = mindspore.grad(loss)(mindspore.ops.zeros(n)).asnumpy()
assert abs(found[0] + 0.1) < 1e-6, 'of another mean'
"""

USES = {
    "mean_of_binary_cross_entropy": (f"from mindnlp.core.nn import functional{MEAN}", "of another mean"),
    "gradients_of_views": (
        f"{GRADIENT}\nwhole = ops.ones(6)\n"
        "slice, view = nn.Parameter(whole[:3]), nn.Parameter(ops.ones(2, 3).view(3, 2))\n"
        "frozen, other = nn.Parameter(ops.ones(3), requires_grad=False), nn.Parameter(ops.ones(3))\n"
        "value_and_grad(lambda: (other * frozen).sum(), (other,))(); frozen.requires_grad = True\n"
        "assert slice.data_ptr() == whole.data_ptr()\n"
        "for each in slice, view, frozen: assert is_trained([each], lambda: (each * each).sum()), 'gradients of 0'",
        "gradients of 0",
    ),
    "gradients_through_weight_norm": (
        f"{GRADIENT}\nlayer = nn.utils.weight_norm(nn.Linear(3, 3))\n{OF_A_LAYER}\n"
        "assert {name for name, _ in layer.named_parameters()} == {'bias', 'weight_g', 'weight_v'}\n"
        f"nn.utils.remove_weight_norm(layer)\n{OF_A_LAYER}",
        "gradients of 0",
    ),
    "gradients_through_parametrizations": (
        f"{GRADIENT}\nfrom mindnlp.core.nn.utils import parametrizations, parametrize\n"
        f"layer = parametrizations.weight_norm(nn.Linear(3, 3))\n{OF_A_LAYER}\n"
        f"parametrize.remove_parametrizations(layer, 'weight')\n{OF_A_LAYER}",
        "gradients of 0",
    ),
    "loaded_values_are_copies": (
        "from mindnlp.core import nn, ops\n"
        "student, teacher = (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)) for _ in range(2))\n"
        "student.load_state_dict(teacher.state_dict())\n"
        "assert (student[0].weight == teacher[0].weight).all()\n"
        "ops.assign(student[0].weight, ops.zeros(3, 3)); ops.assign(student[1].running_var, ops.zeros(3))\n"
        "kept = teacher[0].weight, teacher[1].running_var\n"
        "assert all(values.asnumpy().all() for values in kept), 'the teacher trains along'",
        "the teacher trains along",
    ),
    "kinds_of_numbers": (
        "from mindnlp.core import nn, ops\nfrom mindnlp.peft import LoraConfig, TaskType, get_peft_model\n"
        "from tests.programs.tiny import tiny_model\n"
        "model = get_peft_model(tiny_model().to(mindspore.bfloat16), LoraConfig(task_type=TaskType.SEQ_CLS))\n"
        "trained = [parameter for parameter in model.parameters() if parameter.requires_grad]\n"
        "assert len(trained) == 10 and all(parameter.dtype == mindspore.bfloat16 for parameter in trained)",
        "is_complex",
    ),
    "division_of_whole_numbers": (
        "from mindnlp.core import ops\n"
        "of = mindspore.Tensor([5, -7], mindspore.int32)\n"
        "for by in 2, mindspore.Tensor([2, 2], mindspore.int64):\n"
        "    assert ops.div(of, by, rounding_mode='floor').asnumpy().tolist() == [2, -4]\n"
        "assert ops.div(of, 2).asnumpy().tolist() == [2.5, -3.5]",
        "FloorDiv",
    ),
    "cache_apart_from_the_data": (
        "import json, pathlib, tempfile\nfrom mindnlp.dataset import load, load_dataset\n"
        "with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as load.DEFAULT_ROOT:\n"
        "    data = pathlib.Path(folder, 'data.jsonl'); data.write_text(json.dumps({'text': 'a'}) + '\\n')\n"
        "    for _ in range(2): load_dataset(folder, split='train')\n"
        "    assert list(pathlib.Path(folder).iterdir()) == [data], 'a cache beside the data'",
        "a cache beside the data",
    ),
    "counted_tokens": (
        "import tempfile\nfrom tests.programs.tiny import tiny_trainer\nwith tempfile.TemporaryDirectory() as folder:\n"
        "    trainer = tiny_trainer(folder, include_num_input_tokens_seen=True); trainer.train()\n"
        "    assert trainer.state.num_input_tokens_seen == 4 * 8 * 12",
        "accelerator",
    ),
    "trainers_are_let_go": (
        "import gc, tempfile, weakref\nfrom tests.programs.tiny import tiny_dataset, tiny_trainer\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    trainer = tiny_trainer(folder); trainer.train(); seen = weakref.ref(trainer)\n"
        "    assert trainer.get_train_dataset() is trainer.get_train_dataset()\n"
        "    trainer.train_dataset = other = tiny_dataset(16)\n"
        "    assert trainer.get_train_dataset() is other, 'the Trainer is alive, and reads what it had before'\n"
        "    del trainer; gc.collect()\n    assert seen() is None, 'the Trainer is alive'",
        "the Trainer is alive",
    ),
    "tokens_per_second": (
        "import tempfile\nfrom tests.programs.tiny import tiny_trainer\nwith tempfile.TemporaryDirectory() as folder:\n"
        "    trainer = tiny_trainer(folder, include_tokens_per_second=True); metrics = trainer.train().metrics\n"
        "    tokens = metrics['train_tokens_per_second'] * metrics['train_runtime']\n"
        "    assert abs(tokens / (4 * 8 * 12) - 1) < 0.01, tokens",
        "string indices",
    ),
    "models_without_ignored_keys": (
        "from types import SimpleNamespace\nfrom mindnlp.core import nn\nfrom mindnlp.engine import Trainer\n"
        "Trainer._issue_warnings_after_load(SimpleNamespace(model=nn.Linear(2, 2)), (['weight'], []))",
        "_keys_to_ignore_on_save",
    ),
    "whole_numbers_in_masked_fill": ("mindspore.Tensor([1.0]).masked_fill(mindspore.Tensor([True]), 0)", "MaskedFill"),
    "labels_of_plbart": (
        "from mindnlp.transformers.models.plbart.modeling_plbart import shift_tokens_right\n"
        "labels = mindspore.Tensor([[5, 6, 2], [7, 8, 2]]); shift_tokens_right(labels, 0)\n"
        "assert labels.asnumpy().tolist() == [[5, 6, 2], [7, 8, 2]], 'labels have changed'",
        "labels have changed",
    ),
    "masks_of_bloom": (
        "import numpy as np\nfrom mindnlp.core import ops\n"
        "from mindnlp.transformers.models.bloom import modeling_bloom\n"
        "mask_of = modeling_bloom._prepare_4d_causal_attention_mask_with_cache_position\n"
        "mask = mask_of(mindspore.Tensor([[1, 0], [0, 1]]), 2, 2, mindspore.float32, -9.0, ops.arange(2), 2)\n"
        "np.testing.assert_array_equal(mask[:, 0, 1].asnumpy(), [[0, -9], [-9, 0]], 'the mask of another row')",
        "the mask of another row",
    ),
    "masks_of_gpt2": (
        "import numpy as np\nfrom mindnlp.transformers import GPT2Config, GPT2Model\n"
        "model = GPT2Model(GPT2Config(32, 8, 8, 1, 1)).set_train(False)\n"
        "mask = mindspore.Tensor(np.zeros((1, 1, 4, 4), np.float32))\n"
        "model(mindspore.Tensor([[4, 5, 6, 7]]), attention_mask=mask)",
        "broadcast",
    ),
    "weights_of_batch_norms": (
        "from mindnlp.core import nn, ops\nrows = mindspore.Tensor([[1.0, 2.0], [3.0, 6.0]])\n"
        "for norm in nn.BatchNorm1d(2), nn.BatchNorm1d(2, affine=False):\n"
        "    assert abs(abs(norm(rows)).asnumpy() - 1).max() < 1e-3, 'nothing passes'\n"
        "for norm in nn.BatchNorm1d(2), nn.BatchNorm2d(2):\n"
        "    assert (norm.weight == 1).all() and (norm.bias == 0).all() and norm.weight.requires_grad",
        "nothing passes",
    ),
    "noise_by_rank": (
        "from mindnlp.core import nn\nfrom mindnlp.engine.trainer.base import neftune_post_forward_hook as hook\n"
        "assert hook.__wrapped__(nn.Embedding(2, 2).eval(), None, 5) == 5",
        "__wrapped__",
    ),
    "stub_tensor_module": ("pass", "_stub_tensor"),
    "empty_through_constructor": ("from mindnlp.core import ops; ops.empty(2, 3)", "pyboost_empty"),
    "parameter_without_gradient": ("from mindnlp.core import nn, ops; nn.Parameter(ops.ones(2)).grad", "grad"),
    "value_and_grad_through_public_api": (
        "from mindnlp.core import nn, ops\nfrom mindnlp.core.autograd import value_and_grad\n"
        "w = nn.Parameter(ops.ones(2)); value_and_grad(lambda x: (w * x).sum(), (w,))(ops.ones(2))",
        "top cell",
    ),
    "in_place_operators_on_cpu": (
        "mindspore.Tensor([1.0, 2.0]).masked_fill_(mindspore.Tensor([True, False]), 0.0).asnumpy()",
        "InplaceMaskedFill",
    ),
    "new_full_on_cpu": ("mindspore.Tensor([1.0]).new_full((2, 3), -100)", "support Ascend only"),
    "inputs_for_metrics": ("from mindnlp.engine import Trainer; Trainer._prepare_input", "_prepare_input"),
    "deep_copies_of_parameters": (
        "import copy\nfrom mindnlp.core import nn, ops\n"
        "a = nn.Parameter(ops.ones(2)); b = copy.deepcopy(a); ops.assign(b, ops.zeros(2))\n"
        "assert a.asnumpy().sum() == 2, 'shared'",
        "shared",
    ),
    "tied_output_bias": (
        "from mindnlp.core import ops\nfrom mindnlp.transformers import BertConfig, BertForMaskedLM\n"
        "sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)\n"
        "bias = BertForMaskedLM(BertConfig(vocab_size=8, **sizes)).cls.predictions.decoder.bias\n"
        "ops.assign(bias, ops.ones(8)); assert bias.asnumpy().sum() == 8, 'a view'",
        "view",
    ),
    "resized_embeddings": (
        "from mindnlp.core import nn\nfrom mindnlp.core.autograd import value_and_grad\n"
        "from mindnlp.transformers import BertConfig, BertModel\n"
        "sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)\n"
        "model = BertModel(BertConfig(vocab_size=8, **sizes)); model.resize_token_embeddings(12)\n"
        "weight = model.get_input_embeddings().weight\n"
        "assert weight.shape == (12, 8) and weight._grad_node is None, 'the gradient of another shape'",
        "the gradient of another shape",
    ),
    "numbers_of_optimizers": (
        "import psutil\nfrom mindnlp.core import nn, ops, optim\n"
        "memory = lambda: psutil.Process().memory_info().rss / 2**20\n"
        "w = nn.Parameter(ops.ones(4))\nw.grad = ops.ones(4)\n"
        "makers = lambda: optim.AdamW([w]), lambda: optim.Adam([w], amsgrad=True), lambda: optim.SGD([w], lr=1.0)\n"
        "for make in makers:\n"
        "    optimizer = make(); optimizer.step(); before = memory()\n"
        "    for step in range(200):\n"
        "        optimizer.param_groups[0]['lr'] = 1e-3 / (step + 1); optimizer.step()\n"
        "    assert memory() - before < 8, f'{memory() - before} MB are gone'",
        "MB are gone",
    ),
    "sgd_with_momentum": (
        "from mindnlp.core import nn, ops, optim\n"
        "w = nn.Parameter(ops.ones(2)); w.grad = ops.ones(2); sgd = optim.SGD([w], lr=0.1, momentum=0.5)\n"
        "sgd.step(); sgd.step(); assert abs(float(w[0]) - 0.75) < 1e-6, 'no momentum'\n"
        "w = nn.Parameter(ops.ones(2, 3).swapaxes(0, 1)); w.grad = ops.ones(3, 2); optim.SGD([w], lr=0.1).step()\n"
        "assert abs(float(w[0, 0]) - 0.9) < 1e-6, 'a view stands still'",
        "no momentum",
    ),
    "values_of_gradients": (
        "from mindnlp.core import nn, ops\n"
        "w = nn.Parameter(ops.ones(2) * 5); w.grad = ops.ones(2) * 3; nn.utils.clip_grad_value_([w], 1.0)\n"
        "assert w.asnumpy().tolist() == [5, 5] and w.grad.asnumpy().tolist() == [1, 1], 'the weights are clipped'\n"
        "gradient = ops.ones(2) * 3; nn.utils.clip_grad_value_([gradient], 1.0)\n"
        "assert gradient.asnumpy().tolist() == [1, 1]",
        "the weights are clipped",
    ),
    "biases_of_heads": (
        "import os, tempfile\nfrom mindnlp.core import ops\nfrom safetensors.numpy import load_file, save_file\n"
        "from mindnlp.transformers import RobertaConfig, RobertaForMaskedLM\n"
        "sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)\n"
        "model = RobertaForMaskedLM(RobertaConfig(vocab_size=8, **sizes))\n"
        "model.lm_head.bias.assign_value(ops.ones(8))\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    model.save_pretrained(folder); weights = os.path.join(folder, 'model.safetensors')\n"
        "    kept = {name: value for name, value in load_file(weights).items() if 'head.decoder' not in name}\n"
        "    save_file(kept, weights, {'format': 'pt'})  # as transformers saves them\n"
        "    head = RobertaForMaskedLM.from_pretrained(folder).lm_head\n"
        "assert head.decoder.bias.asnumpy().sum() == 8, 'the bias is lost'",
        "the bias is lost",
    ),
    "chunks_of_led": (
        f"{CHUNKS}\nfrom mindnlp.transformers.models.led.modeling_led import LEDEncoderSelfAttention as Attention\n"
        "rows_of(Attention, rows)",
        "other rows",
    ),
    "chunks_of_longformer": (
        f"{CHUNKS}\nfrom mindnlp.transformers.models.longformer import modeling_longformer\n"
        "rows_of(modeling_longformer.LongformerSelfAttention, rows.astype(mindspore.float16))",
        "division by zero",
    ),
    "repeat_on_cpu": ("mindspore.Tensor(1.0).repeat(3)", "not supported"),
    "clipping_of_views": (
        "from mindnlp.core import nn, ops\n"
        "w = nn.Parameter(ops.ones(2, 3)); w.grad = ops.ones(3, 2).swapaxes(0, 1); nn.utils.clip_grad_norm_([w], 1.0)\n"
        "assert abs(float(w.grad[0, 0]) - 6**-0.5) < 1e-6\n"
        "w.grad = ops.ones(6).reshape(2, 3); nn.utils.clip_grad_norm_([w], 1.0)\n"
        "assert abs(float(w.grad[0, 0]) - 6**-0.5) < 1e-6",
        "view",
    ),
    "dtypes_of_saved_adapters": (
        f"{ADAPTER}\nwith tempfile.TemporaryDirectory() as folder:\n"
        "    model.save_pretrained(folder); PeftModel.from_pretrained(tiny_model(), folder)",
        "failed to load the checkpoint",
    ),
    "adapters_in_checkpoints": (
        f"{ADAPTER}\nwith tempfile.TemporaryDirectory() as folder:\n"
        "    model.save_pretrained(folder); tiny_trainer(folder, model)._load_from_checkpoint(folder)",
        "Can't find a valid checkpoint",
    ),
    "recompute_of_the_trainer": (
        "import tempfile\nfrom tests.programs.tiny import tiny_trainer\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    tiny_trainer(folder, recompute=True, max_steps=1).train()",
        "recompute_enable",
    ),
    "gradient_checkpointing": (
        "from tests.programs.tiny import tiny_model\n"
        "from mindnlp_dp_plugin.recompute import is_recomputed, layers_of\n"
        "model = tiny_model(); model.gradient_checkpointing_enable()\n"
        "assert all(is_recomputed(layer) for layer in layers_of(model)), 'activations are kept'",
        "activations are kept",
    ),
}


MENDED = {  # models that do not train without a patch, and what they say
    "drawn_initial_weights": ("opt/causal_lm", "not drawn"),
    "mean_before_sigma": ("falcon/causal_lm", "not drawn"),
    "weights_of_convbert": ("convbert/masked_lm", "not drawn"),
    "weights_of_gptsan": ("gptsan_japanese/seq2seq_lm", "not drawn"),
    "relative_positions_of_nezha": ("nezha/sequence_classification", "not drawn"),
    "names_of_parameters": ("xlm_roberta/masked_lm", "incompatible function arguments"),
    "setters_of_parameters": ("minicpm3/causal_lm", "set_data"),
    "padding_of_funnel": ("funnel/masked_lm", "padding_idx"),
    "norm_of_many_dimensions": ("mamba/causal_lm", "is null"),
    "missing_operators": ("xlm_roberta/masked_lm", "gelu"),
    "arange_of_floats": ("bros/token_classification", "For Range, the dtypes of inputs must be the same"),
    "clone_on_cpu": ("pegasus/seq2seq_lm", "Clone unregistered"),
    "finished_models": ("nezha/masked_lm", "'NoneType' object has no attribute 'weight'"),
    "shapes_in_xlm_roberta": ("xlm_roberta/question_answering", "not callable"),
    "shapes_in_mobilebert": ("mobilebert/multiple_choice", "not callable"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*USES, *MENDED])
def test_what_each_patch_bridges_breaks_without_it(name):
    code, complaint = USES[name] if name in USES else (trains(MENDED[name][0]), MENDED[name][1])
    if not next(patch for patch in compat.PATCHES if patch.name == name).is_needed():
        pytest.skip(f"MindSpore {MINDSPORE} has no such gap")
    broken = without(name, code)
    assert broken.returncode != 0 and complaint in broken.stderr


def test_with_all_patches_nothing_breaks():
    everything = without("none of them", "\n".join(code for code, _ in USES.values()))
    assert everything.returncode == 0, everything.stderr


def test_models_that_patches_mend_train(tmp_path):
    cases = sorted({case for case, _ in MENDED.values()})
    run_ranks_successfully(
        "train_families.py", tmp_path, 2, "all", *cases, ranks=1, backend="auto", log_dir=tmp_path / "logs"
    )
    assert {case: line["stage"] for case, line in journal(tmp_path).items()} == dict.fromkeys(cases, "done")


def test_mobilebert_learns_classes_whatever_whole_numbers_they_are():
    losses = python(
        "import mindnlp_dp_plugin, mindspore, numpy as np\n"
        "from mindnlp.transformers import MobileBertConfig, MobileBertForSequenceClassification as Model\n"
        "sizes = dict(hidden_size=16, embedding_size=8, true_hidden_size=8, intra_bottleneck_size=8)\n"
        "sizes |= dict(num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, num_feedforward_networks=1)\n"
        "model = Model(MobileBertConfig(vocab_size=16, num_labels=3, **sizes)).set_train(False)\n"
        "for kind in (mindspore.int32, mindspore.int64):\n"
        "    model.config.problem_type = None\n"
        "    ids, labels = mindspore.Tensor([[3, 4], [5, 6]]), mindspore.Tensor([0, 2], kind)\n"
        "    print(float(model(ids, labels=labels).loss))"
    ).stdout.split()[-2:]
    assert float(losses[0]) == float(losses[1]) > 0.9  # cross entropy of three classes


QUIET = {  # what MindSpore says without a patch
    "quiet_dtype_to_nptype": ("mindspore.dtype_to_nptype(mindspore.float32)", "dtype_to_nptype"),
    "quiet_data_sync": ("mindspore.Tensor(1.0).data_sync(True)", "data_sync"),
}


def test_each_patch_has_a_case_that_breaks_without_it():
    assert {patch.name for patch in compat.PATCHES} == {*USES, *MENDED, *QUIET}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUIET)
def test_quiet_patches_silence_one_warning(name):
    code, warning = QUIET[name]
    if not next(patch for patch in compat.PATCHES if patch.name == name).is_needed():
        pytest.skip(f"MindSpore {MINDSPORE} does not warn")
    noisy, quiet = without(name, code), without("none of them", code)
    assert warning in noisy.stdout + noisy.stderr
    assert warning not in quiet.stdout + quiet.stderr


def test_one_process_trains_evaluates_and_predicts_as_without_the_plugin(tmp_path):
    results = []
    for mode in ("bridged", "plugin"):
        (tmp_path / mode).mkdir()
        switched_off = {"MINDNLP_DP_CPU_OPERATORS": "0"}
        finished = run([sys.executable, PROGRAMS / "stock_trainer.py", tmp_path / mode, mode], env=switched_off)
        assert finished.returncode == 0, finished.stderr
        results.append(np.load(tmp_path / mode / "result.npz"))
    for name in ("parameters", "eval_loss", "logits", "label_ids"):
        np.testing.assert_array_equal(results[0][name], results[1][name])
    assert results[0]["logits"].shape == (20, 3) and np.isfinite(results[0]["eval_loss"])


@pytest.mark.parametrize("installed", ["0.4.0", "0.5.0", "0.6.0", None])
def test_an_unsupported_mindnlp_is_refused_with_the_versions_that_are(tmp_path, installed):
    """Real metadata of another version, found before the installed one."""
    if installed is None:
        code = "import importlib.metadata as m; f = m.version\ndef hide(name):\n"
        code += "    if name == 'mindnlp': raise m.PackageNotFoundError(name)\n    return f(name)\n"
        finished = python(code + "m.version = hide\nimport mindnlp_dp_plugin")
    else:
        folder = tmp_path / f"mindnlp-{installed}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mindnlp\nVersion: {installed}\n")
        finished = python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mindnlp_dp_plugin")
    assert finished.returncode != 0
    last = finished.stderr.splitlines()[-1]
    assert "'mindnlp-dp-plugin[mindnlp04]'" in last and "'mindnlp-dp-plugin[mindnlp05]'" in last


def test_the_installed_mindnlp_is_supported():
    compat.check_mindnlp()
    assert issubclass(DataParallelError, RuntimeError)
