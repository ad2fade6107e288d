"""Every engine keeps the contract of ``Collective``: the same checks, on 2 and 3 real ranks."""

import ast

import pytest

from tests.harness import PROGRAMS

PROGRAM = "collectives_contract.py"


def names_of_checks():
    """The functions under ``@check``, read from the program's text: importing it would run it."""
    functions = [node for node in ast.parse((PROGRAMS / PROGRAM).read_text()).body if isinstance(node, ast.FunctionDef)]
    return [function.name for function in functions if function.decorator_list]


ENGINES = [
    (1, "auto", "contract"),
    (2, "mpi", "contract"),
    (3, "mpi", "contract"),
    (2, "mccl", "contract"),
    pytest.param((3, "mccl", "contract"), marks=pytest.mark.long),
    (2, "mccl", "contract of primitives"),
    pytest.param((3, "mccl", "contract of primitives"), marks=pytest.mark.long),
]


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("check", names_of_checks())
def test_contract(engine_outcomes, engine, check):
    ranks, backend, contract = engine
    if ranks == 1 and check in ("broadcast_object_gives_all_the_same", "mindspore_communication_answers"):
        pytest.skip("asks for a rank 1, or for MindSpore's cluster")
    assert [outcome[contract][check] for outcome in engine_outcomes(ranks, backend)] == [None] * ranks
