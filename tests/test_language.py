"""In which language messages are, and that what is shown in Chinese is Chinese."""

import pickle
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from mindnlp_dp_plugin.cli.program import commands
from mindnlp_dp_plugin.command_line import columns, speak
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, catalogue, language, tr

CHINESE = re.compile("[\u4e00-\u9fff]")
DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS.parent / "examples"
LOCALE = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")


@pytest.fixture
def said_in(monkeypatch):
    """Sets the variables that choose the language, and no others of them."""

    def said_in(**environ):
        for name in (*LOCALE, "MINDNLP_DP_LANG"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return language()

    return said_in


def test_the_language_is_that_of_the_locale_unless_another_is_asked_for(said_in):
    assert said_in() == "en"
    assert said_in(LANG="zh_CN.UTF-8") == said_in(LANG="zh_TW.UTF-8") == said_in(LC_ALL="zh_CN.GB18030") == "zh"
    assert said_in(LANG="de_DE.UTF-8") == said_in(LANG="C.UTF-8") == "en"
    assert said_in(LANG="zh_CN.UTF-8", LC_MESSAGES="en_US.UTF-8") == "en"
    assert said_in(LANG="zh_CN.UTF-8", LC_ALL="C", LANGUAGE="zh_CN:zh") == "en"
    assert said_in(LANG="en_US.UTF-8", LANGUAGE="zh_CN:en") == said_in(LANG="en_US.UTF-8", LANGUAGE="fr:zh") == "zh"
    assert said_in(LANG="zh_CN.UTF-8", MINDNLP_DP_LANG="en") == "en"
    assert said_in(LANG="en_US.UTF-8", MINDNLP_DP_LANG="zh") == "zh"


def test_a_language_that_is_not_there(said_in):
    said_in(LANG="zh_CN.UTF-8", MINDNLP_DP_LANG="fr")
    with pytest.raises(DataParallelError, match="MINDNLP_DP_LANG='fr' 不是可用的语言：请从 en, zh 中选择"):
        DataParallelConfig.from_env()


def test_messages_are_filled_in_and_may_hold_others(said_in):
    said_in(MINDNLP_DP_LANG="zh")
    hint = Message("Build the same model on every rank.")
    assert tr(hint) == "请在每个 rank 上建立相同的模型。"
    told = tr("{verdict}: rank {rank} lists its parameters in another order. {hint}", verdict="A", rank=1, hint=hint)
    assert told == f"A：rank 1 的参数顺序不同。{tr(hint)}"
    assert tr("") == "" and tr("{not} a message") == "{not} a message"
    error = DataParallelError("{file} is missing {no} {field}", file="{a}", no="{b}", field=1)
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "{a} is missing {b} 1"


def english_words(text: str) -> set[str]:
    """Words of small letters that stand alone, not options, files or names with capitals or digits."""
    return set(re.findall(r"(?<![\w<>/.,=|'`*\-])[a-z]{2,}(?![\w<>/.=|'`*\-])", text))


NAMES = {
    *(
        "mindnlp",
        "torchrun",
        "doctor",
        "run",
        "bench",
        "recipe",
        "predict",
        "export",
        "rank",
        "traceback",
        "worker",
    ),
    *("checkpoint", "epoch", "token", "batch", "auto", "hccl", "mpi", "mccl", "pod", "msrun", "srun", "mpirun"),
    *("csv", "tsv", "json", "jsonl", "parquet", "xlsx", "txt", "minilm", "causal", "balanced", "dev", "dropout"),
    *("modelscope", "tensorboard", "assistant", "recipes", "train", "test", "zh", "en", "shell", "small", "label"),
    *("classification", "regression", "linear", "none", "measured", "profile"),
    *("huggingface", "mindir", "safetensors", "transformers"),
}


@pytest.mark.parametrize(
    "command", [[], ["run"], ["doctor"], ["bench"], ["predict"], ["export"], ["recipe"], ["recipe", "classification"]]
)
def test_help_is_chinese(command, monkeypatch):
    monkeypatch.setenv("MINDNLP_DP_LANG", "en")
    speak()

    def help_of(*options):
        shown = CliRunner().invoke(commands, [*options, *command, "--help"], prog_name="mindnlp-dp", terminal_width=80)
        assert shown.exit_code == 0, shown.output
        return shown.output

    english, chinese = help_of(), help_of("--lang", "zh")
    assert not CHINESE.search(english)
    assert chinese.startswith("用法：") and "选项" in chinese and "显示本说明并退出。" in chinese
    assert english_words(chinese) <= NAMES, english_words(chinese) - NAMES
    assert all(columns(line) <= 80 for line in chinese.splitlines() if CHINESE.search(line))


# What reads as translated, or is a second word for one thing; and what an engineer writes.
SAID_OTHERWISE = {
    "文件夹": "目录",
    "逐位": "逐比特",
    "正应如此": "符合要求",
    "失去启动器": "孤儿进程",
    "中位 rank": "各 rank 中位数",
    "同样的步子": "每步更新相同",
    "编出来": "模拟数据",
    "只懂": "仅支持",
    "F1 最好": "F1 最高",
}


@pytest.mark.parametrize("other, word", SAID_OTHERWISE.items())
def test_one_thing_has_one_word_which_engineers_use(other, word):
    pages = [*DOCS.rglob("*.zh.md"), *DOCS.parent.glob("README_zh.md"), *EXAMPLES.rglob("*.md")]
    assert len(pages) > 20
    named = [str(page) for page in pages if other in page.read_text(encoding="utf-8")]
    said = [message for message in catalogue("zh")._catalog.values() if other in message]
    assert not named + said, f"{word}, not {other}"
