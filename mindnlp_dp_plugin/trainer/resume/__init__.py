"""Where training stands, and how it goes on from a checkpoint."""
