"""What is installed beside MindNLP 0.5: the doctor checks it, and an import names what is too new."""

from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement

from mindnlp_dp_plugin import compat
from mindnlp_dp_plugin.doctor import packages
from mindnlp_dp_plugin.doctor.finding import Level


def test_the_doctor_checks_what_mindnlp_05_needs():
    for finding in (packages.versions(), packages.imports()):
        assert finding.level is Level.OK, finding
    assert "diffusers 0.35.2" in packages.versions().found


@pytest.mark.parametrize("name", compat.TOO_NEW)
def test_what_mindnlp_cannot_import_is_refused_by_name(python, tmp_path, name):
    """Real metadata of another version, found before the installed one."""
    bound = compat.TOO_NEW[name]
    folder = tmp_path / f"{name}-{bound}.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {bound}.0\n")
    finished = python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mindnlp_dp_plugin")
    last = finished.stderr.splitlines()[-1]
    assert f"{name} {bound}.0 is installed" in last and f"pip install '{name}<{bound}'" in last


def test_the_extra_has_the_same_bounds():
    lines = [Requirement(line) for line in requires("mindnlp-dp-plugin")]
    of_extra = {line.name: line.specifier for line in lines if line.marker and "mindnlp05" in str(line.marker)}
    assert {name: f"<{bound}" in str(of_extra[name]) for name, bound in compat.TOO_NEW.items()} == {
        name: True for name in compat.TOO_NEW
    }


def test_a_rank_is_pinned_before_numpy_is_loaded(python):
    finished = python("import sys, mindnlp_dp_plugin; assert 'numpy' not in sys.modules")
    assert finished.returncode == 0, finished.stderr


def test_data_sets_without_rows_are_the_same(python):
    code = (
        "import mindnlp_dp_plugin, mindnlp\n"
        "from mindnlp_dp_plugin.collectives.single import SingleProcess\n"
        "from mindnlp_dp_plugin.trainers.transformers.same_rows import require_same_rows\n"
        "require_same_rows('train_dataset', [], SingleProcess())"
    )
    finished = python(code)
    assert finished.returncode == 0, finished.stderr
