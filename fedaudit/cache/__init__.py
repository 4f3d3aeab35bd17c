"""Answers of a model on disk, from which a killed audit resumes and shards are merged.

* `answers`: The cache of a model's answers: one sqlite file in the output folder.
* `engine`: An engine that keeps its answers in a cache, so that any interrupted attack can resume.
"""
