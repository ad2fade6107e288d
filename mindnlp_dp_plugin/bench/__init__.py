"""How fast the ranks of this machine are together: all-reduces timed, and what that means for training."""
