"""Measure training: throughput, trackers such as TensorBoard, traces."""

# Importing MindNLP's Trainer hooks it, which imports modules of this folder. Were one of them the first to import it,
# as in a script that begins with dp.TensorBoardCallback, the hook would find that module half imported.
import mindnlp.engine  # noqa: F401
