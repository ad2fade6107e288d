"""Each patch of MindNLP 0.5 is needed: removed, what it bridges breaks."""

import importlib.util
from pathlib import Path

import pytest

from mindnlp_dp_plugin import compat

START = """
import os; os.environ['MINDNLP_DP_DEFERRED'] = '1'
from mindnlp_dp_plugin import DataParallelError, compat
for patch in compat.PATCHES:
    if patch.name != {name!r}: patch.schedule()
import mindspore, mindnlp, torch, numpy as np
def refused(function, *args, **kwargs):
    try: function(*args, **kwargs)
    except DataParallelError: return True
    return False
weight = torch.nn.Parameter(torch.ones(2))
weight.grad = torch.ones(2)
"""
MEAN = """
labels = mindspore.Tensor([1, 0, 1, 0, 1])
for n in 3, 5:
    loss = lambda x: torch.nn.functional.binary_cross_entropy_with_logits(x * 1.0, labels[:n].astype(mindspore.float32))
    found = mindspore.grad(loss)(mindspore.ops.zeros(n)).asnumpy()
assert abs(found[0] + 0.1) < 1e-6, found
"""

CASES = {
    "mean_of_binary_cross_entropy": MEAN,
    "norm_of_a_whole_tensor": "assert torch.nn.utils.clip_grad_norm_([weight], 9.0).item() ** 2 - 2 < 1e-5",
    "addcdiv_on_cpu": "torch.optim.AdamW([weight]).step(); assert weight[0].item() < 1",
    "argmax_of_a_whole_tensor": "assert torch.tensor([[1.0, 4.0], [3.0, 2.0]]).argmax().item() == 1",
    "weight_and_bias_of_batch_norm": "norm = torch.nn.BatchNorm1d(2); rows = torch.tensor([[1.0, 2.0], [3.0, 8.0]])\n"
    "assert (norm(rows) - torch.tensor([[-1.0, -1.0], [1.0, 1.0]])).abs().max().item() < 1e-3\n"
    "assert abs(norm.running_mean[1].item() - 0.5) < 1e-6",
    "products_that_broadcast": "rows, one = torch.ones(3, 4, 2, 8), torch.ones(8)\n"
    "assert (rows @ torch.ones(1, 4, 8, 5)).shape == (3, 4, 2, 5) and (rows @ one).shape == (3, 4, 2)\n"
    "assert (one @ torch.ones(3, 8, 5)).shape == (3, 5) and (one @ one).item() == 8",
    "losses_on_cpu": "rows, target = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.0, 1.0]])\n"
    "divergence = torch.nn.functional.kl_div(rows, target, reduction='batchmean')\n"
    "assert abs(divergence.item() - 0.693147) < 1e-5\n"
    "assert torch.nn.functional.l1_loss(target, target + 2).item() == 2",
    "cpu_is_a_device": "torch.cpu.set_device(0)\n"
    "assert (torch.cpu.device_count(), torch.cpu.current_device()) == (1, 0)",
    "sgd_with_momentum": "sgd = torch.optim.SGD([weight], lr=0.1, momentum=0.5)\nsgd.step(); sgd.step()\n"
    "assert abs(weight[0].item() - 0.75) < 1e-6",
    "draws_take_the_seed": "def draw():\n"
    "    torch.manual_seed(3); ones = torch.ones(999); kinds = torch.empty(999)\n"
    "    drawn = [torch.nn.functional.dropout(ones), torch.rand(999), torch.rand_like(ones), torch.randn(999),\n"
    "        torch.randint(0, 9, (999,)), torch.bernoulli(ones * 0.15), torch.normal(0.0, 1.0, size=(999,)),\n"
    "        kinds.clone().normal_(), kinds.clone().uniform_(-1, 1), torch.ones(999).long().random_(0, 9)]\n"
    "    return [each.asnumpy().astype(float) for each in drawn]\n"
    "np.random.seed(1); first = draw(); between = np.random.rand(); second = draw()\n"
    "np.random.seed(1); assert between == np.random.rand()\n"
    "assert all((one == other).all() for one, other in zip(first, second))\n"
    "means = [1, 0.5, 0.5, 0, 4, 0.15, 0, 0, 0, 4]\n"
    "assert all(abs(each.mean() - mean) < 0.3 for each, mean in zip(first, means))\n"
    "assert abs(first[5].mean() - 0.15) < 0.04 and set(first[5]) == {0, 1}",
    "normal_and_weighted_draws": "drawn = torch.randn_like(torch.ones(999)).asnumpy()\n"
    "assert abs(drawn.mean()) < 0.2 and abs(drawn.std() - 1) < 0.2\n"
    "sampler = torch.utils.data.WeightedRandomSampler([1.0, 1.0, 8.0], 999)\n"
    "assert max(abs(np.bincount(list(sampler)) / 999 - [0.1, 0.1, 0.8])) < 0.1\n"
    "assert sorted(torch.multinomial(torch.tensor([[1.0, 0.0, 9.0]]), 2)[0].tolist()) == [0, 2]",
    "defaults_of_functions": "rows = torch.tensor([-1.0, 3.0])\n"
    "assert abs(torch.nn.functional.leaky_relu(rows)[0].item() + 0.01) < 1e-6\n"
    "assert torch.nn.functional.smooth_l1_loss(rows, rows * 0).item() == 1.5",
    "numbers_on_cpu": "rows = torch.tensor([[-1.0, 3.0], [2.0, 1.0]])\n"
    "assert [len(part) for part in torch.arange(7).split(4)] == [4, 3]\n"
    "assert [part.tolist() for part in torch.arange(7).chunk(3)] == [[0, 1, 2], [3, 4, 5], [6]]\n"
    "assert torch.nn.functional.logsigmoid(rows).shape == (2, 2)\n"
    "assert abs(torch.nn.functional.softplus(rows, beta=2)[0, 1].item() - 3.00124) < 1e-4\n"
    "assert torch.addmm(rows, rows, rows, beta=2, alpha=0).tolist() == (rows * 2).tolist()\n"
    "assert torch.baddbmm(rows[None], rows[None], rows[None], beta=2, alpha=0)[0].tolist() == (rows * 2).tolist()\n"
    "table = torch.nn.Parameter(torch.ones(3, 2)); places = torch.tensor([0, 2, 1])\n"
    "torch.autograd.value_and_grad(lambda: torch.nn.functional.embedding(places, table, 1).sum(), [table])()\n"
    "assert table.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]\n"
    "places = torch.arange(6).float().reshape(2, 3)\n"
    "assert places.transpose(0, 1).as_strided((2, 2), (1, 2)).tolist() == [[0.0, 2.0], [1.0, 3.0]]\n"
    "assert torch.fmod(rows, 0.75).tolist() == [[-0.25, 0.0], [0.5, 0.25]]",
    "losses_of_each_label": "logits = torch.tensor(np.random.default_rng(0).random((2, 5, 3, 4), np.float32))\n"
    "labels = torch.tensor(np.arange(24).reshape(2, 3, 4) % 5)\n"
    "rows = logits.permute(0, 2, 3, 1).reshape(-1, 5); entropy = torch.nn.functional.cross_entropy\n"
    "assert abs(entropy(logits, labels).item() - entropy(rows, labels.reshape(-1)).item()) < 1e-5\n"
    "labels[labels == 3] = -100; each = entropy(logits, labels, reduction='none')\n"
    "assert each.shape == labels.shape and ((each == 0) == (labels == -100)).all()",
    "methods_of_tensors": "def written():\n"
    "    rows = weight * 1; rows[0] = 5.0; return rows.sum()\n"
    "weight.grad = None; torch.autograd.value_and_grad(written, [weight])()\n"
    "assert weight.grad.tolist() == [0.0, 1.0]\n"
    "assert torch.tensor([1.0, 3.0, 2.0]).argsort(descending=True).tolist() == [1, 2, 0]\n"
    "assert (torch.tensor([-7, 7]) % 3).tolist() == (torch.tensor([-7, 7]) % torch.tensor([3, 3])).tolist() == [2, 1]",
    "generators_move_on": "torch.manual_seed(3); first = torch.rand(9)\nassert (first != torch.rand(9)).any()\n"
    "state = torch.get_rng_state(); next = torch.rand(9); torch.set_rng_state(state)\n"
    "assert (next == torch.rand(9)).all() and torch.randperm(9).tolist() != torch.randperm(9).tolist()",
    "safe_globals": "from torch.serialization import safe_globals\nwith safe_globals([]): pass",
    "weights_with_safetensors_08": "import tempfile\nfrom safetensors.torch import load_file, save_file\n"
    "with tempfile.TemporaryDirectory() as folder:\n"
    "    save_file({'a': torch.ones(3)}, folder + '/weights'); loaded = load_file(folder + '/weights')\n"
    "assert loaded['a'].tolist() == [1.0, 1.0, 1.0]",
    "rows_of_the_resumed_epoch": "import mindnlp; from transformers import trainer\n"
    "from accelerate.data_loader import prepare_data_loader\n"
    "from torch.utils.data import DataLoader\n"
    "rows = prepare_data_loader(DataLoader(list(range(30)), batch_size=3, shuffle=True), use_seedable_sampler=True)\n"
    "rows.set_epoch(1); second = [batch.tolist() for batch in rows]\n"
    "rows.set_epoch(1); rest = [batch.tolist() for batch in trainer.skip_first_batches(rows, 4)]\n"
    "assert rest == second[4:], (rest, second)",
    "generator_made_later": "torch.manual_seed(1)",
    "hooks_on_the_tensor_itself": "seen = []; weight.register_hook(lambda gradient: seen.append(gradient))\n"
    "torch.autograd.value_and_grad(lambda: (weight * 2).sum(), [weight])()\nassert len(seen) == 1",
    "unfrozen_parameters": "other = torch.nn.Parameter(torch.ones(2)); other.requires_grad = False\n"
    "torch.autograd.value_and_grad(lambda: (weight * other).sum(), [weight])()\n"
    "other.requires_grad = True; other.register_hook(lambda gradient: gradient)",
    "parameters_made_frozen": "other = torch.nn.Parameter(torch.ones(2), requires_grad=False)\n"
    "torch.autograd.value_and_grad(lambda: (weight * other).sum(), [weight])()\n"
    "other.requires_grad = True; other.register_hook(lambda gradient: gradient)",
    "tensors_have_a_device": "assert (mindspore.Tensor.from_numpy(np.ones(2, np.float32)) + weight).sum().item() == 4",
    "tensors_stay_where_they_are": "weight.grad = None\n"
    "torch.autograd.value_and_grad(lambda: (weight - torch.ones(2)).sum(), [weight])()\n"
    "assert weight.grad.tolist() == [1.0, 1.0]",
    "backward_without_gradients": "assert refused((weight * 2).sum().backward)\n"
    "def failing(): raise KeyError(weight * 2)\n"
    "try: torch.autograd.value_and_grad(failing, [weight])()\n"
    "except KeyError: later = torch.nn.Parameter(torch.ones(2))\n"
    "torch.autograd.value_and_grad(lambda: (later * 3).sum(), [later])(); assert later.grad.tolist() == [3, 3]",
    "checkpoint_that_keeps_all": "from torch.utils.checkpoint import checkpoint\nassert refused(checkpoint, len, [])",
    "half_precision_on_cpu": "assert refused(torch.autocast, 'cpu', torch.float16)",
    "half_precision_of_the_trainer": "from transformers import TrainingArguments\n"
    "assert refused(TrainingArguments, 'folder', bf16=True)",
    "engines_of_torch": "from transformers import TrainingArguments\n"
    "assert refused(TrainingArguments, 'folder', fsdp='full_shard')\n"
    "assert refused(TrainingArguments, 'folder', deepspeed={'zero_optimization': {'stage': 1}})",
    "compiled_models": "from transformers import TrainingArguments\n"
    "assert refused(TrainingArguments, 'folder', torch_compile=True)",
    "fused_steps": "assert refused(torch.optim.AdamW, [weight], fused=True)",
    "workers_of_a_data_loader": "loader = torch.utils.data.DataLoader([1, 2], num_workers=1)\n"
    "assert refused(iter, loader)",
    "framework_of_plain_modules": "import tempfile\nfrom transformers import Trainer, TrainingArguments\n"
    "Trainer(torch.nn.Linear(2, 2), TrainingArguments(tempfile.mkdtemp(), report_to=[]))",
    "gradients_of_the_present_parameters": "import tempfile\n"
    "from transformers import Trainer, TrainingArguments\nfrom tests.mindnlp05.programs import models\n"
    "model = models.bert(); model.bert.requires_grad_(False)\n"
    "arguments = TrainingArguments(tempfile.mkdtemp(), max_steps=1, report_to=[], save_strategy='no', optim='sgd')\n"
    "trainer = Trainer(model, arguments, train_dataset=models.Rows(8)); trainer.train()\n"
    "model.bert.requires_grad_(True); trainer.optimizer = None\n"
    "before = model.bert.pooler.dense.weight.asnumpy().copy(); trainer.train()\n"
    "assert (model.bert.pooler.dense.weight.asnumpy() != before).any()",
}


def test_each_patch_has_a_case_and_says_what_it_is_for():
    assert {patch.name for patch in compat.PATCHES} == set(CASES)
    assert all(patch.bridges and patch.obsolete_when for patch in compat.PATCHES)


def test_with_all_patches_everything_passes(python):
    cases = [f"weight.copy_(torch.ones(2)); weight.grad = torch.ones(2)\n{code}" for code in CASES.values()]
    finished = python(START.format(name=None) + "\n".join(cases))
    assert finished.returncode == 0, finished.stderr


def accelerate_keeps_the_epoch():
    """Not by importing it, which asks for torch."""
    package = Path(importlib.util.find_spec("accelerate").origin).parent
    return "iteration=dataloader.iteration" in (package / "data_loader.py").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_without_one_it_breaks(python, name):
    if not next(patch for patch in compat.PATCHES if patch.name == name).is_needed():
        pytest.skip("this MindSpore has not the gap")
    if name == "rows_of_the_resumed_epoch" and accelerate_keeps_the_epoch():
        pytest.skip("this accelerate has not the gap")
    finished = python(START.format(name=name) + CASES[name])
    assert finished.returncode != 0
