"""Every model of MindNLP with a head that users train on text: found, made tiny, and given rows to train on."""
