"""Find what goes wrong on several ranks in a training script. It is read, never run."""

import ast
from collections.abc import Iterator
from pathlib import Path

from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.job.hardware import has_ascend
from mindnlp_dp_plugin.language import Message

# MindSpore: "PyNative Only support STAND_ALONE, DATA_PARALLEL"; MindNLP's Trainer runs PyNative.
FOREIGN_MODES = {"semi_auto_parallel", "auto_parallel", "hybrid_parallel"}
GENERATORS = {"default_rng", "RandomState", "Random"}  # which may be given a seed of their own
SEEDS = {"seed", "set_seed", "manual_seed"}


def read_script(path: Path) -> Finding:
    """Look for foreign parallel modes, random numbers without a seed, and late imports."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError) as error:
        way_out = Message("fix it; python -m py_compile shows where")
        return failure("{path} cannot be read as Python: {error}", way_out, path=path, error=error)
    for find, level, meaning, way_out in TROUBLES:
        if found := find(tree):
            line, what = found
            return level(meaning, way_out, path=path, line=line, what=what)
    return ok("{path}: nothing found that differs between ranks", path=path)


def foreign_mode(tree: ast.AST) -> tuple[int, str] | None:
    """The first call that sets a parallel mode which PyNative does not take."""
    for call in calls_in(tree):
        for keyword in call.keywords if last_word(call.func) == "set_auto_parallel_context" else []:
            mode = last_word(keyword.value).lower()
            if keyword.arg == "parallel_mode" and mode in FOREIGN_MODES:
                return call.lineno, mode
    return None


def unseeded_draw(tree: ast.AST) -> tuple[int, str] | None:
    """The first call of random or numpy.random, if the script seeds nothing and gives no seed."""
    calls = sorted(calls_in(tree), key=lambda call: call.lineno)
    if any(last_word(call.func) in SEEDS for call in calls):
        return None
    for call in calls:
        is_seeded = last_word(call.func) in GENERATORS and (call.args or call.keywords)
        name = ast.unparse(call.func)
        if name.startswith(("random.", "np.random.", "numpy.random.")) and not is_seeded:
            return call.lineno, name
    return None


def late_plugin(tree: ast.AST) -> tuple[int, str] | None:
    """Where MindSpore or MindNLP are imported before the plugin, if the plugin is imported at all."""
    lines = {}
    for node in tree.body:
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            lines.setdefault(module.partition(".")[0], node.lineno)
    plugin = lines.get("mindnlp_dp_plugin")
    earlier = (name for name in ("mindspore", "mindnlp") if plugin and lines.get(name, plugin) < plugin)
    return next(((lines[name], name) for name in earlier), None)


def calls_in(tree: ast.AST) -> Iterator[ast.Call]:
    """All calls of a script."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def last_word(expression: ast.expr) -> str:
    """What an expression ends with: a name, or a text in quotes."""
    return ast.unparse(expression).rpartition(".")[2].strip("'\"")


# What to look for, how serious it is, what it means, and the way out; the first that is found counts.
TROUBLES = [
    (
        foreign_mode,
        failure if has_ascend() else warning,  # MindSpore on CPU (2.10) ignores the mode, which was measured
        Message("{path}, line {line}, parallel_mode {what}: PyNative takes STAND_ALONE and DATA_PARALLEL only"),
        Message("delete that call: each rank holds the whole model, and the plugin averages the gradients"),
    ),
    (
        unseeded_draw,
        warning,
        Message("{path}, line {line}, {what} without a seed: masks, splits and orders differ between the ranks"),
        Message("seed first, the same on all ranks: random.seed(0), numpy.random.seed(0), mindspore.set_seed(0)"),
    ),
    (
        late_plugin,
        warning,
        Message("{path}, line {line}, {what} is imported before mindnlp_dp_plugin"),
        Message("make `import mindnlp_dp_plugin` the first import: under msrun and mpirun the ranks join there"),
    ),
]
