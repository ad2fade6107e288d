"""In which language messages are, and that what is shown in Chinese is Chinese."""

import json
import pickle
import re
import sys

import pytest
from click.testing import CliRunner

from mindnlp_dp_plugin.cli import commands
from mindnlp_dp_plugin.command_line import columns, speak
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, language, tr
from tests.harness import run

COMMAND = [sys.executable, "-m", "mindnlp_dp_plugin.cli"]
CHINESE = re.compile("[\u4e00-\u9fff]")
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
    *("mindnlp", "doctor", "run", "bench", "recipe", "predict", "rank", "traceback", "traces", "trace", "worker"),
    *("checkpoint", "epoch", "token", "batch", "auto", "hccl", "mpi", "mccl", "pod", "msrun", "srun", "mpirun"),
    *("csv", "tsv", "json", "jsonl", "parquet", "xlsx", "txt", "minilm", "causal", "balanced", "dev", "dropout"),
    *("modelscope", "tensorboard", "assistant", "recipes", "train", "test", "zh", "en", "shell", "small", "label"),
    *("classification", "regression", "linear", "none"),
}


@pytest.mark.parametrize(
    "command", [[], ["run"], ["doctor"], ["bench"], ["predict"], ["recipe"], ["recipe", "classification"]]
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
    assert chinese.startswith("用法:") and "选项" in chinese and "显示本说明并退出。" in chinese
    assert english_words(chinese) <= NAMES, english_words(chinese) - NAMES
    assert all(columns(line) <= 80 for line in chinese.splitlines() if CHINESE.search(line))


def test_bad_input_is_refused_in_chinese():
    def refused(*words, **environ):
        ended = run([*COMMAND, *words], env={"MINDNLP_DP_LANG": "", **environ})
        assert ended.returncode == 2 and len(ended.stderr.splitlines()) == 1
        return ended.stderr

    chinese = {"LC_ALL": "zh_CN.UTF-8"}
    assert refused("run", "--nproc", "2", "gone.py", **chinese).startswith("mindnlp-dp: 错误：脚本 'gone.py' 不存在")
    assert refused("run", "--colour", **chinese) == "mindnlp-dp: 错误：没有选项 '--colour'。\n"
    assert "0 不在范围 x>=1 内" in refused("--lang", "zh", "run", "--nproc", "0")
    assert "No such option" in refused("--lang", "en", "run", "--colour", **chinese)
    for unknown in (refused("--lang", "fr", LC_ALL="C"), refused("run", MINDNLP_DP_LANG="fr", LC_ALL="C")):
        assert "'fr' is not one of 'en', 'zh'" in unknown


def test_a_rank_and_its_launcher_speak_chinese(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import mindnlp_dp_plugin as dp\n"
        "from mindnlp_dp_plugin.collectives import current, require_same\n"
        "require_same('seed', dp.get_rank(), current(), 'Seed it alike.')\n"
    )
    logs = tmp_path / "logs"
    command = [*COMMAND, "--lang", "zh", "run", "--nproc", "2", "--log-dir", logs, script]
    ended = run([str(word) for word in command], env={"MINDNLP_DP_LANG": "en"})
    assert ended.returncode == 1
    lines = ended.stderr.splitlines()
    assert re.fullmatch(r"mindnlp-dp: .+ 上的 rank \d 最先失败：DataParallelError，退出状态 1", lines[0])
    assert lines[1] == "DataParallelError: 各 rank 的 seed 不同：rank 0 是 0；rank 1 是 1。Seed it alike."
    assert lines[2].startswith("mindnlp-dp: 其余 rank 都已结束；它的日志：")
    result = json.loads((logs / "result.json").read_text())
    assert result["status"] == "failed" and result["first_failure"]["exception"] == "DataParallelError"


def test_the_doctor_speaks_chinese(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import random\nrandom.random()\n")
    # A version that does not fit ends it before two ranks start.
    environ = {"MINDNLP_DP_LANG": "zh", "MINDNLP_DP_TIMEOUT": "soon"}
    shown = run([*COMMAND, "doctor", str(script)], env=environ)
    assert shown.returncode == 1 and "这里无法训练：检查" in shown.stdout
    text = re.sub(r"\s*\|\s*\|\s*\|\s*", "", shown.stdout)
    for said in ("软件包", "作业的变量", "共享内存", "没有设置种子", "'soon'", "请先解决上面的失败项"):
        assert said in text, said
    found = json.loads(run([*COMMAND, "doctor", "--json"], env=environ).stdout)["findings"]
    assert {"settings", "cores", "shared memory"} <= {each["check"] for each in found}
    assert {each["level"] for each in found} <= {"ok", "warning", "failure"}
