"""The only room that knows MindNLP's Trainer."""
