"""Time all-reduces between the ranks of this machine, and estimate what that means for training."""
