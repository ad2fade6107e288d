"""All there is to check of an engine, in one job.

    python engines.py OUTPUT

Leaves ``OUTPUT/rank<r>.json``: the outcome of the contract's checks (on MindSpore's cluster also for the engine that
MindSpore 2.3 and 2.4 would get) and of the reducers' cases.
"""

import json
import sys
from pathlib import Path

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.collectives import current, process_group
from tests.programs import collectives_contract, reducers

if __name__ == "__main__":
    outcome = {"contract": collectives_contract.run_checks(current()), "reducers": reducers.run_cases()}
    if current().world_size > 1 and not current().on_host:
        from mindnlp_dp_plugin.collectives.primitives import PrimitiveCollective

        joined, primitive = current(), PrimitiveCollective()
        primitive.local_rank, primitive.local_world_size = joined.local_rank, joined.local_world_size
        process_group._group = primitive
        outcome["contract of primitives"] = collectives_contract.run_checks(primitive)
        process_group._group = joined
    (Path(sys.argv[1]) / f"rank{dp.get_rank()}.json").write_text(json.dumps(outcome))
