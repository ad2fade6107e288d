"""Resume from a checkpoint of two_epochs of resume_scenarios.py, and count what is read for that.

    python resume_reads.py OUTPUT CHECKPOINT

Leaves ``OUTPUT/read.rank<r>.json``: how many bytes this rank hashed, and how often it opened each file of CHECKPOINT,
and what it ended with.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import xxhash

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.checkpoint import store
from tests.programs.resume_scenarios import SCENARIOS, train

OUTPUT, CHECKPOINT = Path(sys.argv[1]), Path(sys.argv[2])
OPENED = Counter()


class Counting:
    """In place of the library, for ``store``."""

    num_bytes = 0

    def xxh3_128(self):
        hashed = xxhash.xxh3_128()

        class State:
            def update(_, chunk):
                self.num_bytes += len(chunk)
                hashed.update(chunk)

            def hexdigest(_):
                return hashed.hexdigest()

        return State()


def note(event, arguments):
    if event == "open" and str(arguments[0]).startswith(f"{CHECKPOINT}/"):
        OPENED[Path(arguments[0]).name] += 1


store.xxhash = Counting()
sys.addaudithook(note)
end = train(OUTPUT / "resumed", resume=str(CHECKPOINT), **{**SCENARIOS["two_epochs"], "save_strategy": "no"})
read = {"hashed": store.xxhash.num_bytes, "opened": OPENED, "parameters": end["parameters"]}
(OUTPUT / f"read.rank{dp.get_rank()}.json").write_text(json.dumps(read))
