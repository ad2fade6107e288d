"""The launchers of several nodes: how they find each other, and what they tell each other."""
