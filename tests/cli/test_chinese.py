"""What commands and ranks say to a Chinese user."""

import json
import re
import sys

from tests.harness import run

COMMAND = [sys.executable, "-m", "mindnlp_dp_plugin.cli"]


def test_bad_input_is_refused_in_chinese():
    def refused(*words, **environ):
        ended = run([*COMMAND, *words], env={"MINDNLP_DP_LANG": "", **environ})
        assert ended.returncode == 2 and len(ended.stderr.splitlines()) == 1
        return ended.stderr

    chinese = {"LC_ALL": "zh_CN.UTF-8"}
    assert refused("run", "--nproc", "2", "gone.py", **chinese).startswith("mindnlp-dp: 错误：脚本 'gone.py' 不存在")
    assert (
        refused("run", "--colour", **chinese)
        == "mindnlp-dp: 错误：没有选项 '--colour'。脚本自身的选项请写在脚本名之后。\n"
    )
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
    assert shown.returncode == 1 and "本机无法训练：检查" in shown.stdout
    text = re.sub(r"\s*\|\s*\|\s*\|\s*", "", shown.stdout)
    for said in ("软件包", "作业的变量", "共享内存", "没有设置种子", "'soon'", "请先解决上面的失败项"):
        assert said in text, said
    found = json.loads(run([*COMMAND, "doctor", "--json"], env=environ).stdout)["findings"]
    assert {"settings", "cores", "shared memory"} <= {each["check"] for each in found}
    assert {each["level"] for each in found} <= {"ok", "warning", "failure"}
