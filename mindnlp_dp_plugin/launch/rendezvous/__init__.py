"""The launchers of several hosts: how they find each other, and what they tell each other."""
