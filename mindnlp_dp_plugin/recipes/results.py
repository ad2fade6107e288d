"""From a trained Trainer to the folder that a run leaves."""

import shutil

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.recipes import report
from mindnlp_dp_plugin.recipes.models import merge_lora
from mindnlp_dp_plugin.recipes.prepared import PreparedData
from mindnlp_dp_plugin.recipes.run_folder import RunFolder, circumstances, write_json
from mindnlp_dp_plugin.recipes.scores import by_class


def leave_results(trainer, data: PreparedData, folder: RunFolder) -> dict:
    """Score the model, save it, and write metrics and report. To be called on all ranks.

    Args:
        trainer: After ``train()``. A model with LoRA is saved with the adapters worked into its weights.
        data: What it was trained on; all splits but ``train`` are scored.
        folder: Where to.

    Returns:
        What is in ``metrics.json``.
    """
    results = {"splits": {}, "label_names": data.label_names, **circumstances()}
    batch_size = trainer.args.per_device_train_batch_size
    for split in data.splits[1:]:
        scored = trainer.predict(data.pipeline(split, batch_size), metric_key_prefix=split)
        overall = {name: scored.metrics[f"{split}_{name}"] for name in ("accuracy", "f1", "loss")}
        results["splits"][split] = {**overall, **by_class(scored.predictions, scored.label_ids, data.label_names)}
    results["history"] = trainer.state.log_history
    if dp.is_main_process():
        model = merge_lora(trainer.model) if hasattr(trainer.model, "peft_config") else trainer.model
        model.save_pretrained(str(folder.model))
        data.tokenizer.save_pretrained(str(folder.model))
        write_json(folder.metrics, results)
        report.write(folder, results)
        shutil.rmtree(folder.prepared)
        print("\n" + summary(results, folder))
    dp.barrier()
    return results


def summary(results: dict, folder: RunFolder) -> str:
    """The last lines of a run: how good it is, and where everything lies."""
    scores = []
    for split, of in results["splits"].items():
        num_rows = sum(each["rows"] for each in of["per_class"])
        scores.append(f"accuracy {of['accuracy']:.3f}, F1 {of['f1']:.3f} on {num_rows} {split} rows")
    places = f"model: {folder.model}    report: {folder.report}    logs for TensorBoard: {folder.tensorboard}"
    return "\n".join([*scores, places])
