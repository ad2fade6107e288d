"""The launchers of several nodes: how they find each other, and agree on how a job ends."""
