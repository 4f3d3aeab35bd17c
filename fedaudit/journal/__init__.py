"""Answers of models kept on disk, so that a stopped audit resumes and shards merge.

* `caching_engine`: An engine that keeps its answers in a journal, so that any interrupted attack
  can resume.
* `chunk_size`: How much is asked at once, and kept at once: little at first, and more as more is
  kept.
* `encryption`: The records of a journal as bytes: framed, checked, and sealed under a key.
* `header`: The header of a journal, its key, and the lock for writing to it.
* `journal`: A journal of a model's answers, written while an audit runs: a killed audit resumes
  from it.
* `shards`: What an audit asks and keeps: all of its questions or one shard's, and its journals.
* `spot_checks`: Asks a random sample of shards' questions again, because somebody else may have
  made them.
* `unfinished_piece`: Answers to a piece of questions that was interrupted, kept beside the complete
  pieces.
"""
