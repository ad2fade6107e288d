"""As much of MindSpore as the launcher touches: its scheduler."""
