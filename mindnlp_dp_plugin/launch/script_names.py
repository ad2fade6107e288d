"""The full names that a script uses, read from its text; nothing is run."""

import ast
from collections.abc import Iterator
from pathlib import Path

PLUGIN = "mindnlp_dp_plugin"
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


def parsed(script: Path) -> ast.AST:
    """A script's syntax tree; that of an empty one if it cannot be read."""
    try:
        return ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def imports_the_plugin(command: list[str]) -> bool:
    """Whether a script names the plugin in one of its imports; False for a module, which is not looked for.

    Args:
        command: ``[-m] script args...``
    """
    imports = [node for node in ast.walk(parsed(Path(command[0]))) if isinstance(node, (ast.Import, ast.ImportFrom))]
    named = {alias.name for node in imports for alias in node.names} | {getattr(node, "module", "") for node in imports}
    return any(str(name).partition(".")[0] == PLUGIN for name in named)


def cluster_name_in(script: Path) -> str | None:
    """The first name in a script that needs MindSpore's cluster; None if it cannot be read."""
    tree = parsed(script)
    found = ((line, name) for name, line in names_in(tree) if _is_of_the_cluster(name))
    return min(found, default=(0, None))[1]


def _is_of_the_cluster(name):
    words = name.split(".")
    return words[0] == "mindspore" and words[-1] in OF_THE_CLUSTER
