"""A small file takes little memory, whatever it holds and whichever command reads it.

Each command runs in a process of its own, whose peak is measured. The files are a tenth of what
would have taken gigabytes, so the limits on bytes and values are lowered to a tenth, too.
"""
