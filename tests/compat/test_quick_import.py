"""MindNLP is imported quickly, and nothing of it is seen."""

import sys

import pytest

from tests.harness import run

PLUGIN = "import mindnlp_dp_plugin\n"
WORDS = """
import jieba
print(jieba.lcut("<sep>我来到北京", HMM=False), jieba.get_FREQ("<pad>"), jieba.get_FREQ("北京"))
"""
LATER_WORD = """
jieba.add_word("来到北京", freq=10**6, tag="v")
jieba.initialize()
print(jieba.lcut("我来到北京", HMM=False))
"""


def printed_by(code):
    finished = run([sys.executable, "-c", code])
    assert finished.returncode == 0, finished.stderr
    return [line for line in finished.stdout.splitlines() if "MS_ALLOC_CONF" not in line]


def test_nobody_looks_for_garbage_meanwhile_and_the_dictionary_of_jieba_waits_until_it_is_asked_for():
    collections = "import gc\nfound = []\ngc.callbacks.append(lambda phase, info: found.append(phase))\n"
    said = "print(len(found), gc.isenabled())\nimport jieba\nprint(jieba.dt.initialized)"
    *_, garbage, dictionary = printed_by(f"{PLUGIN}{collections}import mindnlp\n{said}")
    assert garbage.split()[1] == "True"
    assert int(garbage.split()[0]) < 100  # hundreds without; MindSpore may call some itself
    assert dictionary == "False"


def test_a_script_s_own_choice_stays():
    assert printed_by(f"{PLUGIN}import gc\ngc.disable()\nimport mindnlp\nprint(gc.isenabled())")[-1] == "False"


def test_it_looks_for_garbage_again_after_an_import_that_failed(tmp_path):
    (tmp_path / "mindnlp").mkdir()
    (tmp_path / "mindnlp/__init__.py").write_text("import gc\nprint(gc.isenabled())\nraise ImportError('broken')\n")
    code = f"import gc, sys\nsys.path.insert(0, {str(tmp_path)!r})\n{PLUGIN}"
    code += "try:\n    import mindnlp\nexcept ImportError as error:\n    print(error, gc.isenabled())"
    assert printed_by(code) == ["False", "broken True"]


@pytest.mark.parametrize("order", ["plugin first", "jieba first"])
def test_words_are_those_of_mindnlp(order):
    begin = PLUGIN if order == "plugin first" else f"import jieba\n{PLUGIN}"
    expected = printed_by("import jieba\n" + "".join(
        f"jieba.add_word({word!r})\n" for word in ("<s>", "</s>", "<eot>", "<unk>", "<sep>", "<pad>")
    ) + WORDS + LATER_WORD)  # fmt: skip
    assert printed_by(f"{begin}import mindnlp\n{WORDS}{LATER_WORD}")[-2:] == expected[-2:]
