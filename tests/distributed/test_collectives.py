"""Every engine keeps the contract of ``Collective``: the same checks, on 2 and 3 real ranks."""

import ast
import json

import pytest

from tests.harness import PROGRAMS, run_ranks_successfully

PROGRAM = "collectives_contract.py"


def names_of_checks():
    """The functions under ``@check``, read from the program's text: importing it would run it."""
    functions = [node for node in ast.parse((PROGRAMS / PROGRAM).read_text()).body if isinstance(node, ast.FunctionDef)]
    return [function.name for function in functions if function.decorator_list]


ENGINES = [
    (1, "auto"),
    (2, "mpi"),
    (3, "mpi"),
    (2, "mccl"),
    (3, "mccl"),
    (2, "mccl", "primitives"),
    (3, "mccl", "primitives"),
]


@pytest.fixture(scope="module", params=ENGINES, ids=str)
def outcomes(request, tmp_path_factory):
    ranks, backend, *arguments = request.param
    output = tmp_path_factory.mktemp("contract")
    run_ranks_successfully(PROGRAM, output, *arguments, ranks=ranks, backend=backend, log_dir=output / "logs")
    return [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(ranks)]


@pytest.mark.parametrize("check", names_of_checks())
def test_contract(outcomes, check):
    if len(outcomes) == 1 and check in ("broadcast_object_gives_all_the_same", "mindspore_communication_answers"):
        pytest.skip("asks for a rank 1, or for MindSpore's cluster")
    assert [outcome[check] for outcome in outcomes] == [None] * len(outcomes)
