"""Whatever is in the configuration, the environment and on the command line: the right answer, or one clear error."""

import itertools
import json
import math
import random
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from click import ClickException
from click.testing import CliRunner

from mindnlp_dp_plugin.cli.program import commands
from mindnlp_dp_plugin.config import (
    AVERAGES,
    BACKENDS,
    COMM_DTYPES,
    SWITCH_WORDS,
    DataParallelConfig,
)
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import VARIABLES, detect, detect_nodes
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.variables import LOCAL_RANK, LOCAL_WORLD_SIZE, of_setting

NUM_CASES = 10_000
FIELDS = [field.name for field in fields(DataParallelConfig)]
MEAN_SET = 4
SETTINGS = {of_setting(name): name for name in FIELDS}

TEXTS = [
    "", " ", "0", "1", "2", "3", "4", "7", "-1", "-0", "+2", " 2 ", "2.0", "1e3", "1e400", "-1e-9", "nan", "inf",
    "-inf", "1_000", "0x2", "\u0663", "\u00b2", "\uff12", "two", "None", "True", "on", "OFF", "yes", "9" * 30,
    "9" * 5000, "\0", "a\nb", "\udcff", "\U0001f600", "mpi", "MCCL", "hccl", "auto", "ranks", "tokens", "/nowhere",
    "/", "a" * 5000, "{}", "measured", "3,4", "3,0", "3,4,5",
]  # fmt: skip
VALUES = [
    None, True, False, 0, 1, -1, 3, 25, 10**400, -(10**400), 0.0, -0.0, 0.5, 1e308, math.nan, math.inf, -math.inf, 2j,
    b"mpi", [], ["mpi"], (), {}, {"a": 1}, {1}, object(), int, len, np.float32(2), np.float64(2), np.int64(2),
    np.array([1, 2]), np.array("mpi"), (3, 4), (3, 0), Path("trace.json"), Path("a\0b"), range(3), *TEXTS,
    *BACKENDS, *AVERAGES, *COMM_DTYPES,
]  # fmt: skip


@pytest.fixture(scope="module")
def rank_tables(tmp_path_factory):
    """Files that are rank tables, or nearly: path to the ranks of each host, or None if it is no table."""
    folder = tmp_path_factory.mktemp("tables")

    def table(*hosts):
        return {"server_list": [{"device": [{"rank_id": rank} for rank in ranks]} for ranks in hosts]}

    contents = {
        "one_host": (table("01"), [[0, 1]]),
        "two_hosts": (table("02", "31"), [[0, 2], [1, 3]]),
        "numbers": (table([0, 1, 2, 3]), [[0, 1, 2, 3]]),
        "twice": (table("00", "11"), None),
        "gap": (table("01", "34"), None),
        "negative": (table(["-1", "0"]), None),
        "infinite": (table([math.inf, 0]), None),
        "not_whole": (table([0.5, 1.5]), None),
        "words": (table("ab"), None),
        "null": (table([None, 0]), None),
        "huge": (table(["9" * 5000, 0]), None),
        "no_hosts": (table(), None),
        "list": ([1, 2], None),
        "number": (3, None),
    }
    known = {}
    for name, (content, hosts) in contents.items():
        (folder / name).write_text(json.dumps(content))
        known[str(folder / name)] = hosts
    (folder / "bytes").write_bytes(b"\xff\xfe\x00")
    (folder / "deep").write_text("[" * 100_000)
    return {**known, **{str(path): None for path in (folder, folder / "bytes", folder / "deep", folder / "absent")}}


def test_values_of_any_type_in_a_configuration():
    chance = random.Random(1)
    num_right = 0
    for _ in range(NUM_CASES):
        given = {name: chance.choice(VALUES) for name in FIELDS if chance.random() < MEAN_SET / len(FIELDS)}
        try:
            config = DataParallelConfig(**given)
        except DataParallelError as error:
            assert any(f"{name}=" in str(error) for name in given), (given, error)
            continue
        num_right += 1
        assert_makes_sense(config)
        assert all(getattr(config, name) is value for name, value in given.items())
    assert num_right > 50


def assert_makes_sense(config):
    assert config.backend in BACKENDS and config.average_over in AVERAGES
    assert config.bucket_cap_mb is None or 0 <= config.bucket_cap_mb < math.inf
    assert config.comm_dtype in COMM_DTYPES
    assert config.cpu_tuning in (True, False) and config.cpu_operators in (True, False)
    assert 0 < float(config.timeout) < math.inf
    assert config.profile is None or config.profile[0] >= 0 and 0 < config.profile[1] <= 100
    assert config.peak_tflops in (None, "measured") or 0 < config.peak_tflops < math.inf
    assert config.check_replicas_every is None or config.check_replicas_every >= 0


def test_any_settings_in_the_environment():
    chance = random.Random(2)
    num_right = 0
    for _ in range(NUM_CASES):
        environ = {name: chance.choice(TEXTS) for name in SETTINGS if chance.random() < MEAN_SET / len(FIELDS)}
        try:
            config = DataParallelConfig.from_env(environ)
        except DataParallelError as error:
            assert any(str(error).startswith(name) for name in environ), (environ, error)
            continue
        num_right += 1
        assert_makes_sense(config)
        for variable, text in environ.items():
            said = getattr(config, SETTINGS[variable])
            if not text:
                assert said == getattr(DataParallelConfig(), SETTINGS[variable])
            elif isinstance(said, bool):
                assert said is SWITCH_WORDS[text.lower()]
            elif isinstance(said, tuple):
                assert ",".join(map(str, said)) == text
            else:
                assert said == type(said)(text)
    assert num_right > 100


LAUNCHERS = {
    "msrun": {"MS_ROLE": ["MS_WORKER"] * 9 + ["MS_SCHED", "MS_PAPER"], "MS_WORKER_NUM": None, "MS_NODE_ID": None},
    "open_mpi": dict.fromkeys(f"OMPI_COMM_WORLD_{what}" for what in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    "mpich": dict.fromkeys(["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"]),
    "rank_table": {"RANK_TABLE_FILE": "tables", "RANK_ID": None, "RANK_SIZE": ["2", "4", "2", "4", "0", "1"]},
    "torchrun": dict.fromkeys(["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]),
}
LAUNCHERS["noise"] = dict.fromkeys([*itertools.chain(*LAUNCHERS.values()), "DEVICE_ID"])


def random_environment(chance, tables):
    """What one launcher sets, sometimes two; complete or not, sensible or not."""
    environ = {}
    for launcher in chance.sample(list(LAUNCHERS), chance.choice([1, 1, 2])):
        is_careful = chance.random() < 0.6
        for name, choices in LAUNCHERS[launcher].items():
            if chance.random() < (0.05 if is_careful else 0.3) + 0.6 * (launcher == "noise"):
                continue
            if choices == "tables" or name == "RANK_TABLE_FILE":
                choices = list(tables)
            elif choices is None:
                choices = ["0", "1", "2", "3", "4"] if is_careful else TEXTS
            environ[name] = chance.choice(choices)
    often = {"DEVICE_ID": "0125", LOCAL_RANK: "012", LOCAL_WORLD_SIZE: "1248", "MS_SCHED_HOST": ["127.0.0.1", "h"]}
    for name, choices in often.items():
        if chance.random() < 0.2:
            environ[name] = chance.choice([*choices, *TEXTS[:8]])
    return {**environ, "MASTER_ADDR": "master", "MASTER_PORT": "29500"}


def identity_said_by(environ, tables):
    """The slow and obvious reading of an environment; None where it makes no sense."""

    def number(name):
        value = None
        with suppress(KeyError, ValueError):
            value = int(environ[name])
        return value if value is not None and value >= 0 else None

    def checked(rank, size, local_rank, local_size, launcher):
        if None in (rank, size, local_rank) or not rank < size:
            return None
        if local_size is not None and not 0 < local_size <= size:
            return None
        return RankInfo(rank, size, local_rank, local_size, launcher)

    def of_mpi(*names):
        rank, size, local_rank, local_size = map(number, names)
        if None in (local_rank, local_size) or local_rank >= local_size:
            return None
        return checked(rank, size, local_rank, local_size, "mpirun")

    if "MS_ROLE" in environ:
        size = number("MS_WORKER_NUM")
        if environ["MS_ROLE"] == "MS_SCHED":
            return RankInfo(0, size, 0, None, "msrun", True) if size else None
        if environ["MS_ROLE"] != "MS_WORKER":
            return None
        rank = number("MS_NODE_ID")
        local_size = size if environ.get("MS_SCHED_HOST", "").startswith("127.") else None
        if LOCAL_WORLD_SIZE in environ:
            local_size = number(LOCAL_WORLD_SIZE) or 0
        local_rank = next((number(name) for name in (LOCAL_RANK, "DEVICE_ID") if name in environ), rank)
        return checked(rank, size, local_rank, local_size, "msrun")
    if "OMPI_COMM_WORLD_SIZE" in environ:
        return of_mpi(*LAUNCHERS["open_mpi"])
    if "PMI_SIZE" in environ:
        return of_mpi(*LAUNCHERS["mpich"])
    if {"RANK", "WORLD_SIZE", "LOCAL_RANK"} <= environ.keys() and number("WORLD_SIZE") != 1:
        local_size, local_rank, size = (number(name) for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK", "WORLD_SIZE"))
        if "LOCAL_WORLD_SIZE" in environ and local_size is None:
            return None
        if not size or local_rank is None or local_rank >= (local_size or size):
            return None
        found = checked(number("RANK"), size, local_rank, local_size, "torchrun")
        return found and replace(found, scheduler=("master", 29501))
    if {"RANK", "WORLD_SIZE"} <= environ.keys() and number("WORLD_SIZE") != 1 and "LOCAL_RANK" not in environ:
        found = checked(number("RANK"), number("WORLD_SIZE") or 0, 0, 1, "PyTorchJob")
        return found and replace(found, scheduler=("master", 29500))
    if "RANK_SIZE" in environ:
        size, rank = number("RANK_SIZE"), number("RANK_ID")
        if size == 1:
            return RankInfo()
        hosts = tables.get(environ.get("RANK_TABLE_FILE"))
        mine = [host for host in hosts or [] if rank in host]
        if not size or not mine or sum(map(len, hosts)) != size:
            return None
        return checked(rank, size, mine[0].index(rank), len(mine[0]), "ranktable")
    return RankInfo()


def test_any_launchers_variables(rank_tables):
    chance = random.Random(3)
    launchers = dict.fromkeys(["none", "msrun", "mpirun", "torchrun", "PyTorchJob", "ranktable"], 0)
    for _ in range(NUM_CASES):
        environ = random_environment(chance, rank_tables)
        expected = identity_said_by(environ, rank_tables)
        try:
            identity = detect(environ)
        except DataParallelError as error:
            assert expected is None, (environ, error)
            assert any(name in str(error) for name in [*VARIABLES, "DEVICE_ID"]), (environ, error)
            assert "\n" not in str(error), (environ, error)
            continue
        assert identity == expected, environ
        launchers[identity.launcher] += 1
    assert min(launchers.values()) > 20, launchers


SYSTEMS = [
    *VARIABLES, "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST",
    "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT", "PET_NNODES",
    "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NPROC_PER_NODE", "MA_NUM_HOSTS", "VC_TASK_INDEX",
    "VC_WORKER_HOSTS", "VC_WORKER_NUM", "VC_[_HOSTS", "VC_[_NUM", "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES",
    "SKYPILOT_NODE_IPS", "SLURM_JOB_NUM_NODES", "MINDNLP_DP_JOB",
]  # fmt: skip


NAMES = ["AscendJob", "Kubeflow", "ModelArts", "Volcano", "SkyPilot"]


def test_any_systems_variables_are_read_or_refused_in_one_line():
    chance = random.Random(5)
    texts = [*TEXTS, "2(x2)", "1,1", "n[1-2]", "n1,n2", "[", "],", "1(x999999)", "host", "2 2"]
    num_read = 0
    for _ in range(NUM_CASES):
        names = chance.sample(SYSTEMS, chance.randrange(len(SYSTEMS)))
        environ = {name: chance.choice(texts if chance.random() < 0.3 else ["1", "2"]) for name in names}
        for read in (detect, detect_nodes):
            try:
                num_read += bool(read(environ))
            except DataParallelError as error:
                assert "\n" not in str(error) and any(name in str(error) for name in [*SYSTEMS, *NAMES]), (
                    environ,
                    error,
                )
    assert num_read > NUM_CASES / 10


OPTIONS = {
    "--nproc": ["1", "2", "3", "64", "0", "-1", "two", ""],
    "--nnodes": ["1", "2", "0", "x", "2:3", "9" * 30],
    "--master-port": ["0", "1", "65535", "65536", "x"],
    "--backend": ["auto", "mccl", "mpi", "hccl", "gloo", ""],
    "--log-dir": ["", "logs", "/", "\udcff"],
    "--max-restarts": ["0", "3", "-1", "9" * 30],
}
MODULES = ["json.tool", "json", "", ".json", "json.", "a/b", "\udcff"]
SCRIPTS = [
    [__file__],
    ["nowhere.py"],
    [""],
    ["/"],
    ["\udcff"],
    ["a" * 5000],
    [],
    ["-m"],
    *(["-m", name] for name in MODULES),
]
WORDS = [text for text in TEXTS if "\0" not in text]  # which no process can be given


def test_any_command_line_of_run():
    chance = random.Random(4)
    runner = CliRunner()
    num_planned = num_refused = 0
    for _ in range(1000):
        words = ["run", "--dry-run", "--nproc", "2"]
        for name, values in OPTIONS.items():
            if chance.random() < 0.1:
                words += [name, chance.choice(values)]
        words += [*chance.choice([*[SCRIPTS[0]] * 5, *SCRIPTS]), chance.choice(WORDS)]
        environ = dict.fromkeys(SETTINGS)
        environ[chance.choice([name for name in SETTINGS if not environ[name]])] = chance.choice(WORDS)
        outcome = runner.invoke(commands, words, env=environ, standalone_mode=False)
        if outcome.exception is None:
            num_planned += 1
            assert outcome.output.startswith("GLOG_v=3 ") and "  # " in outcome.output, words
        else:
            num_refused += isinstance(outcome.exception, DataParallelError)
            assert isinstance(outcome.exception, (ClickException, DataParallelError)), (
                words,
                environ,
                outcome.exc_info,
            )
            assert str(outcome.exception).strip(), words
    assert num_planned > 50 and num_refused > 50
