"""A healthy machine passes; every planted fault is found, with its way out, by the real command line."""

import inspect
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import psutil
import pytest

from mindnlp_dp_plugin import doctor
from mindnlp_dp_plugin.doctor.engines import all_reduce
from tests.doctor.conftest import NO_ENGINES
from tests.harness import REPOSITORY

ENGINES = ("all-reduce over mpi", "all-reduce over mccl")


def test_a_check_is_one_short_function_with_a_line_of_help():
    for name, check in (doctor.CHECKS | doctor.ON_ASCEND).items():
        _, help_line, *lines = inspect.getsource(check).splitlines()
        assert help_line.strip().startswith('"""') and help_line.endswith('."""') and len(lines) <= 15, name


def test_a_healthy_machine_passes_and_a_warning_does_not_fail(clinic):
    diagnosis = clinic.diagnose(before=["sh", "-c", 'ulimit -n 512 && exec "$@"', "sh"])
    assert diagnosis.returncode == 0 and diagnosis.failures() == [], diagnosis.findings
    assert diagnosis.level("open files") == "warning"
    assert diagnosis.findings["imports"]["measured"]["device_target"] == "CPU"
    for engine in ENGINES:
        speeds = diagnosis.findings[engine]["measured"]["mb_per_s"]
        assert diagnosis.level(engine) == "ok" and set(speeds) == {"1 KB", "1 MB", "16 MB"}
        assert speeds["1 KB"] > 0 and speeds["16 MB"] > 1
    assert list(clinic.folder.iterdir()) == [], "the doctor leaves nothing behind"


def test_versions_that_do_not_go_together(clinic):
    wrong = {"numpy": "2.1.0", "pyarrow": "21.0.0", "datasets": "4.0.0", "setuptools": "82.0.0"}
    for name, version in {**wrong, "wrapt": "2.2.3.2c7f2141"}.items():
        clinic.install(name, version)
    diagnosis = clinic.diagnose()
    assert diagnosis.returncode == 1 and diagnosis.failures() == ["packages"]
    for name, version in wrong.items():
        assert f"{name} {version} does not fit" in diagnosis.found("packages")
        assert f"'{name}<" in diagnosis.way_out("packages")
    assert "wrapt 2.2.3.2c7f2141 does not fit" in diagnosis.found("packages")
    assert diagnosis.way_out("packages").startswith("pip install ")
    for later in ("imports", *ENGINES):
        assert "not tried" in diagnosis.found(later)


@pytest.mark.parametrize("mindnlp", ["0.5.1", "0.6.0"])
def test_versions_that_do_not_go_with_mindnlp_05(clinic, mindnlp):
    wrong = {"transformers": "5.24.0", "peft": "0.21.2", "diffusers": "0.39.0", "pyarrow": "26.0.0"}
    wrong["mindspore"] = "2.11.0"
    for name, version in {**wrong, "accelerate": "1.11.0", "datasets": "4.8.5", "mindnlp": mindnlp}.items():
        clinic.install(name, version)
    diagnosis = clinic.diagnose()
    assert diagnosis.failures() == ["packages"]
    for name, version in wrong.items():
        assert f"{name} {version} does not fit" in diagnosis.found("packages")
        assert f"'{name}<" in diagnosis.way_out("packages")
    assert "setuptools" not in diagnosis.found("packages")
    is_newer = mindnlp == "0.6.0"
    assert ("mindtorch_v2" in diagnosis.found("packages")) == is_newer
    assert ("'mindnlp<0.6,>=0.5.1'" in diagnosis.way_out("packages")) == is_newer
    assert "datasets" not in diagnosis.found("packages")


def test_a_python_and_a_package_that_are_not_there(clinic):
    clinic.install("mindnlp-dp-plugin", "9.9", "Requires-Python: <3.10\n")
    diagnosis = clinic.diagnose()
    assert diagnosis.returncode == 1 and diagnosis.failures() == ["packages"]
    assert "supported is <3.10" in diagnosis.found("packages")
    clinic.install("mindnlp-dp-plugin", "9.9", "Requires-Python: >=3.10\nRequires-Dist: no-such-package>=1\n")
    diagnosis = clinic.diagnose()
    assert diagnosis.returncode == 1 and diagnosis.failures() == ["packages"]
    assert "no-such-package is not installed" in diagnosis.found("packages")
    assert diagnosis.way_out("packages") == "pip install 'no-such-package>=1'"


def test_without_the_extra_for_a_cpu(clinic):
    of_extra = 'Requires-Dist: no-such-compiler>=1; extra == "cpu"\nRequires-Dist: numpy; extra == "cpu"\n'
    clinic.install("mindnlp-dp-plugin", "9.9", f"Requires-Python: >=3.10\n{of_extra}")
    clinic.environ.update(NO_ENGINES)
    diagnosis = clinic.diagnose()
    assert diagnosis.failures() == ["settings"] and diagnosis.level("CPU operators") == "warning"
    found = "no-such-compiler is not installed: models compute with MindNLP's operators, which are slower"
    assert diagnosis.found("CPU operators") == found
    assert diagnosis.way_out("CPU operators") == "pip install 'mindnlp-dp-plugin[cpu]'"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ImportError('libfoo.so: no such file')", "ImportError: libfoo.so"),
        ("__import__('os').abort()", "SIGABRT"),
    ],
)
def test_a_mindspore_that_does_not_import(clinic, code, said):
    clinic.put_first("mindspore/__init__.py", code)
    diagnosis = clinic.diagnose()
    assert diagnosis.returncode == 1 and diagnosis.failures() == ["imports"]
    assert said in diagnosis.found("imports")


@pytest.mark.parametrize(("backend", "level"), [("mpi", "failure"), ("auto", "warning")])
def test_no_mpirun(clinic, backend, level):
    """By the Python of which the tests' environment was made: no mpirun lies beside it."""
    folders = os.environ["PATH"].split(os.pathsep)
    clinic.environ["PATH"] = os.pathsep.join(folder for folder in folders if not Path(folder, "mpirun").exists())
    clinic.environ["PYTHONPATH"] = f"{REPOSITORY}{os.pathsep}{sysconfig.get_path('purelib')}"
    clinic.python = sys._base_executable
    clinic.environ.update(NO_ENGINES if backend == "auto" else {"MINDNLP_DP_BACKEND": backend})
    diagnosis = clinic.diagnose()
    assert diagnosis.returncode == 1 and diagnosis.level("mpi") == level
    assert "needs mpirun" in diagnosis.found("mpi") and "pip install 'mindnlp-dp-plugin[mpi]'" in diagnosis.way_out(
        "mpi"
    )


def test_ports_all_taken(clinic):
    closed = "ip link set lo up; echo '40000 40003' > /proc/sys/net/ipv4/ip_local_port_range"
    diagnosis = clinic.diagnose_in_namespace("net", closed)
    assert diagnosis.returncode == 1 and diagnosis.failures() == ["ports"]
    assert "ip_local_port_range is 40000-40003" in diagnosis.found("ports")
    assert "sysctl -w net.ipv4.ip_local_port_range" in diagnosis.way_out("ports")


def test_no_loopback(clinic):
    diagnosis = clinic.diagnose_in_namespace("net", "true")
    assert diagnosis.failures() == ["ports"] and "ip link set lo up" in diagnosis.way_out("ports")


def test_a_container_that_is_too_small(clinic):
    small = """
        mount -t tmpfs -o size=1m shm /dev/shm
        mount -t tmpfs cgroup /sys/fs/cgroup
        echo 536870912 > /sys/fs/cgroup/memory.max; echo 536870912 > /sys/fs/cgroup/memory.current
        printf 'anon 268435456\\ninactive_file 268435456\\n' > /sys/fs/cgroup/memory.stat
        echo 50000 100000 > /sys/fs/cgroup/cpu.max
        mount -t tmpfs -o size=1g small /var/tmp
        mount -t tmpfs -o size=1m full . && cd "$PWD"
    """
    clinic.environ["TMPDIR"] = "/var/tmp"
    diagnosis = clinic.diagnose_in_namespace("mount", small)
    assert diagnosis.returncode == 1 and set(diagnosis.failures()) == {"memory", "working directory"}
    assert diagnosis.level("shared memory") == "warning" and "1 of 1 MB free" in diagnosis.found("shared memory")
    assert "--shm-size" in diagnosis.way_out("shared memory")
    assert "0.2 GB available, limited by the container" in diagnosis.found("memory")
    assert "docker --memory" in diagnosis.way_out("memory")
    assert "quota of 0.5" in diagnosis.found("cores") and diagnosis.level("cores") == "warning"
    assert "only 1 MB free" in diagnosis.found("working directory")
    assert "change to a folder with room" in diagnosis.way_out("working directory")
    assert diagnosis.level("temporary folder") == "warning" and "1.0 GB free" in diagnosis.found("temporary folder")


def test_read_only_places_and_limits_of_older_containers(clinic):
    read_only = """
        mount -t tmpfs -o ro none /dev/shm
        mount -t tmpfs cgroup /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir memory cpu
        echo 4294967296 > memory/memory.limit_in_bytes; echo 3221225472 > memory/memory.usage_in_bytes
        echo total_inactive_file 2147483648 > memory/memory.stat
        echo 50000 > cpu/cpu.cfs_quota_us; echo 100000 > cpu/cpu.cfs_period_us
        cd "$OLDPWD"
        for place in /tmp /var/tmp "$PWD"; do mount --bind "$place" "$place"; mount -o remount,ro,bind "$place"; done
        cd "$PWD"
    """
    clinic.environ["TMPDIR"] = ""
    diagnosis = clinic.diagnose_in_namespace("mount", read_only)
    assert set(diagnosis.failures()) == {"working directory", "temporary folder"}
    assert "TMPDIR" in diagnosis.way_out("temporary folder")
    assert diagnosis.level("memory") == "warning" and "BERT-base takes" in diagnosis.found("memory")
    assert "quota of 0.5" in diagnosis.found("cores")
    assert diagnosis.level("shared memory") == "warning" and "cannot be written" in diagnosis.found("shared memory")


def test_too_few_open_files(clinic):
    diagnosis = clinic.diagnose(before=["sh", "-c", 'ulimit -n 40 && exec "$@"', "sh"])
    assert diagnosis.returncode == 1 and diagnosis.failures() == ["open files"]
    assert "40 per process" in diagnosis.found("open files") and "ulimit -n" in diagnosis.way_out("open files")


@pytest.fixture
def stale_rank():
    """A rank whose parent has ended."""
    orphan = f"MS_ROLE=MS_WORKER exec {sys.executable} -c 'import time; time.sleep(600)'"
    command = f'sh -c "{orphan}" </dev/null >/dev/null 2>&1 & echo $!'
    pid = int(subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout)
    if psutil.Process(pid).ppid() != 1:
        psutil.Process(pid).kill()
        pytest.skip("here orphans do not come to process 1")
    yield pid
    psutil.Process(pid).kill()


def test_what_is_only_a_warning(clinic, stale_rank):
    clinic.install("mindformers", "1.3.2")
    clinic.environ.update(NO_ENGINES, MS_ROLE="MS_WORKER", MS_WORKER_NUM="2", MINDNLP_DP_BUKET="4")
    script = clinic.folder / "train.py"
    script.write_text(
        "import mindspore as ms\n"
        "ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, gradients_mean=True)\n"
    )
    one_core = f"ulimit -n 512 && exec taskset -c {min(os.sched_getaffinity(0))}"
    diagnosis = clinic.diagnose(script, before=["sh", "-c", f'{one_core} "$@"', "sh"])
    assert diagnosis.failures() == ["settings"]
    ways_out = {
        "mindformers": "pip uninstall mindformers",
        "variables of a job": "unset MS_ROLE MS_WORKER_NUM",
        "cores": "taskset",
        "open files": "ulimit -n 1024",
        "stale processes": str(stale_rank),
        "script": "delete that call",
    }
    for check, words in ways_out.items():
        assert diagnosis.level(check) == "warning" and words in diagnosis.way_out(check), diagnosis.findings[check]
    assert "mindformers 1.3.2" in diagnosis.found("mindformers")
    assert "2 ranks would share one core" in diagnosis.found("cores")
    assert "line 2, parallel_mode semi_auto_parallel" in diagnosis.found("script")


def test_a_wrong_setting_as_a_table_for_a_log(clinic):
    clinic.environ.update(NO_ENGINES)
    ended = clinic.run()
    assert ended.returncode == 1 and "\x1b" not in ended.stdout
    text = " ".join(ended.stdout.replace("|", " ").split())
    assert "settings failure MINDNLP_DP_BUCKET_CAP_MB='many' is not understood" in text
    assert "-> export a valid value, or unset the variable" in text
    assert "Training would fail here: " in text and "failures: 1" in text
    assert max(len(line) for line in ended.stdout.splitlines()) <= 120


def test_a_misspelt_setting(clinic):
    clinic.put_first("mindspore/__init__.py", "raise ImportError('no need to go on')")
    clinic.environ["MINDNLP_DP_BUKET"] = "4"
    diagnosis = clinic.diagnose()
    assert diagnosis.level("settings") == "failure" and "MINDNLP_DP_BUKET" in diagnosis.found("settings")
    assert "MINDNLP_DP_BUCKET_CAP_MB" in diagnosis.found("settings")


def test_an_engine_that_hangs_and_one_whose_rank_is_killed(clinic):
    clinic.put_first(
        "sitecustomize.py",
        "import os, signal, sys, time\n"
        "if 'OMPI_COMM_WORLD_RANK' in os.environ: time.sleep(600)\n"
        "if os.environ.get('MS_NODE_ID') == '1':\n"
        "    print('last words', flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
        "import wrapt\n"
        "wrapt.register_post_import_hook(\n"
        "    lambda engines: setattr(engines, 'LIMIT_S', 12), 'mindnlp_dp_plugin.doctor.engines')\n",
    )
    clinic.environ["DOCTOR_TEST_MARK"] = str(clinic.folder)
    diagnosis = clinic.diagnose()
    assert diagnosis.returncode == 1 and diagnosis.failures() == ["all-reduce over mpi"]
    assert "no result within 12 s" in diagnosis.found("all-reduce over mpi")
    assert "--backend mccl" in diagnosis.way_out("all-reduce over mpi")
    assert diagnosis.level("all-reduce over mccl") == "warning"
    assert "rank 1" in diagnosis.found("all-reduce over mccl")
    assert "killed by SIGKILL (signal 9)" in diagnosis.found("all-reduce over mccl")
    assert not [process for process in psutil.process_iter() if _is_of_this_test(process, clinic.folder)]


def test_what_cann_said_on_a_rank_comes_with_its_way_out(clinic, monkeypatch):
    said = "EI0019: The IP address 10.0.0.1 and port 60000 have already been bound."
    code = f"import os\nif os.environ.get('MS_NODE_ID') == '1':\n    print('{said}', flush=True); os._exit(1)\n"
    clinic.put_first("sitecustomize.py", code)
    monkeypatch.setenv("PYTHONPATH", clinic.environ["PYTHONPATH"])
    monkeypatch.setenv("MINDNLP_DP_BACKEND", "mccl")
    finding = all_reduce("mccl")
    assert finding.level == "failure" and finding.found == said and "HCCL_IF_BASE_PORT" in finding.way_out


def _is_of_this_test(process, folder):
    try:
        return process.environ().get("DOCTOR_TEST_MARK") == str(folder) and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def test_a_script_that_is_not_there(clinic):
    ended = clinic.run("nowhere.py")
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr.count("\n") == 1 and "nowhere.py" in ended.stderr
