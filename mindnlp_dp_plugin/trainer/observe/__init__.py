"""What training takes: throughput, TensorBoard, traces."""
