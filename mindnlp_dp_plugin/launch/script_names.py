"""The full names that a script uses, read from its text; nothing is run."""

import ast
from collections.abc import Iterator
from pathlib import Path

# What is made of operators that MindSpore's cluster runs, in a graph or outside.
OF_THE_CLUSTER = {
    *("DistributedGradReducer", "TrainOneStepCell", "TrainOneStepWithLossScaleCell", "Model"),
    *("AllReduce", "AllGather", "ReduceScatter", "Reduce", "Broadcast", "AlltoAll", "NeighborExchange"),
}


def names_in(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name from an imported module, as ``mindspore.nn.SGD``, whatever the script calls it, and its line.

    Args:
        tree: The script.
    """
    full = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                full[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            first, dot, rest = ast.unparse(node).partition(".")
            if first in full:
                yield f"{full[first]}{dot}{rest}", node.lineno


def cluster_name_in(script: Path) -> str | None:
    """The first name in a script that needs MindSpore's cluster; None if it cannot be read."""
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    found = ((line, name) for name, line in names_in(tree) if _is_of_the_cluster(name))
    return min(found, default=(0, None))[1]


def _is_of_the_cluster(name):
    words = name.split(".")
    return words[0] == "mindspore" and words[-1] in OF_THE_CLUSTER
