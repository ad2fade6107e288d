"""The ground both sides stand on: what launcher and ranks must agree on."""
