"""Answers of a model on disk, from which a killed audit resumes and shards are merged."""
