"""Records of documents: reading, annotating and scrubbing them."""
