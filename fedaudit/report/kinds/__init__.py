"""The kinds of a report's rows: one module each, with its rule, its tables and its words.

To add one, copy the module that is most like it, and name it in `registry`.
"""
