"""Every engine keeps the contract of ``Collective``: the same checks, on 2 and 3 real ranks."""

import pytest

from tests.harness import decorated_functions

PROGRAM = "collectives_contract.py"


ENGINES = [
    pytest.param((1, "auto"), marks=pytest.mark.slow),
    (2, "mpi"),
    pytest.param((3, "mpi"), marks=pytest.mark.slow),
    (2, "mccl"),
    pytest.param((3, "mccl"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("check", decorated_functions(PROGRAM))
def test_contract(engine_outcomes, engine, check):
    ranks, backend = engine
    if ranks == 1 and check in ("broadcast_object_gives_all_the_same", "mindspore_communication_answers"):
        pytest.skip("asks for a rank 1, or for MindSpore's cluster")
    assert [outcome["contract"][check] for outcome in engine_outcomes(ranks, backend)] == [None] * ranks
