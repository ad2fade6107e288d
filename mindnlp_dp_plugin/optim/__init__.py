"""What stands between averaged gradients and the parameters that an optimizer steps."""
