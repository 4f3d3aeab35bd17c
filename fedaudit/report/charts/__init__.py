"""Charts: Z by round, privacy against utility, heat map.

* `heat_map`: The map of memorization: prefixes against texts, the darker the more were drawn.
* `privacy_utility`: What variants of a study give away: round by round, and beside their utility
  (FewFedPIT, 4.3).
* `z_by_round`: How each client's Z stood after every round: as curves for a page, as a table for
  Markdown.
"""
