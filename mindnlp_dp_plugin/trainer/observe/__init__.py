"""Measure training: throughput, TensorBoard, traces."""
