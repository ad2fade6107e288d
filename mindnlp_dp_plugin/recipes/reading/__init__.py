"""Read data in any encoding and kind of file, find its columns, and report what was assumed."""
