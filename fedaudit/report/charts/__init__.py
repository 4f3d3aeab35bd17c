"""Charts, drawn by matplotlib as SVG: curves over rounds and budgets, trade-offs, a heat map."""
