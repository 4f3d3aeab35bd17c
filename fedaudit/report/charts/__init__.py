"""Charts, drawn by matplotlib as SVG: curves over rounds and budgets, trade-offs, a heat map.

* `coverage_by_budget`: What smaller budgets would have found, as curves: coverage, and what each
  query finds.
* `heat_map`: The map of memorization: prefixes against texts, the darker the more were drawn.
* `line_plot`: Plots of named lines and points: over rounds, over budgets, privacy against utility.
* `privacy_utility`: What variants of a study give away: round by round, and beside their utility
  (FewFedPIT, 4.3).
* `svg`: Figures of matplotlib as SVG that stands inside a page: its colors, and no more than
  shapes.
* `z_by_round`: How each client's Z stood after every round: as curves for a page, as a table for
  Markdown.
"""
