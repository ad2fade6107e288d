"""Runs ``mindnlp-dp doctor`` as users do, on a machine made ill."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness import REPOSITORY, run

# A wrong setting is found by a cheap check, so that no engine is tried: for tests of what else is found.
NO_ENGINES = {"MINDNLP_DP_BUCKET_CAP_MB": "many"}


@dataclass
class Diagnosis:
    """How a run of the doctor ended."""

    returncode: int
    findings: dict

    def level(self, check):
        return self.findings[check]["level"]

    def found(self, check):
        return self.findings[check]["found"]

    def way_out(self, check):
        return self.findings[check]["way_out"]

    def failures(self):
        return [name for name, finding in self.findings.items() if finding["level"] == "failure"]


class Clinic:
    """A folder, an environment, and words before the command, all of which a test may spoil."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.python = sys.executable
        self.environ = {"PYTHONPATH": str(REPOSITORY)}

    def put_first(self, path, text):
        """Writes a file into a folder that Python searches before all others."""
        file = self.folder / "first" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.environ["PYTHONPATH"] = f"{self.folder / 'first'}{os.pathsep}{REPOSITORY}"

    def install(self, name, version, more=""):
        """Makes a package look installed, before the real one if there is one."""
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"
        self.put_first(f"{name.replace('-', '_')}-{version}.dist-info/METADATA", text)

    def run(self, *arguments, before=()):
        """The finished command."""
        command = [*before, self.python, "-m", "mindnlp_dp_plugin.cli", "doctor", *arguments]
        return run(command, env=self.environ, cwd=self.folder)

    def diagnose(self, *arguments, before=()):
        """What ``doctor --json`` finds."""
        ended = self.run("--json", *arguments, before=before)
        report = json.loads(ended.stdout)
        assert report["healthy"] == (ended.returncode == 0)
        return Diagnosis(ended.returncode, {finding["check"]: finding for finding in report["findings"]})

    def diagnose_in_namespace(self, kind, preparation, *arguments):
        """The same in a mount or net namespace of its own, which ``preparation``, a shell script, spoils."""
        own = ["unshare", "--map-root-user", f"--{kind}"]
        if shutil.which("unshare") is None or subprocess.run([*own, "true"], capture_output=True).returncode:
            pytest.skip(f"this machine allows no {kind} namespaces")
        return self.diagnose(*arguments, before=[*own, "sh", "-ec", f'{preparation}\nexec "$@"', "sh"])


@pytest.fixture
def clinic(tmp_path):
    return Clinic(tmp_path)
