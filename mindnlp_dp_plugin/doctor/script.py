"""Find what goes wrong on several ranks in a training script. It is read, never run."""

import ast
from contextlib import suppress
from pathlib import Path

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.hardware import has_ascend
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.script_names import names_in

# MindSpore: "PyNative Only support STAND_ALONE, DATA_PARALLEL"; MindNLP's Trainer runs PyNative.
FOREIGN_MODES = {"semi_auto_parallel", "auto_parallel", "hybrid_parallel"}
DRAWS = {
    *("random", "randint", "randrange", "rand", "randn", "choice", "choices", "sample", "shuffle", "permutation"),
    *("uniform", "normal", "standard_normal", "binomial", "integers", "default_rng"),
}
SEEDS = {"seed", "set_seed", "manual_seed"}
TRAINING = {"value_and_grad", "GradOperation", "TrainOneStepCell", "Model"}
AVERAGING = {
    *("prepare", "DistributedGradReducer", "DATA_PARALLEL", "AllReduce", "all_reduce"),
    *("ReduceScatter", "reduce_scatter", "reduce_scatter_tensor", "AllGather", "all_gather", "Allreduce"),
}
PREPARE = "model, optimizer, rows = dp.prepare(model, optimizer, rows)"


def read_script(path: Path) -> Finding:
    """Look for foreign parallel modes, loops without an average, random numbers without a seed, late imports."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (OSError, SyntaxError, ValueError) as error:
        return failure(
            "script",
            tr("{path} cannot be read as Python: {error}", path=path, error=error),
            tr("fix it; python -m py_compile shows where"),
        )
    if found := _foreign_mode(tree):
        way_out = tr("delete that call: each rank holds the whole model, and the plugin averages the gradients")
        level = failure if has_ascend() else warning  # measured: MindSpore 2.10 on CPU ignores it
        return level(
            "script",
            tr("{path}, {found}: PyNative takes STAND_ALONE and DATA_PARALLEL only", path=path, found=found),
            way_out,
        )
    if found := _apart(tree):
        way_out = tr("{prepare}, or MINDNLP_DP_TRAIN_APART=1 if each rank is meant to train its own", prepare=PREPARE)
        return failure(
            "script",
            tr("{path}, {found}: nobody averages, so each rank would train on its own", path=path, found=found),
            way_out,
        )
    if found := _unseeded_draw(tree):
        way_out = tr("seed first, the same on all ranks: random.seed(0), numpy.random.seed(0), mindspore.set_seed(0)")
        return warning(
            "script",
            tr("{path}, {found}: masks, splits and orders differ between the ranks", path=path, found=found),
            way_out,
        )
    if found := _late_plugin(tree):
        way_out = tr("make `import mindnlp_dp_plugin` the first import: under msrun and mpirun the ranks join there")
        return warning("script", f"{path}, {found}", way_out)
    return ok("script", tr("{path}: nothing found that differs between ranks", path=path))


def _calls(tree):
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(function) -> str:
    return ast.unparse(function).rpartition(".")[2]


def _foreign_mode(tree) -> str | None:
    for call in _calls(tree):
        for keyword in call.keywords:
            mode = ast.unparse(keyword.value).rpartition(".")[2].strip("'\"").lower()
            if (
                _name(call.func) == "set_auto_parallel_context"
                and keyword.arg == "parallel_mode"
                and mode in FOREIGN_MODES
            ):
                return tr("line {line}, parallel_mode {mode}", line=call.lineno, mode=mode)
    return None


def _apart(tree) -> str | None:
    """Where a loop of the script's own computes gradients, if nothing in the script averages them."""
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    words |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    words |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    modes = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == "data_parallel"}
    if modes or words & AVERAGING or any(word.endswith("Trainer") for word in words) or _is_meant():
        return None
    found = [
        (line, name)
        for name, line in names_in(tree)
        if name.split(".")[0] in ("mindspore", "mindnlp") and name.split(".")[-1] in TRAINING
    ]
    if not found or not _steps(tree):
        return None
    line, name = min(found)
    return tr("line {line}, {name}", line=line, name=name)


def _is_meant() -> bool:
    with suppress(DataParallelError):  # another check names a wrong setting
        return DataParallelConfig.from_env().train_apart
    return False


def _steps(tree) -> bool:
    """Whether the script calls an optimizer, or has it called: ``step``, ``train``, ``optimizer(gradients)``."""
    optimizers = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name) and "optim" in target.id.lower()
    }
    return any(_name(call.func) in {"step", "train", "fit", *optimizers} for call in _calls(tree))


def _unseeded_draw(tree) -> str | None:
    """The first draw from the generators of random or numpy, if the script seeds nothing and gives no seed."""
    calls = sorted(_calls(tree), key=lambda call: call.lineno)
    if any(_name(call.func) in SEEDS for call in calls):
        return None
    for call in calls:
        words = ast.unparse(call.func).split(".")
        is_generator = words[0] in ("random", "np", "numpy") and (words[0] == "random" or "random" in words[1:-1])
        takes_a_seed = words[-1] == "default_rng" and (call.args or call.keywords)
        if len(words) > 1 and is_generator and words[-1] in DRAWS and not takes_a_seed:
            return tr("line {line}, {call} without a seed", line=call.lineno, call=".".join(words))
    return None


def _late_plugin(tree) -> str | None:
    """Where MindSpore or MindNLP are imported before the plugin, if the plugin is imported at all."""
    lines = {}
    for node in tree.body:
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            lines.setdefault(module.partition(".")[0], node.lineno)
    plugin = lines.get("mindnlp_dp_plugin")
    earlier = [name for name in ("mindspore", "mindnlp") if plugin and lines.get(name, plugin) < plugin]
    if not earlier:
        return None
    return tr("line {line}, {name} is imported before mindnlp_dp_plugin", line=lines[earlier[0]], name=earlier[0])
