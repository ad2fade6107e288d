"""What a rank does before its script runs: pin itself, join the others, hook MindNLP's Trainer."""
