"""The parent process only: start the ranks of a job, watch them, end them. Imports neither MindSpore nor MindNLP."""
