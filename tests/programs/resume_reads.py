"""Resume from a checkpoint of two_epochs of resume_scenarios.py, and count what is read for that.

    python resume_reads.py OUTPUT CHECKPOINT...

Leaves ``OUTPUT/read.rank<r>.json``, for each CHECKPOINT: how many bytes this rank hashed, and how often it opened each
of its files, and what it ended with.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import xxhash

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.checkpoint import store
from tests.programs.resume_scenarios import SCENARIOS, train

OUTPUT, *CHECKPOINTS = map(Path, sys.argv[1:])
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
    if event == "open" and isinstance(arguments[0], (str, Path)) and Path(arguments[0]).parent in CHECKPOINTS:
        OPENED[str(arguments[0])] += 1


sys.addaudithook(note)
found = []
for number, checkpoint in enumerate(CHECKPOINTS):
    store.xxhash, settings = Counting(), {**SCENARIOS["two_epochs"], "save_strategy": "no"}
    end = train(OUTPUT / f"resumed{number}", resume=str(checkpoint), **settings)
    opened = {Path(name).name: times for name, times in OPENED.items() if Path(name).parent == checkpoint}
    found.append({"hashed": store.xxhash.num_bytes, "opened": opened, "parameters": end["parameters"]})
(OUTPUT / f"read.rank{dp.get_rank()}.json").write_text(json.dumps(found))
