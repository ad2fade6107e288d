"""Measure training: throughput, trackers such as TensorBoard, traces."""

# Importing MindNLP's Trainer hooks it, which imports modules of this folder; so it comes before they begin.
import mindnlp.engine  # noqa: F401
