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
    (Path(sys.argv[1]) / f"rank{dp.get_rank()}.json").write_text(json.dumps(outcome))
