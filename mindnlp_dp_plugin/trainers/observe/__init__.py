"""Watching training: what the doors' callbacks share. Each gives these classes its own library's base class."""
