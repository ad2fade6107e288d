"""The folder of a checkpoint, written whole or not at all, and read without running its code."""
