"""Text in, text out: corpora, tokenizer, batches, training, search, scores."""
