"""Data as users have them: any encoding, any kind of file, columns found; what was assumed is said."""
