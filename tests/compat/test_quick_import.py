"""MindNLP is imported quickly, and nothing of it is seen."""

import sys

from tests.harness import run

PLUGIN = "import mindnlp_dp_plugin\n"
AS_IT_COMES = """
import os
os.environ["MINDNLP_DP_DEFERRED"] = "1"
from mindnlp_dp_plugin.compat.mindnlp04 import models_when_used
models_when_used.schedule = lambda: None
import json
from mindnlp_dp_plugin import compat
from tests.model_names import public_names
compat.bridge()
print(public_names() == json.loads(models_when_used.TABLE.read_text()))
"""
MODELS_WHEN_USED = """
import json, pickle, sys
import mindnlp_dp_plugin
from mindnlp_dp_plugin.compat.mindnlp04.models_when_used import TABLE
from mindnlp import engine, transformers

brought = [name for name in ("datasets", "evaluate", "jieba", "scipy.stats") if name in sys.modules]
print(brought, sum(name.startswith("mindnlp.transformers.models.") for name in sys.modules) < 20)

from mindnlp.transformers import AutoConfig, AutoModel, BertConfig, BertModel
small = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=9)
print(type(AutoModel.from_config(BertConfig(**small))) is BertModel, "modeling_llama" in str(sys.modules))

names = json.loads(TABLE.read_text())["names"]
for folder in reversed(names):
    for name in names[folder]:
        value = getattr(transformers, name)
        assert value is getattr(transformers.models, name) is getattr(getattr(transformers.models, folder), name), name
        assert not isinstance(value, type) or pickle.loads(pickle.dumps(value)) is value, name
everything = {name for folder in names.values() for name in folder}
print(everything <= set(transformers.__all__) & set(dir(transformers)), set(transformers.models.__all__) == everything)
exec("from mindnlp.transformers import *")
print(everything <= set(globals()), hasattr(transformers, "NoModel"), hasattr(transformers, "bert"))

from mindnlp import dataset, evaluate
exec("from mindnlp.dataset import *")
assert load_dataset is dataset.load_dataset and issubclass(BaseMapFunction, object)
print(dataset.load_dataset.__module__, dataset.load.__name__, evaluate.__name__, "evaluate" in sys.modules)
"""


def printed_by(code):
    finished = run([sys.executable, "-c", code])
    assert finished.returncode == 0, finished.stderr
    return [line for line in finished.stdout.splitlines() if "MS_ALLOC_CONF" not in line]


def test_nobody_looks_for_garbage_meanwhile():
    collections = "import gc\nfound = []\ngc.callbacks.append(lambda phase, info: found.append(phase))\n"
    *_, garbage = printed_by(f"{PLUGIN}{collections}import mindnlp\nprint(len(found), gc.isenabled())")
    assert garbage.split()[1] == "True"
    assert int(garbage.split()[0]) < 100  # hundreds without; MindSpore may call some itself


def test_the_names_of_models_are_those_of_mindnlp_imported_as_it_comes():
    assert printed_by(AS_IT_COMES)[-1] == "True"


def test_a_model_is_imported_when_it_is_asked_for_and_nothing_else_is_seen():
    assert printed_by(MODELS_WHEN_USED)[-5:] == [
        "[] True",
        "True False",
        "True True",
        "True False False",
        "mindnlp.dataset.load mindnlp.dataset.load mindnlp.evaluate True",
    ]


def test_it_looks_for_garbage_again_after_an_import_that_failed_unless_the_script_does_not(tmp_path):
    (tmp_path / "mindnlp").mkdir()
    (tmp_path / "mindnlp/__init__.py").write_text("import gc\nprint(gc.isenabled())\nraise ImportError('broken')\n")
    code = f"import gc, sys\nsys.path.insert(0, {str(tmp_path)!r})\n{PLUGIN}"
    code += "try:\n    import mindnlp\nexcept ImportError as error:\n    print(error, gc.isenabled())\n"
    assert printed_by(f"{code}gc.disable()\n{code}") == ["False", "broken True", "False", "broken False"]


IMAGES = """
import sys
import numpy as np
import mindspore
distance = mindspore.train.HausdorffDistance()
{before}
first, second = (np.array(rows) for rows in ([[3, 0, 1], [1, 3, 0], [1, 0, 2]], [[0, 2, 1], [1, 2, 1], [0, 0, 1]]))
distance.update(mindspore.Tensor(first), mindspore.Tensor(second), 0)
import scipy.ndimage
print(distance.eval(), scipy.ndimage.__file__, scipy.ndimage.gaussian_filter.__name__)
"""


def test_what_mindspore_measures_images_with_is_imported_when_it_is_used():
    waiting = 'print("scipy.ndimage" in sys.modules)'
    *_, waits, measured = printed_by(PLUGIN + IMAGES.format(before=waiting))
    assert waits == "False"
    assert measured == printed_by(IMAGES.format(before=""))[-1]


def test_operators_of_cards_are_left_out_where_there_is_none():
    told = (
        "import sys, mindspore\n"
        "beginnings = 'mindspore.ops._op_impl.aicpu.', 'mindspore.ops._op_impl.akg.'\n"
        "print(sum(name.startswith(beginnings) for name in sys.modules))"
    )
    assert int(printed_by(told)[-1]) > 400
    assert printed_by(PLUGIN + told)[-1] == "0"
