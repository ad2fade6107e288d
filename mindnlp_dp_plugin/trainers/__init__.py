"""The doors: whose training loop is served. Each is a package of its own, and none imports another."""
