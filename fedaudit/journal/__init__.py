"""Answers of models kept on disk, so that a stopped audit resumes and shards merge.

* `caching_engine`: An engine that keeps its answers in a journal, so that any interrupted attack
  can resume.
* `chunk_size`: The size of the pieces in which questions are asked and kept: small at first, then
  growing.
* `encryption`: Journal records as bytes: framed, checked and encrypted under a key.
* `header`: The header of a journal, its key, and the lock for writing to it.
* `journal`: A journal of a model's answers, written while an audit runs: a killed audit resumes
  from it.
* `shards`: What a process asks and keeps of an audit: all questions or one shard's, and its
  journals.
* `unfinished_piece`: Answers to a piece of questions that was interrupted, kept beside the complete
  pieces.
"""
