"""Ascend's rank table: a file that lists every rank and its device, beside ``RANK_ID`` and ``RANK_SIZE``.

https://www.hiascend.com (HCCL, rank table). Machines with Ascend cards often export it for every shell.
"""

import json
from itertools import chain
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments.base import Environment, number
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.language import Message

HINT = Message("start each rank with RANK_TABLE_FILE, RANK_ID and RANK_SIZE, or unset RANK_SIZE to train alone")


class RankTable(Environment):
    """A rank that the user's script started."""

    variables = ("RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE")

    def is_present(self, environ):
        return "RANK_SIZE" in environ and number(environ, "RANK_SIZE", HINT, 1) > 1

    def rank_info(self, environ):
        world_size = number(environ, "RANK_SIZE", HINT, 1)
        rank = number(environ, "RANK_ID", HINT, 0, world_size - 1)
        if "RANK_TABLE_FILE" not in environ:
            raise DataParallelError(
                "RANK_SIZE={world_size} asks for several ranks but RANK_TABLE_FILE is not set: import "
                "mindnlp_dp_plugin before mindnlp (whose import removes it), start with mindnlp-dp run, or unset "
                "RANK_SIZE to train alone.",
                world_size=world_size,
            )
        path = environ["RANK_TABLE_FILE"]
        nodes = _ranks_per_node(path)
        if sorted(chain.from_iterable(nodes)) != list(range(world_size)):
            raise DataParallelError(
                "RANK_TABLE_FILE={path!r} does not list each of the ranks 0 to {last} once, as RANK_SIZE={world_size} "
                "asks for: export the RANK_SIZE of the table, or make a new table.",
                path=path,
                last=world_size - 1,
                world_size=world_size,
            )
        mine = next(ranks for ranks in nodes if rank in ranks)
        return RankInfo(rank, world_size, mine.index(rank), len(mine), "ranktable")


def _ranks_per_node(path):
    try:
        servers = json.loads(Path(path).read_text(encoding="utf-8"))["server_list"]
        return [sorted(int(str(device["rank_id"])) for device in server["device"]) for server in servers]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataParallelError(
            "RANK_TABLE_FILE={path!r} cannot be read as a rank table ({type}: {error}): point it to a table made by "
            "hccl_tools.py, or start with mindnlp-dp run, which needs none.",
            path=path,
            type=type(error).__name__,
            error=error,
        ) from None
