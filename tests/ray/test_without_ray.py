"""Where Ray is not installed, one line says what installs it; nothing else asks for it."""

import sys

from tests.harness import run

WITHOUT = "import sys; sys.modules['ray'] = None; "


def test_without_ray():
    finished = run([sys.executable, "-c", WITHOUT + "import mindnlp_dp_plugin.ray"])
    line = finished.stderr.strip().splitlines()[-1]
    assert "mindnlp_dp_plugin.ray needs Ray" in line and "pip install 'mindnlp-dp-plugin[ray]'" in line
    assert run([sys.executable, "-c", WITHOUT + "import mindnlp_dp_plugin.cli"]).returncode == 0
