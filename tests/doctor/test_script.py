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
        ("import random\nnoise = random.gauss(0, 1)", "line 2, random.gauss without a seed"),
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
        "import random\nr = random.Random(7)\nr.random()",
    ],
)
def test_what_is_right_is_left_alone(tmp_path, text):
    script = tmp_path / "train.py"
    script.write_text(text)
    assert read_script(script).level == "ok", read_script(script)
