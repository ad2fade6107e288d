"""Give a trained model to those who have no MindNLP: as MindIR, or as Hugging Face's transformers reads it."""

import json
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.run_folder import RunFolder

CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification")
NAMES = {"mindir": "model.mindir", "safetensors": "huggingface"}


def make_request(run: Path, kind: str, out: str | None, batch_size: int, max_length: int | None) -> str:
    """Check what is to be exported, before anything is loaded.

    Args:
        run: Folder of a recipe's run, or of a checkpoint.
        kind: ``mindir`` or ``safetensors``.
        out: Where to; None: into the run.
        batch_size: Rows of a graph.
        max_length: Tokens of its rows; None: as trained.

    Returns:
        JSON for ``export``.

    Raises:
        DataParallelError: If the format cannot be written, or the folder has no such model.
    """
    folder = run if (run / "config.json").exists() else RunFolder(run).model
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (architecture,) = config["architectures"]
    except (OSError, ValueError, KeyError, TypeError):
        raise DataParallelError(
            "{run!r} holds no model: give the --output-dir of a recipe, or a folder that save_pretrained made.",
            run=str(run),
        ) from None
    if kind == "mindir" and not architecture.endswith(CLASSIFIERS):
        raise DataParallelError(
            "--format mindir is for classification models, and {run!r} holds {architecture}: give safetensors.",
            run=str(run),
            architecture=architecture,
        )
    target = run / NAMES[kind] if out is None else Path(out)
    if target.exists():
        raise DataParallelError("{out!r} exists already: remove it, or give another --out.", out=str(target))
    if not target.absolute().parent.is_dir():
        raise DataParallelError("--out {out!r}: its folder does not exist.", out=str(target))
    kept = RunFolder(run).results() if RunFolder(run).metrics.exists() else {}
    shape = [batch_size, max_length or kept.get("settings", {}).get("max_length", RecipeOptions.max_length)]
    asked = {"folder": str(folder), "architecture": architecture, "kind": kind, "out": str(target), "shape": shape}
    return json.dumps({**asked, "std": kept.get("std"), "mean": kept.get("mean")})


def export(request: str) -> None:
    """What the process of ``mindnlp-dp export`` does.

    Args:
        request: What ``make_request`` returned.

    Raises:
        DataParallelError: If MindSpore cannot export the model, with its reason.
    """
    from mindnlp import transformers

    asked = json.loads(request)
    folder, out = asked["folder"], Path(asked["out"])
    model = getattr(transformers, asked["architecture"]).from_pretrained(folder)
    model.set_train(False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if asked["kind"] == "mindir":
        from mindnlp_dp_plugin.recipes.mindir import save_mindir

        difference = save_mindir(model, tokenizer, out, *asked["shape"])
        print(tr("{out} loaded again: logits differ by {difference:.1e} at most", out=out, difference=difference))
    else:
        from safetensors.numpy import load_file, save_file

        model.save_pretrained(str(out))
        tokenizer.save_pretrained(str(out))
        for weights in out.glob("*.safetensors"):  # transformers refuses those that are marked as NumPy's
            save_file(load_file(weights), weights, metadata={"format": "pt"})
        print(tr("{out}: a folder for from_pretrained of Hugging Face's transformers", out=out))
    if asked["std"] is not None:
        known = {"std": asked["std"], "mean": asked["mean"]}
        print(tr("its numbers are in standard deviations: multiply them by {std} and add {mean}", **known))
