"""Count where training stands, and resume from a checkpoint."""
