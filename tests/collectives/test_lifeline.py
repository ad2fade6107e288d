"""Ranks hear how others end; whoever else connects to rank 0 keeps nobody waiting."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mindnlp_dp_plugin.collectives import lifeline
from mindnlp_dp_plugin.collectives.lifeline import End, tie
from mindnlp_dp_plugin.collectives.single import SingleProcess


class Ranks:
    """Ranks that are threads; ``met`` is called with the address of rank 0 before others know it."""

    def __init__(self, num, met=lambda address: None):
        self.num, self._met = num, met
        self._told, self._value = threading.Event(), None

    def tied(self):
        with ThreadPoolExecutor(self.num) as pool:
            return list(pool.map(self.tied_as, range(self.num)))

    def tied_as(self, rank):
        group = SingleProcess()
        group.rank, group.world_size = rank, self.num
        group.all_gather_object = self._meet
        return tie(group, ("127.0.0.1", 9))

    def _meet(self, value, purpose):
        if value:
            (address,), port, token = value
            self._met((address, port))
            self._value = value
            self._told.set()
        self._told.wait()
        return [self._value]


def heard(line):
    deadline = time.monotonic() + 10
    while not (loss := line.first_lost()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return loss.rank, loss.end


def test_all_ranks_hear_of_one_that_fails_and_none_of_those_that_are_done():
    lines = Ranks(4).tied()
    lines[1].say(End.DONE)
    lines[2].say(End.FAILED)
    assert {heard(lines[rank]) for rank in (0, 1, 3)} == {(2, End.FAILED)}


@pytest.mark.parametrize("gone", [0, 1])
def test_all_ranks_hear_of_one_that_is_gone_without_a_word(gone):
    lines = Ranks(3).tied()
    lines[gone]._close()
    assert {heard(lines[rank]) for rank in range(3) if rank != gone} == {(gone, End.GONE)}


def test_strangers(monkeypatch):
    """One says nothing, one leaves at once, one speaks another protocol, one has a token of its own."""
    strangers = []

    def connect(address):
        for said in (b"", None, b"GET / HTTP/1.1\r\n" * 1000, lifeline.HELLO.pack(b"x" * lifeline.TOKEN, 1)):
            strangers.append(socket.create_connection(address))
            strangers[-1].sendall(said or b"")
            if said is None:
                strangers[-1].close()

    began = time.monotonic()
    lines = Ranks(3, connect).tied()
    assert time.monotonic() - began < lifeline.TIE_S / 2
    lines[1].say(End.FAILED)
    assert {heard(lines[rank]) for rank in (0, 2)} == {(1, End.FAILED)}
    for stranger in strangers:
        stranger.close()


def test_what_a_rank_says_while_others_have_yet_to_connect_is_not_lost():
    ranks = Ranks(3)

    def join(rank):
        time.sleep(0.3 if rank == 2 else 0)
        line = ranks.tied_as(rank)
        if rank == 1:
            line.say(End.FAILED)
        return line

    with ThreadPoolExecutor(3) as pool:
        first, *others = pool.map(join, range(3))
    assert heard(first) == heard(others[1]) == (1, End.FAILED)
