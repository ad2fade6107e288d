"""All there is to check of an engine, in one job.

    python engines.py OUTPUT

Leaves ``OUTPUT/rank<r>.json``: the outcome of the contract's checks and of the reducers' cases.
"""

import json
import sys
from pathlib import Path

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.collectives import current
from tests.programs import collectives_contract, reducers

if __name__ == "__main__":
    outcome = {"contract": collectives_contract.run_checks(current()), "reducers": reducers.run_cases()}
<<<<<<< HEAD
=======
    if current().world_size > 1 and not current().uses_numpy:
        from mindnlp_dp_plugin.collectives.primitives import PrimitiveCollective

        joined, primitive = current(), PrimitiveCollective()
        primitive.local_rank, primitive.local_world_size = joined.local_rank, joined.local_world_size
        process_group._group = primitive
        outcome["contract of primitives"] = collectives_contract.run_checks(primitive)
        process_group._group = joined
>>>>>>> 5f1fecb (wip)
    (Path(sys.argv[1]) / f"rank{dp.get_rank()}.json").write_text(json.dumps(outcome))
