"""Python first: every verb is a function, and what it returns is a ``Run``; ``import misdetect`` offers them all.

The command line parses options, calls one of these, and shows its document; nothing can be done there only. Studies are
functions of their names, made from their kinds when they are first asked for.
"""
