"""What a script asks: which rank am I, gather, log once."""
