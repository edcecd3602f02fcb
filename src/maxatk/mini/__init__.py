"""The embedded default: problems, tokenizer and language model small enough for two cores."""
