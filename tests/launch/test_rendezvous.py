"""What strangers say to the launchers of several nodes: it costs them their connection, and nobody else anything."""

import json
import random
import socket
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.connection import Connection
from mindnlp_dp_plugin.job.error_record import ErrorRecord, printable
from mindnlp_dp_plugin.job.secret import pack, unpack
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.ports import control_port
from mindnlp_dp_plugin.launch.rendezvous.agreement import Coordinator, Participant
from mindnlp_dp_plugin.launch.rendezvous.meeting import Deadline, RendezvousServer, introduce, wait_for_welcome
from mindnlp_dp_plugin.launch.restarts import Restarts
from mindnlp_dp_plugin.launch.signals import Signals
from tests.launch.pieces import PROMPTLY_S
from tests.ports import free_port

NUM_STRANGERS = 10_000
LINES_EACH = 10
FAILURE = ErrorRecord(1, "there", time.time_ns(), 1, "ValueError", node_rank=1, words="rank 1 failed").as_message()
VALUES = [
    None, True, 0, 1, -1, 99, 1e400, 10**30, "", "x", "\x1b[2J", "\ud800", [], [1], {}, {"a": 1}, FAILURE,
    {"--nproc": 2}, {"--nnodes": 2, "--nproc": 1, "--backend": "mccl"},
]  # fmt: skip
INTRODUCTION = {"node_rank": 1, "name": "there", "asked_for": {}, "challenge": "c", "proof": "of nothing"}
KEYS = [*INTRODUCTION, "failure", "first", "done", "question", "welcome"]
DEPTHS = range(800, 1000)  # what can be read, and then perhaps not be written
BYTES = [b"[" * 70_000, b'{"a":' * 1000, b"GET / HTTP/1.1\r\n", b"\xff\xfe", b"", b"\0" * 100, b"1", b"null", b"NaN"]


def test_what_nodes_compare_is_the_same_before_and_after_it_has_travelled():
    for text in ("two\nlines", "\x1b[2J" * 2000, "中文" * 3000):
        failure = ErrorRecord(0, "here", time.time_ns(), 1, "ValueError", text, step=3)
        told = ErrorRecord.from_message(json.loads(json.dumps(failure.as_message())))
        again = Restarts(9)
        assert again.why_not(failure) is None
        assert again.why_not(told) == "the same ValueError came twice at step 3"


def random_line(chance):
    if chance.random() < 0.2:
        return chance.choice(BYTES) + b"\n"
    if chance.random() < 0.5:
        message = {**INTRODUCTION, chance.choice(list(INTRODUCTION)): chance.choice(VALUES)}
    else:
        message = {key: chance.choice(VALUES) for key in chance.sample(KEYS, chance.randrange(5))}
    if chance.random() < 0.3:
        message["failure"] = {**FAILURE, chance.choice(list(FAILURE)): chance.choice(VALUES)}
    return json.dumps(message).encode() + b"\n"


@pytest.fixture
def server():
    job = Job(["script.py"], 1, "mccl", Path(), 2, 0, "127.0.0.1", free_port(), secret="a secret of this job")
    with closing(RendezvousServer(job)) as server:
        yield server, job


def test_a_hundred_thousand_messages_of_strangers_change_nothing(server):
    server, job = server
    chance = random.Random(6)
    address = (job.master_addr, control_port(job.master_port))
    for _ in range(NUM_STRANGERS // 50):
        strangers = [socket.create_connection(address) for _ in range(50)]
        for stranger in strangers:
            with suppress(OSError):  # it may have hung up already
                stranger.sendall(b"".join(random_line(chance) for _ in range(LINES_EACH)))
            if chance.random() < 0.02:
                server.look()
        server.look()
        for stranger in strangers:
            stranger.close()
    assert not server.nodes
    idle = []
    for number in range(300):
        idle.append(socket.create_connection(address))
        if number % 50 == 0:
            server.look()
    began = time.monotonic()
    with Signals() as signals, closing(Connection(socket.create_connection(address), address[0])) as connection:
        other = Job(["script.py"], 1, "mccl", Path(), 2, 1, "127.0.0.1", job.master_port, secret=job.secret)
        while not server.nodes:
            server.look()
            for message in connection.receive():
                if "challenge" in message:
                    introduce(connection, other, message["challenge"], "theirs")
            assert time.monotonic() - began < PROMPTLY_S, "the real node is received at once"
        server.wait(signals, Deadline(PROMPTLY_S), Restarts(0))
        with pytest.raises(DataParallelError, match="does not know this job's secret"):
            server.nodes[1].send(proof="of nothing")
            wait_for_welcome(connection, other, signals, Deadline(PROMPTLY_S))
    for each in idle:
        each.close()


@pytest.mark.parametrize("place", ["challenge", "asked_for"])
def test_a_stranger_who_says_something_deep_loses_his_connection_alone(server, place):
    server, job = server
    for depth in DEPTHS:
        nested = {"challenge": "[" * depth + "]" * depth, "asked_for": '{"a":' * depth + "1" + "}" * depth}[place]
        said = json.dumps({**INTRODUCTION, place: "HERE"}).replace('"HERE"', nested)
        with socket.create_connection((job.master_addr, control_port(job.master_port))) as stranger:
            stranger.sendall(said.encode() + b"\n")
            server.look()
    assert not server.nodes


def connected():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        return Connection(ours, "there"), listener.accept()[0]


def test_what_comes_in_one_packet_with_the_welcome_is_heard():
    connection, node_0 = connected()
    job = Job(["script.py"], 1, "mccl", Path(), 2, 1, "127.0.0.1", free_port())
    with node_0, closing(connection), Signals() as signals:
        node_0.sendall(
            b"".join(json.dumps(message).encode() + b"\n" for message in ({"welcome": {}}, {"first": FAILURE}))
        )
        assert wait_for_welcome(connection, job, signals, Deadline(PROMPTLY_S)) == {}
        member = Participant(connection)
        member.exchange()
        told = replace(ErrorRecord.from_message(FAILURE), time_ns=member.first_failure.time_ns)
        assert member.first_failure == told


def test_garbage_from_a_node_that_has_joined_loses_that_node_alone():
    chance = random.Random(7)
    for _ in range(1000):
        connection, stranger = connected()
        member = chance.choice([Participant(connection), Coordinator({1: connection}, {1: "there"})])
        with stranger, closing(connection):
            stranger.sendall(b"".join(random_line(chance) for _ in range(5)))
            for _ in range(3):
                member.exchange()
        if member.first_failure:
            assert member.first_failure.words == printable(member.first_failure.words)


def test_texts_of_others_are_shown_without_what_a_terminal_obeys():
    assert printable("a\x1b[31m\nb\u202e\x9b") == "a\\x1b[31m\\nb\\u202e\\x9b"
    assert printable("节点 é") == "节点 é"


def test_objects_of_ranks_are_signed_with_the_secret(monkeypatch):
    assert unpack(pack({"a": [1]})) == {"a": [1]}
    monkeypatch.setenv("MINDNLP_DP_SECRET", "a secret of this job")
    signed = pack({"a": [1]})
    assert unpack(signed) == {"a": [1]}
    monkeypatch.setenv("MINDNLP_DP_SECRET", "another one, a guess")
    with pytest.raises(DataParallelError, match="not signed with this job's MINDNLP_DP_SECRET"):
        unpack(signed)
