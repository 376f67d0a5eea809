"""Where data is short: language models on few books, MiniLM fine-tuned, and what survives rounding."""
