"""What the doctor reads in a training script."""

import pytest

from mindnlp_dp_plugin.doctor.script import read_script


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("set_auto_parallel_context(parallel_mode='auto_parallel')", "line 1, parallel_mode auto_parallel"),
        ("import random\nmask = [random.random() < 0.15 for _ in range(9)]", "line 2, random.random without a seed"),
        ("import numpy as np\ndef split():\n    return np.random.permutation(9)", "line 3, np.random.permutation"),
        ("import numpy as np\nr = np.random.default_rng()", "line 2, np.random.default_rng"),
        (
            "from mindnlp.core.autograd import value_and_grad\nf = value_and_grad(g, p)\nf()\noptimizer.step()",
            "line 2, mindnlp.core.autograd.value_and_grad: nobody averages",
        ),
        (
            "import mindspore as ms\noptimizer = ms.nn.SGD(p)\ng = ms.value_and_grad(f, None, p)\noptimizer(g(x))",
            "line 3, mindspore.value_and_grad: nobody averages",
        ),
        ("from mindspore.train import Model\nModel(net, loss).train(1, rows)", "line 2, mindspore.train.Model: nobody"),
        ("import mindnlp.engine\nimport mindnlp_dp_plugin as dp", "line 1, mindnlp is imported before"),
        ("from mindspore import Tensor\nimport mindnlp_dp_plugin", "line 1, mindspore is imported before"),
        ("def broken(:\n", "cannot be read as Python"),
    ],
)
def test_trouble_is_named_with_its_line(tmp_path, text, words):
    script = tmp_path / "train.py"
    script.write_text(text)
    finding = read_script(script)
    assert finding.level != "ok" and words in finding.found and finding.way_out


@pytest.mark.parametrize(
    "text",
    [
        "set_auto_parallel_context(parallel_mode='data_parallel', gradients_mean=True)",
        "set_auto_parallel_context(parallel_mode=ParallelMode.STAND_ALONE)",
        "import random\nrandom.seed(1)\nrandom.shuffle([1])",
        "import mindspore, numpy as np\nmindspore.set_seed(3)\nnp.random.rand(2)",
        "import numpy as np\nr = np.random.default_rng(7)\nr.random()",
        "rows.sample(frac=1, random_state=0)\ndataset.shuffle(100)",
        "import mindnlp_dp_plugin\nimport mindspore\nfrom mindnlp.engine import Trainer",
        "import mindspore\nfrom mindnlp.engine import Trainer",
        "from mindnlp.core.autograd import value_and_grad\nf = value_and_grad(g, p)\nmodel(rows)",
        "from mindnlp.core.autograd import value_and_grad\ndp.prepare(m, o)\nvalue_and_grad(g, p)()\no.step()",
        "from mindspore import nn, value_and_grad\nr = nn.DistributedGradReducer(p)\nf = value_and_grad(g)\no.step()",
        "from mindspore import Model\nset_context(parallel_mode='data_parallel')\nModel(net).train(1, rows)",
        "from mindspore import Model\nModel(net).predict(rows)",
        "from mindnlp.engine import Trainer\nfrom mindspore import value_and_grad\nvalue_and_grad(g)\no.step()",
    ],
)
def test_what_is_right_is_left_alone(tmp_path, text):
    script = tmp_path / "train.py"
    script.write_text(text)
    assert read_script(script).level == "ok", read_script(script)


def test_a_search_on_ranks_is_left_alone_if_it_is_meant(tmp_path, monkeypatch):
    script = tmp_path / "search.py"
    script.write_text("from mindnlp.core.autograd import value_and_grad\nvalue_and_grad(g, p)()\noptimizer.step()")
    assert read_script(script).level == "failure"
    monkeypatch.setenv("MINDNLP_DP_TRAIN_APART", "1")
    assert read_script(script).level == "ok"
