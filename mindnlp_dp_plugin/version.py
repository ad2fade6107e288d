"""The version of the plugin, and nothing else, so that it can be read without importing MindSpore."""

__version__ = "0.3.0"
