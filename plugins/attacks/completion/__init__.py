"""Completion of documents and training pairs: verbatim and discoverable extraction.

* `discoverable`: Discoverable memorization (FewFedPIT, section 4.3, after Nasr et al. 2023).
* `edit_distance`: How far a continuation is from the true text, in edits of tokens (FedPII,
  appendix B.4).
* `gain_difference`: Difference in differences: whether some records gained more than others like
  them.
* `held_out_gain`: What a model gives of trained records beyond what it gives of others like them,
  as rows.
* `likelihood`: How likely a model that was not trained on a document continues it word for word.
* `measurements`: Verbatim extraction as rows and findings of a report.
* `own_words`: What a document says that neither its own beginning nor another document says.
* `pairs`: Documents cut in two, and how near a model's continuation comes (FedPII, appendix B.4).
* `training_pairs`: Training pairs, and how much of its answer a model gives when asked
  (FewFedPIT, section 4.3).
* `verbatim`: Verbatim extraction (FedPII, appendix B.4): documents that are continued word for
  word.
"""
